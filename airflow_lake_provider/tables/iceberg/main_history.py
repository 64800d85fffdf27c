"""Read the history of main from a table's metadata, to tell what its properties still say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.applied_history import AppliedOfSource, CommitFact, MainHistory
from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.open_key_changes import OpenKeyChanges
from airflow_lake_provider.contracts.source_position import SourcePosition
from airflow_lake_provider.contracts.table_properties import POSITION_PREFIX

if TYPE_CHECKING:
    from pyiceberg.table import Table


def main_history(table: Table) -> MainHistory:
    """Return the snapshots that are known, those of main apart.

    :param table: loaded now.
    """
    commits = (
        CommitFact(
            id=snapshot.snapshot_id,
            parent=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number or 0,
            at=snapshot.timestamp_ms,
            summary=snapshot.summary.additional_properties if snapshot.summary else {},
        )
        for snapshot in table.metadata.snapshots
    )
    main = table.metadata.refs.get("main")
    return MainHistory.of(main.snapshot_id if main else None, commits)


def applied_of_source(table: Table | None, source_name: str) -> AppliedOfSource:
    """Return what a table says it has applied of a source; the list of files may lie in a file and is not read.

    :param table: loaded now; None for one that does not exist.
    :raises BrokenMetadataError: a property is not what this package writes.
    """
    if table is None:
        return AppliedOfSource(position=SourcePosition(), newest=None, epoch=1)
    name = ".".join(table.name())
    position = SourcePosition.read(table.properties, source_name, name)
    return AppliedOfSource.of(position, table.properties, main_history(table), source_name, name)


def broken_position(table: Table) -> str | None:
    """Return what is wrong with a position that a table keeps of a source; None where all of them can be read.

    :param table: loaded now.
    """
    names = [name.removeprefix(POSITION_PREFIX) for name in table.properties if name.startswith(POSITION_PREFIX)]
    try:
        for name in sorted(names):
            applied_of_source(table, name)
            OpenKeyChanges.read(table.properties, name, ".".join(table.name()))
    except BrokenMetadataError as broken:
        return str(broken)
    return None
