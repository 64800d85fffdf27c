"""Where a batch has no keys between its least and its greatest.

A batch of new rows with a few late ones among them spans most of a table, and touches little of it. The pass that
counts a batch notices large gaps at no cost: the range is cut into some parts, with one bit for each that has keys.
Only where it does, a job of its own finds their ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DateType, IntegralType, TimestampType

# Binary logarithms of the width of a part. The range is not known before the pass, so bits are kept for each width, and
# read of the finest that cuts the range into no more parts than there are bits: into 8 to 64.
_WIDTHS = range(0, 61, 3)
_BITS = 64
# Parts that the second job tells apart.
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


def occupancy_column(number: Column) -> Column:
    """Return an aggregate for :func:`has_gaps`: for each width, which parts have a number, one bit each."""
    parts = (sf.pmod(sf.shiftright(number, width), sf.lit(_BITS)).cast("int") for width in _WIDTHS)
    # No bitmap of Spark's: those are not compiled, and ten times as slow.
    return sf.array(*(sf.bit_or(sf.call_function("shiftleft", sf.lit(1).cast("bigint"), part)) for part in parts))


def has_gaps(least: int, greatest: int, occupancy: Sequence[int]) -> bool:
    """Whether a fifth of the range or more has no numbers.

    :param least: least number that was aggregated; likewise ``greatest``.
    :param occupancy: of :func:`occupancy_column`.
    """
    index, width = _finest(least, greatest, _WIDTHS, _BITS)
    first, last = least >> width, greatest >> width
    empty = sum(not occupancy[index] >> part % _BITS & 1 for part in range(first, last + 1))
    return empty >= _LEAST_SPARED * (last - first + 1)


def occupied_ranges(rows: DataFrame, number: Column, least: int, greatest: int) -> Ranges:
    """Return up to 16 ranges, ends included and ascending, outside of which there are no numbers; one job."""
    _, width = _finest(least, greatest, range(64), _PARTS)
    parts = rows.groupBy(sf.shiftright(number, width)).agg(sf.min(number).alias("low"), sf.max(number).alias("high"))
    return without_longest_gaps(parts.select("low", "high").toArrow().to_pydict().values())


def without_longest_gaps(ends: Iterable[Sequence[int]]) -> Ranges:
    """Return the ranges that are left when the 15 longest gaps are cut out.

    :param ends: the least and the greatest numbers of parts that do not overlap, in the same order.
    """
    parts = sorted(zip(*ends, strict=True))
    gaps = sorted((low - high, high, low) for (_, high), (low, _) in pairwise(parts) if low - high > 1)
    cuts = sorted((high, low) for _, high, low in gaps[1 - _MOST_RANGES :])
    starts = [parts[0][0], *(low for _, low in cuts)]
    return tuple(zip(starts, [*(high for high, _ in cuts), parts[-1][1]], strict=True))


def _finest(least: int, greatest: int, widths: Iterable[int], most: int) -> tuple[int, int]:
    """Return place and value of the least width that cuts the range into no more than ``most`` parts."""
    return next((i, w) for i, w in enumerate(widths) if (greatest >> w) - (least >> w) < most)
