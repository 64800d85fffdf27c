"""Look at the other tables of a namespace, to learn where they lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from airflow_lake_provider.contracts.table_locations import TableLocation, declared_paths
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_errors import GatewayError

MOST_TABLES = 1_000
SECONDS = 10.0


@dataclass
class NamespaceTables:
    """Tables of a namespace.

    :param locations: of those that were looked at.
    :param not_checked: a sentence for each reason why others were not.
    """

    locations: list[TableLocation] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)


def other_tables(table: IcebergTable, *, most: int = MOST_TABLES, seconds: float = SECONDS) -> NamespaceTables:
    """Return the other tables of a table's namespace, as many as can be looked at.

    :param most: tables to look at.
    :param seconds: time after which no further table is looked at; a table that was begun is waited for.
    """
    looked = NamespaceTables()
    catalog = table.java_catalog
    try:
        listed = catalog.listTables(table.java_namespace)
    except GatewayError as error:
        looked.not_checked.append(
            f"the other tables of the namespace, which could not be listed ({_first_line(error)})"
        )
        return looked
    others = [each for each in listed if str(each.name()) != table.name.table]
    until, unreadable = monotonic() + seconds, 0
    for place, identifier in enumerate(others[:most]):
        if monotonic() > until:
            others_left = len(others) - place
            looked.not_checked.append(
                f"{others_left:,} tables of the namespace, for which {seconds:g} seconds were over"
            )
            break
        try:
            looked.locations.append(_located(table, catalog.loadTable(identifier), str(identifier.name())))
        except GatewayError:
            unreadable += 1
    if len(others) > most:
        looked.not_checked.append(f"tables of the namespace beyond the first {most:,} of {len(others):,}")
    if unreadable:
        looked.not_checked.append(f"{unreadable:,} tables of the namespace that cannot be read")
    return looked


def location_of(table: IcebergTable) -> TableLocation:
    """Return where the table itself lies."""
    return _located(table, table.java, table.name.table)


def _located(table: IcebergTable, java: Any, name: str) -> TableLocation:
    current = java.operations().current()
    return TableLocation(
        name=".".join((*table.name.namespace, name)),
        location=str(current.location()),
        declared=declared_paths(dict(java.properties())),
        uuid=str(current.uuid()),
        metadata_file=str(current.metadataFileLocation()),
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
