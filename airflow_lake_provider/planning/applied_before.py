"""Read the properties that said what main had applied when it was at a snapshot, from earlier versions of the metadata.

They are of the table, not of a snapshot, so that moving main back does not move them back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.run_key import RecentRunKeys
from airflow_lake_provider.contracts.source_position import SourcePosition, newest_generation
from airflow_lake_provider.contracts.table_properties import POSITION_PREFIX, RUN_KEY, applied_properties
from airflow_lake_provider.tables.iceberg.ancestors import ancestors

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

# By which the clocks of two writers may differ; Iceberg's own tolerance.
_CLOCKS_MS = 60_000


def applied_properties_at(table: Table, snapshot_id: int) -> dict[str, str] | None:
    """Return the properties of the last version of the metadata in which main was at a snapshot before it moved on.

    Only one file is read for each commit that was made while main was there, and a few before it.

    :param table: loaded now.
    :return: None where the metadata log does not reach back so far, or the version is gone.
    """
    found = None
    for version in _versions(table, snapshot_id):
        if version.current_snapshot_id != snapshot_id:
            if found is not None:
                return found
        elif is_of_main(version, version.properties):
            found = applied_properties(version.properties)
    return found


def is_of_main(metadata: TableMetadata, properties: Mapping[str, str]) -> bool:
    """Tell whether properties say nothing of a snapshot that main has not got: nobody else rolled it back."""
    lineage = list(summaries(metadata, metadata.current_snapshot()))
    sources = [name.removeprefix(POSITION_PREFIX) for name in properties if name.startswith(POSITION_PREFIX)]
    if any(SourcePosition.read(properties, name).is_rolled_back(newest_generation(lineage, name)) for name in sources):
        return False
    every = (snapshot.summary.additional_properties for snapshot in metadata.snapshots if snapshot.summary)
    foreign = {summary.get(RUN_KEY) for summary in every} - {summary.get(RUN_KEY) for summary in lineage}
    return not any(key in foreign for key, _ in RecentRunKeys.read(properties).entries)


def summaries(metadata: TableMetadata, head: Snapshot | None) -> Iterator[dict[str, str]]:
    """Yield the summaries of a snapshot and of its unexpired ancestors, newest first."""
    for snapshot in ancestors(metadata, head):
        yield snapshot.summary.additional_properties if snapshot.summary else {}


def _versions(table: Table, snapshot_id: int) -> Iterator[TableMetadata]:
    """Yield the versions of the metadata since a snapshot was made, oldest first; those that are gone are left out."""
    from pyiceberg.serializers import FromInputFile

    snapshot = table.snapshot_by_id(snapshot_id)
    since = (snapshot.timestamp_ms if snapshot is not None else 0) - _CLOCKS_MS
    for entry in table.metadata.metadata_log:
        if entry.timestamp_ms >= since:
            try:
                yield FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
            except (FileNotFoundError, ValueError):
                # Removed by another tool; a version in which main was elsewhere would not be missed.
                continue
    yield table.metadata
