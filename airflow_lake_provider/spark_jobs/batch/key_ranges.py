"""Count the keys of a batch and find their ranges, in whichever job reads the batch anyway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DateType, TimestampType

from airflow_lake_provider.spark_jobs.batch.key_gaps import as_number, is_uneven, occupied_ranges, spread_column


@dataclass(frozen=True, kw_only=True)
class KeyRange:
    """Least and greatest value of one key column, in the order Spark compares them in.

    :param least: see :func:`as_text`.
    :param is_uneven: whether the keys are not spread evenly over the range, and nobody has looked for gaps yet.
    :param parts: least and greatest value of each part of the range that has keys, ascending; at least one.
    """

    column: str
    least: str
    greatest: str
    is_uneven: bool = False
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
    spread = sf.lit(None) if number is None else spread_column(number)
    return sf.struct(as_text(sf.min(value), kind), as_text(sf.max(value), kind), spread)


def read_ranges(names: Sequence[str], found: Row) -> KeyRanges:
    """Return the ranges of the key columns with these names."""
    count, *ranges = found
    known = zip(names, ranges, strict=True)
    return KeyRanges(
        keys=count, columns=tuple(_read_range(name, *found) for name, found in known if found[0] is not None)
    )


def _read_range(name: str, least: str, greatest: str, spread: Sequence[float] | None) -> KeyRange:
    uneven = spread is not None and is_uneven(int(least), int(greatest), spread)
    return KeyRange(column=name, least=least, greatest=greatest, is_uneven=uneven)


def without_gaps(ranges: KeyRanges, rows: DataFrame) -> KeyRanges:
    """Return the ranges in the parts that have keys; a job for each column whose keys are spread unevenly.

    :param rows: that the ranges are of, cached.
    """
    return replace(
        ranges, columns=tuple(_in_parts(found, rows) if found.is_uneven else found for found in ranges.columns)
    )


def _in_parts(found: KeyRange, rows: DataFrame) -> KeyRange:
    column = rows[f"`{found.column.replace('`', '``')}`"]
    number = as_number(column, rows.select(column).schema[0].dataType)
    if number is None:
        return found
    parts = occupied_ranges(rows, number, int(found.least), int(found.greatest))
    return replace(found, is_uneven=False, parts=tuple((str(low), str(high)) for low, high in parts))
