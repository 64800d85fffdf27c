"""Check loaded metadata once, before anything walks along it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.history_checks import refuse_broken_history

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


def refuse_broken_metadata(name: str, metadata: TableMetadata) -> None:
    """Refuse metadata whose snapshots no writer can have made.

    :param name: of the table.
    :raises BrokenMetadataError: naming what is wrong.
    """
    snapshots = ((s.snapshot_id, s.parent_snapshot_id, s.timestamp_ms) for s in metadata.snapshots)
    moved = (entry.timestamp_ms for entry in metadata.snapshot_log)
    written = (entry.timestamp_ms for entry in metadata.metadata_log)
    refs = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
    refuse_broken_history(name, snapshots, (*moved, *written), refs)
