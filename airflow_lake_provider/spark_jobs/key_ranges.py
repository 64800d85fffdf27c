"""How many keys a batch has and from where to where they go, asked of whichever job reads the batch anyway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, Row
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DateType


@dataclass(frozen=True, kw_only=True)
class KeyRange:
    """Least and greatest value of one key column, in the order Spark compares them in.

    :param least: see :func:`as_text`.
    """

    column: str
    least: str
    greatest: str


@dataclass(frozen=True, kw_only=True)
class KeyRanges:
    """Of rows with one row per key.

    :param columns: one per key column, in order; none when there are no rows.
    """

    keys: int
    columns: tuple[KeyRange, ...]


def as_text(value: Column, kind: DataType) -> Column:
    """Return the value as text, which holds what a Python date cannot; a date as its day since 1970.

    Spark's own text of a date depends on ``spark.sql.legacy.timeParserPolicy``.
    """
    return (sf.unix_date(value) if isinstance(kind, DateType) else value).cast("string")


def ranges_column(values: Sequence[tuple[Column, DataType]]) -> Column:
    """Return an aggregate over the values of the key columns, for :func:`read_ranges`."""
    ends = (sf.struct(as_text(sf.min(value), kind), as_text(sf.max(value), kind)) for value, kind in values)
    return sf.struct(sf.count(sf.lit(1)).alias("keys"), *(end.alias(f"k{i}") for i, end in enumerate(ends)))


def read_ranges(names: Sequence[str], found: Row) -> KeyRanges:
    """Return the ranges of the key columns with these names."""
    count, *ends = found
    known = zip(names, ends, strict=True)
    columns = tuple(KeyRange(column=key, least=low, greatest=high) for key, (low, high) in known if low is not None)
    return KeyRanges(keys=count, columns=columns)
