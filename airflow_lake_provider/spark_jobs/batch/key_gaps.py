"""Find gaps between the least and the greatest key of a batch.

A batch of new rows with a few late ones among them spans most of a table, and touches little of it. The pass that
counts a batch also takes mean and standard deviation of its keys. Only where these are not those of keys spread evenly
over their range, a job of its own looks for gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DateType, IntegralType, TimestampType

from airflow_lake_provider.spark_jobs.sql.older_pyspark import to_arrow

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
