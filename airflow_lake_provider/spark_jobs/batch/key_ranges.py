"""Count the keys of a batch, and find their ranges and the gaps in them, in whichever job reads the batch anyway."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DateType, IntegralType, TimestampType

from airflow_lake_provider.spark_jobs.sql.identifiers import quoted
from airflow_lake_provider.spark_jobs.sql.older_pyspark import to_arrow


@dataclass(frozen=True, kw_only=True)
class KeyRange:
    """Least and greatest value of one key column, in the order Spark compares them in.

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


def read_ranges(names: Sequence[str], row: Row) -> KeyRanges:
    """Return the ranges of the key columns with these names."""
    count, *ranges = row
    pairs = zip(names, ranges, strict=True)
    return KeyRanges(
        keys=count, columns=tuple(_read_range(name, *measures) for name, measures in pairs if measures[0] is not None)
    )


def _read_range(name: str, least: str, greatest: str, spread: Sequence[float] | None) -> KeyRange:
    uneven = spread is not None and is_uneven(int(least), int(greatest), spread)
    return KeyRange(column=name, least=least, greatest=greatest, is_uneven=uneven)


def without_gaps(ranges: KeyRanges, rows: DataFrame) -> KeyRanges:
    """Return the ranges in the parts that have keys; a job for each column whose keys are spread unevenly.

    :param rows: that the ranges are of, cached.
    """
    return replace(ranges, columns=tuple(_in_parts(each, rows) if each.is_uneven else each for each in ranges.columns))


def in_parts_of(ranges: KeyRanges, wider: KeyRanges | None) -> KeyRanges:
    """Return ranges in the parts that are known of other rows, which have all of their keys; no job is run.

    :param wider: ranges of those rows; None where nobody has counted them.
    """
    others = {each.column.lower(): each for each in (wider.columns if wider else ()) if not each.is_uneven}
    return replace(
        ranges, columns=tuple(_in_parts_of(each, others.get(each.column.lower())) for each in ranges.columns)
    )


def _in_parts_of(key_range: KeyRange, wider: KeyRange | None) -> KeyRange:
    if wider is None or not key_range.is_uneven:
        return key_range
    # One part of more rows may be wider than the range itself.
    parts = wider.parts if len(wider.parts) > 1 else key_range.parts
    return replace(key_range, is_uneven=False, parts=parts)


def _in_parts(key_range: KeyRange, rows: DataFrame) -> KeyRange:
    column = quoted(key_range.column)
    number = as_number(column, rows.select(column).schema[0].dataType)
    if number is None:
        return key_range
    parts = occupied_ranges(rows, number, int(key_range.least), int(key_range.greatest))
    return replace(key_range, is_uneven=False, parts=tuple((str(low), str(high)) for low, high in parts))


# Of numbers spread evenly, as a share of their range: mean, standard deviation, and how far a batch may be from both.
_EVEN_MEAN, _EVEN_DEVIATION, _TOLERANCE = 0.5, 12**-0.5, 0.03
# Parts of the range that the job tells apart.
_PARTS = 1024
# Each is one more condition on every row that is read.
_MOST_RANGES = 16
# With less left out than this share, the conditions cost more than the files that they spare.
_LEAST_SPARED = 0.2

Ranges = tuple[tuple[int, int], ...]


def as_number(value: Column, kind: DataType) -> Column | None:
    """Return a whole number that orders as the value does; None for a type without one."""
    match kind:
        case IntegralType():
            return value.cast("bigint")
        case DateType():
            return sf.unix_date(value).cast("bigint")
        case TimestampType():
            return sf.unix_micros(value)
    return None


def spread_column(number: Column) -> Column:
    """Return an aggregate for :func:`is_uneven`: mean and standard deviation."""
    # One bit for each of 64 parts would see each gap, but 21 such aggregates took a third of the counting job.
    return sf.struct(sf.avg(number), sf.stddev_pop(number))


def is_uneven(least: int, greatest: int, spread: Sequence[float]) -> bool:
    """Tell whether numbers are not spread evenly over their range, so that gaps are likely.

    :param least: least number that was aggregated; likewise ``greatest``.
    :param spread: of :func:`spread_column`.
    """
    width = greatest - least
    if width == 0:
        return False
    mean, deviation = spread
    off = abs((mean - least) / width - _EVEN_MEAN), abs(deviation / width - _EVEN_DEVIATION)
    return max(off) > _TOLERANCE


def occupied_ranges(rows: DataFrame, number: Column, least: int, greatest: int) -> Ranges:
    """Return up to 16 ranges, ends included and ascending, outside of which there are no numbers; one job."""
    width = next(w for w in range(64) if (greatest >> w) - (least >> w) < _PARTS)
    parts = rows.groupBy(sf.shiftright(number, width)).agg(sf.min(number).alias("low"), sf.max(number).alias("high"))
    ranges = without_longest_gaps(to_arrow(parts.select("low", "high")).to_pydict().values())
    covered = sum(high - low + 1 for low, high in ranges)
    return ranges if covered <= (1 - _LEAST_SPARED) * (greatest - least + 1) else ((least, greatest),)


def without_longest_gaps(ends: Iterable[Sequence[int]]) -> Ranges:
    """Return the ranges that are left when the 15 longest gaps are cut out.

    :param ends: the least and the greatest numbers of parts that do not overlap, in the same order.
    """
    parts = sorted(zip(*ends, strict=True))
    gaps = sorted((low - high, high, low) for (_, high), (low, _) in pairwise(parts) if low - high > 1)
    cuts = sorted((high, low) for _, high, low in gaps[1 - _MOST_RANGES :])
    starts = [parts[0][0], *(low for _, low in cuts)]
    return tuple(zip(starts, [*(high for high, _ in cuts), parts[-1][1]], strict=True))
