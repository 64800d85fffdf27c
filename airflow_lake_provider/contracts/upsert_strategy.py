"""How an upsert reaches the rows it replaces."""

from __future__ import annotations

from enum import Enum


class UpsertStrategy(str, Enum):
    """``positions`` resolves the keys and marks their rows, ``copy-on-write`` writes the files that hold them anew.

    ``merge`` leaves all of it to Spark's ``MERGE INTO``.
    """

    AUTO = "auto"
    POSITIONS = "positions"
    COPY_ON_WRITE = "copy-on-write"
    MERGE = "merge"
