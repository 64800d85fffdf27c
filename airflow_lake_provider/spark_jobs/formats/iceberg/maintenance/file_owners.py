"""Find out which files are a table's own: by where it lies and lay, and where the other tables of its namespace lie."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.specs.maintenance import FOREIGN_FILES_REMEDY, ForeignFiles
from airflow_lake_provider.iceberg.file_ownership import DECLARED_PATHS, FileOwners, TableLocation, declared_paths
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import hadoop_settings, once_a_driver
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems
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
            f"Nothing was changed. Drop one of them without PURGE. {FOREIGN_FILES_REMEDY}"
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
# Tables that are made or registered meanwhile are listed each time. This is how long one that is there may say of
# itself that it lies elsewhere before an expiry sees it: no more than passes between its look and its deletes anyway.
LOOK_SECONDS = 60.0


@dataclass
class NamespaceTables:
    """Tables of a namespace.

    :param not_checked: a sentence for each reason why others were not.
    """

    locations: list[TableLocation] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)


@dataclass
class _Looks:
    """Keeps what tables of a namespace say of themselves, so that not each task of a fleet looks at all of them."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: dict[str, tuple[float, TableLocation]] = field(default_factory=dict)

    def recent(self, name: str) -> TableLocation | None:
        """Return the location of a table that was looked at not long ago."""
        seen, location = self._seen.get(name, (0.0, None))
        return location if monotonic() - seen < LOOK_SECONDS else None

    def keep(self, name: str, location: TableLocation) -> TableLocation:
        self._seen[name] = monotonic(), location
        return location


@once_a_driver
def _looks(_spark: SparkSession, _catalog: str, _namespace: tuple[str, ...]) -> _Looks:
    return _Looks()


def other_tables(table: IcebergTable, *, most: int = MOST_TABLES, seconds: float = SECONDS) -> NamespaceTables:
    """Return the other tables of a table's namespace, as many as can be looked at.

    :param most: tables to look at.
    :param seconds: time after which no further table is looked at; a table that was begun is waited for.
    """
    looked = NamespaceTables()
    catalog = table.java_catalog
    try:
        listed = catalog.listTables(table.java_namespace)
        names = JavaItems(table.spark, listed).texts(java_functions(table.spark).table_name)
    except GatewayError as error:
        looked.not_checked.append(f"the other tables of the namespace, which could not be listed ({first_line(error)})")
        return looked
    others = [name for name in names if name != table.name.table]
    looks = _looks(table.spark, table.catalog, table.name.namespace)
    with looks.lock:
        until, unreadable, too_late = monotonic() + seconds, 0, 0
        for name in others[:most]:
            location = looks.recent(name)
            if location is None and monotonic() > until:
                too_late += 1
                continue
            try:
                looked.locations.append(location or looks.keep(name, _look(table, catalog, name)))
            except GatewayError:
                unreadable += 1
    if too_late:
        looked.not_checked.append(f"{too_late:,} tables of the namespace, for which {seconds:g} seconds were over")
    if len(others) > most:
        looked.not_checked.append(f"tables of the namespace beyond the first {most:,} of {len(others):,}")
    if unreadable:
        looked.not_checked.append(f"{unreadable:,} tables of the namespace that cannot be read")
    return looked


def _look(table: IcebergTable, catalog: Any, name: str) -> TableLocation:
    identifier = table.iceberg.catalog.TableIdentifier.of(table.java_namespace, name)
    return _located(table, catalog.loadTable(identifier), name)


def _located(table: IcebergTable, java: Any, name: str) -> TableLocation:
    current = java.operations().current()
    properties = current.properties()
    return TableLocation(
        name=".".join((*table.name.namespace, name)),
        location=str(current.location()),
        # Asked for one by one, as each entry of a map of Java takes a command or two.
        declared=declared_paths({path: properties.get(path) or "" for path in DECLARED_PATHS}),
        uuid=str(current.uuid()),
        metadata_file=str(current.metadataFileLocation()),
    )
