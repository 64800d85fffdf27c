"""A table's numbers as PyIceberg reads them, the same that the driver reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.job_report import TableState
from airflow_lake_provider.contracts.property_values import whole_number

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def total(snapshot: Snapshot | None, name: str) -> int:
    """Return a ``total-*`` number of a snapshot's summary; 0 where it is not said, or is no number.

    :param name: for example ``total-data-files``.
    """
    summary = snapshot.summary if snapshot is not None else None
    return whole_number(summary[name] if summary is not None else None) or 0


def state_of(table: Table) -> TableState:
    """Read the counts of main's head; one small file is opened, the head's manifest list.

    Rows are live rows as far as position deletes go; equality deletes are not subtracted.
    """
    snapshots = len(table.metadata.snapshots)
    head = table.current_snapshot()
    if head is None:
        return TableState(snapshots=snapshots)
    deleted = total(head, "total-position-deletes")
    return TableState(
        snapshot=str(head.snapshot_id),
        rows=total(head, "total-records") - deleted,
        data_files=total(head, "total-data-files"),
        data_bytes=total(head, "total-files-size"),
        delete_files=total(head, "total-delete-files"),
        deleted_rows=deleted,
        equality_deletes=total(head, "total-equality-deletes"),
        manifests=len(head.manifests(table.io)),
        snapshots=snapshots,
    )
