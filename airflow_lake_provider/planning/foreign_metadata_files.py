"""Refuse, from metadata alone, an expiry that would delete metadata files outside of the table's locations.

Data files, delete files and manifests are named by files that only the driver reads, and so are other tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.snapshot_expiry_spec import REMEDY, ForeignFiles, SnapshotExpirySpec
from airflow_lake_provider.contracts.table_locations import FileOwners, TableLocation, declared_paths

if TYPE_CHECKING:
    from pyiceberg.table import Table


def refuse_foreign_metadata_files(table: Table, spec: SnapshotExpirySpec, expired: Collection[int]) -> None:
    """Refuse manifest lists and statistics of expired snapshots that lie elsewhere.

    A table whose metadata log names another place may have lain there: then the driver decides.

    :param expired: ids of the snapshots that go.
    :raises UnsupportedError: there is one, and the spec does not say what becomes of it.
    """
    owners = _owners(table, spec)
    if spec.foreign_files is not ForeignFiles.REFUSE or any(
        owners.owner_of(entry.metadata_file) != spec.table for entry in table.metadata.metadata_log
    ):
        return
    foreign = [said for said, path in _files(table, expired) if owners.owner_of(path) != spec.table]
    if foreign:
        raise UnsupportedError(
            f"{spec.table}: the expiry would delete what lies outside of the table's locations: "
            f"{'; '.join(foreign[:3])}. See who wrote these names into its metadata. {REMEDY}"
        )


def _owners(table: Table, spec: SnapshotExpirySpec) -> FileOwners:
    location = TableLocation(name=spec.table, location=table.location(), declared=declared_paths(table.properties))
    return FileOwners(table=location, warehouse=table.catalog.properties.get("warehouse"))


def _files(table: Table, expired: Collection[int]) -> Iterator[tuple[str, str]]:
    """Yield what to say of each file, and its location."""
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id in expired and snapshot.manifest_list:
            yield f"manifest list {snapshot.manifest_list}", snapshot.manifest_list
    for statistics in (*table.metadata.statistics, *table.metadata.partition_statistics):
        if statistics.snapshot_id in expired:
            yield f"statistics file {statistics.statistics_path}", statistics.statistics_path
