"""How many keys a batch has and from where to where they go, asked of whichever job reads the batch anyway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, Row
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DateType, TimestampType

from airflow_lake_provider.spark_jobs.key_gaps import as_number, occupancy_column, occupied_ranges


@dataclass(frozen=True, kw_only=True)
class KeyRange:
    """Least and greatest value of one key column, in the order Spark compares them in.

    :param least: see :func:`as_text`.
    :param parts: least and greatest value of each part of the range that has keys, ascending; at least one.
    """

    column: str
    least: str
    greatest: str
    parts: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", self.parts or ((self.least, self.greatest),))


@dataclass(frozen=True, kw_only=True)
class KeyRanges:
    """Of rows with one row per key.

    :param columns: one per key column, in order; none when there are no rows.
    """

    keys: int
    columns: tuple[KeyRange, ...]


def as_text(value: Column, kind: DataType) -> Column:
    """Return the value as text, which holds what Python's dates cannot; a date as its day, a timestamp as its
    microsecond since 1970.

    Spark's own text of a date depends on ``spark.sql.legacy.timeParserPolicy``, that of a timestamp on the zone.
    """
    is_time = isinstance(kind, (DateType, TimestampType))
    number = as_number(value, kind) if is_time else None
    return (value if number is None else number).cast("string")


def ranges_column(values: Sequence[tuple[Column, DataType]]) -> Column:
    """Return an aggregate over the values of the key columns, for :func:`read_ranges`."""
    ends = (_range_column(value, kind).alias(f"k{i}") for i, (value, kind) in enumerate(values))
    return sf.struct(sf.count(sf.lit(1)).alias("keys"), *ends)


def _range_column(value: Column, kind: DataType) -> Column:
    number = as_number(value, kind)
    occupancy = sf.lit(None) if number is None else occupancy_column(number)
    return sf.struct(as_text(sf.min(value), kind), as_text(sf.max(value), kind), occupancy)


def read_ranges(names: Sequence[str], found: Row) -> KeyRanges:
    """Return the ranges of the key columns with these names."""
    count, *ranges = found
    known = zip(names, ranges, strict=True)
    return KeyRanges(
        keys=count, columns=tuple(_read_range(name, *found) for name, found in known if found[0] is not None)
    )


def _read_range(name: str, least: str, greatest: str, bitmaps: Sequence[bytes] | None) -> KeyRange:
    if bitmaps is None:
        return KeyRange(column=name, least=least, greatest=greatest)
    parts = occupied_ranges(int(least), int(greatest), bitmaps)
    return KeyRange(column=name, least=least, greatest=greatest, parts=tuple((str(a), str(b)) for a, b in parts))
