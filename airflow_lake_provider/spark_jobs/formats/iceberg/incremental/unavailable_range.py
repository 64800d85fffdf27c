"""Ranges of an incremental read that cannot be had: an expired start, rows without row ids, an empty table."""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.contracts.column_types import changed_types, other_types
from airflow_lake_provider.contracts.errors import RangeUnavailableError
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


def snapshot_of(table: IcebergTable, snapshot_id: int, role: str) -> Any:
    """Return a snapshot of the table's metadata.

    :param role: of the range, such as ``from_snapshot``.
    :raises RangeUnavailableError: it was expired, or is of another table.
    """
    snapshot = table.java.snapshot(snapshot_id)
    if snapshot is None:
        snapshot = table.refresh().java.snapshot(snapshot_id)
    if snapshot is None:
        raise RangeUnavailableError(
            f"{table.name}: {role} {snapshot_id} is not in the table's metadata: it was expired, or is of another "
            "table. Rebuild with full_refresh=True, or let on_gap='full' do so; with read_changes, read from None"
        )
    return snapshot


def snapshot_with_lineage(table: IcebergTable, from_snapshot: int, after: Any) -> Any:
    """Return the start of a range, whose rows have row ids, as those of its end have.

    :raises RangeUnavailableError: it was expired, or one of the two was written before format version 3.
    """
    before = snapshot_of(table, from_snapshot, "from_snapshot")
    for snapshot in (before, after):
        if snapshot.firstRowId() is None:
            raise RangeUnavailableError(
                f"{table.name}: snapshot {snapshot.snapshotId()} was written before the table had format version 3, so "
                "its rows have no row ids to compare by. Rebuild once with full_refresh=True, or let on_gap='full' do "
                "so; with read_changes, read from None"
            )
    return before


def refuse_other_types(table: IcebergTable, before: Any, after: Any) -> None:
    """Refuse a range over a replacement of the table in which a column got another type under its old id.

    :raises RangeUnavailableError: rows of the start cannot be read beside those of the end.
    """
    changed = changed_types(table.schema_of(before.snapshotId()), table.schema_of(after.snapshotId()))
    if changed:
        raise RangeUnavailableError(other_types(str(table.name), str(before.snapshotId()), changed))


def refuse_range_of_empty_table(table: IcebergTable, from_snapshot: int | None) -> None:
    """Refuse a range that has a start and no end.

    :raises RangeUnavailableError: main has no snapshot.
    """
    if from_snapshot is not None:
        snapshot_of(table, from_snapshot, "from_snapshot")
        raise RangeUnavailableError(
            f"{table.name}: main has no snapshot, so there is no end for a range from {from_snapshot}; give to_snapshot"
        )
