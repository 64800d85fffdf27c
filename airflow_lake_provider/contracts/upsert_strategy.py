"""How an upsert reaches the rows it replaces."""

from __future__ import annotations

from enum import Enum


class UpsertStrategy(str, Enum):
    """``positions`` resolves the keys and marks their rows; ``merge`` leaves both to Spark's ``MERGE INTO``."""

    AUTO = "auto"
    POSITIONS = "positions"
    MERGE = "merge"
