"""What a reduced batch is: one row per key, and the counts of what it was made from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from airflow_lake_provider.spark_jobs.key_ranges import KeyRanges

# Columns of ours inside a batch; DELETED is the only one that leaves with the changes.
ARRIVAL = "_lake_arrival"
UNPARSABLE = "_lake_unparsable"
DELETED = "_lake_deleted"


@contextmanager
def released_on_failure() -> Iterator[list[DataFrame]]:
    """Collect cached frames; when the block fails they are given back, so that a retry finds the memory free."""
    frames: list[DataFrame] = []
    try:
        yield frames
    except BaseException:
        for frame in frames:
            frame.unpersist()
        raise


@dataclass(frozen=True, kw_only=True)
class ChangeBatch:
    """The last change per key of a batch, ready to be applied.

    :param changes: one row per key: the columns of the batch and the boolean ``_lake_deleted``; cached. In a row
        that deletes, columns other than the keys mean nothing.
    :param rows: rows or change events that were read.
    :param keys: different keys among them; ``upserts + deletes``.
    :param key_ranges: of ``changes``.
    :param reads_table: whether the table gave values to ``changes``.
    :param absent: columns that some of the final rows do not have, though others do, with how many; NULL in those rows.
    :param cached: what :meth:`release` gives back.
    """

    changes: DataFrame
    rows: int
    keys: int
    upserts: int
    deletes: int
    key_ranges: KeyRanges | None = None
    reads_table: bool = False
    absent: dict[str, int] = field(default_factory=dict)
    cached: tuple[DataFrame, ...] = ()

    def release(self) -> None:
        """Give the cached rows back; ``changes`` is computed anew when it is used after that."""
        for frame in self.cached:
            frame.unpersist()
