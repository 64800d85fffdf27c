"""Columns by name, whatever characters it has."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf


def quoted(name: str) -> Column:
    """Return the top-level column of this name, dots and backticks included."""
    escaped = name.replace("`", "``")
    return sf.col(f"`{escaped}`")
