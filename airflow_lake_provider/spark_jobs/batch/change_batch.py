"""Reduced batch: one row per key, and the counts of the rows that it was made from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.event_marks import EventMarks, EventOrdering
from airflow_lake_provider.contracts.open_key_changes import CutDelete
from airflow_lake_provider.spark_jobs.batch.key_ranges import KeyRanges

# Columns of ours inside a batch; MARKERS are those that leave with the changes.
ARRIVAL = "_lake_arrival"
UNPARSABLE = "_lake_unparsable"
DELETED = "_lake_deleted"
RESET = "_lake_reset"
RESET_ORDER = "_lake_reset_order"
MARKERS = (DELETED, RESET, RESET_ORDER)


@contextmanager
def released_on_failure() -> Iterator[list[DataFrame]]:
    """Collect cached frames; when the block fails they are given back, so that a retry finds the memory free."""
    frames: list[DataFrame] = []
    try:
        yield frames
    except BaseException:
        release_frames(*frames)
        raise


def release_frames(*frames: DataFrame) -> None:
    """Give cached frames back; a driver that cannot has lost them, and fails neither a commit nor another error."""
    for frame in frames:
        with suppress(Exception):
            frame.unpersist()


@dataclass(frozen=True, kw_only=True)
class ChangeBatch:
    """The last change per key of a batch, ready to be applied.

    :param changes: one row per key: the columns of the batch and the boolean ``_lake_deleted``; cached. In a row
        that deletes, columns other than the keys mean nothing. ``_lake_reset``, where it is there, tells keys that
        were deleted in the batch before their row: nothing of the table's row counts. ``_lake_reset_order``, where that
        is compared with the table's, has the order of that delete.
    :param rows: rows or change events that were read.
    :param keys: different keys among them; ``upserts + deletes``.
    :param patches: keys among them of which only single values change; in ``changes`` are those that the table has.
    :param key_ranges: of ``changes``.
    :param reads_table: whether the table gave values to ``changes``.
    :param absent: columns that some of the final rows do not have, though others do, with how many; NULL in those rows.
    :param completed: columns that no event has; ``changes`` may have them of the table's rows.
    :param cut_deletes: halves of key changes, to be remembered with a snapshot that has the old row.
    :param last_rows: by round of ``cut_deletes``, rows as they were before those deletes, for deletes of changed rows.
    :param ordering: what was known of the order of change events; None for plain rows.
    :param dropped: change events that were delivered again and are not in ``changes``; None for plain rows.
    :param marks: what will have been applied of a change stream once this is.
    :param deleted_keys: what a side table is to keep of deletes, see ``KeyedTable.keep_deleted_keys``; None for none.
    :param epoch: of the positions in ``changes``, with ``ordering="key"``; None where they have none.
    :param cached: what :meth:`release` gives back.
    """

    changes: DataFrame
    rows: int
    keys: int
    upserts: int
    deletes: int
    patches: int = 0
    key_ranges: KeyRanges | None = None
    reads_table: bool = False
    absent: dict[str, int] = field(default_factory=dict)
    completed: tuple[str, ...] = ()
    cut_deletes: tuple[CutDelete, ...] = ()
    last_rows: dict[int, DataFrame] = field(default_factory=dict)
    ordering: EventOrdering | None = None
    dropped: int | None = None
    marks: EventMarks | None = None
    deleted_keys: DataFrame | None = None
    epoch: int | None = None
    cached: tuple[DataFrame, ...] = ()

    def with_deleted_column(self, column: str) -> ChangeBatch:
        """Add the column in which the table keeps whether a row is deleted.

        :raises BadInputError: the batch has a column of that name.
        """
        if column.lower() in (name.lower() for name in self.changes.columns):
            raise BadInputError(
                f"the batch has a column {column!r}, which deletes='soft' writes; leave it out with exclude_columns, "
                "or choose another deleted_column"
            )
        return replace(self, changes=self.changes.withColumn(column, sf.col(DELETED)))

    def release(self) -> None:
        """Give the cached rows back; ``changes`` is computed anew when it is used after that."""
        release_frames(*self.cached)
