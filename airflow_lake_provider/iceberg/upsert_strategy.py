"""Strategies by which an upsert reaches the rows that it replaces."""

from __future__ import annotations

from enum import Enum


class UpsertStrategy(str, Enum):
    """``positions`` resolves the keys and deletes their rows by position, ``copy-on-write`` writes the files that hold
    them anew.

    ``merge`` leaves all of it to Spark's ``MERGE INTO``. ``equality`` writes the keys themselves as deletes and looks
    for no row, as Flink does: every reader pays for it until the table is compacted, so ``auto`` never chooses it.
    """

    AUTO = "auto"
    POSITIONS = "positions"
    COPY_ON_WRITE = "copy-on-write"
    MERGE = "merge"
    EQUALITY = "equality"
