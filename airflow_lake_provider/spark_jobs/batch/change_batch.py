"""Columns of ours inside a batch, the frames that it keeps in memory, and its records that are put aside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pyspark.sql import DataFrame

# MARKERS are those that leave with the changes.
ARRIVAL = "_lake_arrival"
UNPARSABLE = "_lake_unparsable"
RECORD = "_lake_record"
PLACE = "_lake_place"
TEXTS_OF_TIMES = "_lake_texts_of_times"
DELETED = "_lake_deleted"
RESET = "_lake_reset"
RESET_ORDER = "_lake_reset_order"
MARKERS = (DELETED, RESET, RESET_ORDER)
# A condition, and SQL of what is wrong with a record in words, and of its class.
Fault = tuple[str, str, str]
LETTER_ID, REPLAYED_AT = "letter_id", "replayed_at"


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
class DeadLetters:
    """Records of a batch that are put aside.

    :param target: table of the batch.
    :param rows: of the table of dead letters, one for each; an id is the same in each try.
    :param judged: all records; cached where they are parsed.
    """

    target: str
    count: int
    rows: DataFrame
    judged: DataFrame

    def release(self) -> None:
        """Give the records back, once the others are written."""
        release_frames(self.judged)
