"""Find out which files are a table's own: by where it lies and lay, and where the other tables of its namespace lie."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.specs.snapshot_expiry import REMEDY, ForeignFiles
from airflow_lake_provider.iceberg.file_ownership import FileOwners, TableLocation, declared_paths
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import hadoop_settings
from airflow_lake_provider.spark_jobs.jvm.java_errors import GatewayError, first_line

# Folders of earlier metadata of which one file is read.
_FOLDERS = 10


def file_owners(table: IcebergTable) -> tuple[FileOwners, list[str]]:
    """Return whose files are whose, and what was not looked at."""
    looked = other_tables(table)
    hadoop = hadoop_settings(table.spark)
    now = FileOwners(
        table=_located(table, table.java, table.name.table),
        others=tuple(looked.locations),
        warehouse=table.settings().get("warehouse"),
        default_root=str(hadoop.get("fs.defaultFS", "file:///")),
    )
    earlier = tuple(_earlier_locations(table, now))
    return (replace(now, earlier=earlier) if earlier else now), looked.not_checked


def refuse_twins(table: IcebergTable, owners: FileOwners, foreign: ForeignFiles) -> None:
    """Refuse a table that the namespace has twice: what one expires, the other may read.

    :raises UnsupportedError: it has.
    """
    twins = [f"{name} has the same {what}" for name, what in owners.twins()]
    if twins and foreign is ForeignFiles.REFUSE:
        raise UnsupportedError(
            f"{table.name}: {'; '.join(twins)}, so files that one table expires are files that the other one reads. "
            f"Nothing was changed. Drop one of them without PURGE. {REMEDY}"
        )


def _earlier_locations(table: IcebergTable, owners: FileOwners) -> list[TableLocation]:
    """Return where the table lay before, as its earlier metadata says; a file of another table's says nothing."""
    newest: dict[str, str] = {}
    for entry in table.metadata_log():
        if owners.owner_of(entry) != owners.table.name:
            newest[entry.rpartition("/")[0]] = entry
    read = (_location_in(table, entry) for entry in list(newest.values())[-_FOLDERS:])
    return [location for location in read if location is not None and location.uuid == owners.table.uuid]


def _location_in(table: IcebergTable, entry: str) -> TableLocation | None:
    try:
        metadata = table.iceberg.TableMetadataParser.read(table.java.io(), entry)
        return TableLocation(
            name=str(table.name),
            location=str(metadata.location()),
            declared=declared_paths(dict(metadata.properties())),
            uuid=str(metadata.uuid()),
        )
    except GatewayError:
        return None


MOST_TABLES = 1_000
SECONDS = 10.0


@dataclass
class NamespaceTables:
    """Tables of a namespace.

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
        looked.not_checked.append(f"the other tables of the namespace, which could not be listed ({first_line(error)})")
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


def _located(table: IcebergTable, java: Any, name: str) -> TableLocation:
    current = java.operations().current()
    return TableLocation(
        name=".".join((*table.name.namespace, name)),
        location=str(current.location()),
        declared=declared_paths(dict(java.properties())),
        uuid=str(current.uuid()),
        metadata_file=str(current.metadataFileLocation()),
    )
