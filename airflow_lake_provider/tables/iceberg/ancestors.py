"""Walk from a snapshot of loaded metadata to its ancestors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.history_checks import circular_history

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


def ancestors(metadata: TableMetadata, head: Snapshot | None) -> Iterator[Snapshot]:
    """Yield a snapshot and its unexpired ancestors, newest first.

    PyIceberg's ``ancestors_of`` never ends on a circle, and looks through all snapshots at each step.

    :raises BrokenMetadataError: a snapshot is its own ancestor.
    """
    known = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    for _ in range(len(known)):
        if head is None:
            return
        yield head
        parent = head.parent_snapshot_id
        head = known.get(parent) if parent is not None else None
    if head is not None:
        raise circular_history(metadata.location, head.snapshot_id)
