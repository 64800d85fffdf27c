"""Columns of ours inside a batch, and the frames that it keeps in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.sql import DataFrame

# MARKERS are those that leave with the changes.
ARRIVAL = "_lake_arrival"
UNPARSABLE = "_lake_unparsable"
RECORD = "_lake_record"
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
