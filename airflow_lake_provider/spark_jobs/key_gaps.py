"""Where a batch has no keys between its least and its greatest, found by the pass that counts the batch anyway.

A batch of new rows with a few late ones among them spans most of a table, and touches little of it. One bit for each
of up to 32,768 equal parts of the range says which parts have keys. The range is not known before the pass, so the bits
are kept for several widths of the parts, and the finest that covers the range is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DateType, IntegralType, TimestampType

# Binary logarithms of the widths: each range of 64-bit numbers is cut into at least 128 parts by one of them.
_WIDTHS = range(0, 57, 8)
# Bits of one bitmap of Spark's.
_PARTS = 32_768
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
    """Return an aggregate for :func:`occupied_ranges`, an array of 4 KiB for each width."""
    parts = (sf.pmod(sf.shiftright(number, width), sf.lit(_PARTS)) for width in _WIDTHS)
    return sf.array(*(sf.bitmap_construct_agg(part) for part in parts))


def occupied_ranges(least: int, greatest: int, bitmaps: Sequence[bytes]) -> Ranges:
    """Return up to 16 ranges, ends included and ascending, outside of which there are no numbers.

    :param least: least number that was aggregated; likewise ``greatest``.
    :param bitmaps: of :func:`occupancy_column`.
    """
    number, width = next((n, w) for n, w in enumerate(_WIDTHS) if (greatest >> w) - (least >> w) < _PARTS)
    first, last = least >> width, greatest >> width
    bits = np.unpackbits(np.frombuffer(bitmaps[number], dtype=np.uint8), bitorder="little")
    occupied = np.flatnonzero(np.roll(bits, -(first % _PARTS))[: last - first + 1])
    steps = np.diff(occupied)
    cuts = np.sort(np.argsort(steps, kind="stable")[::-1][: _MOST_RANGES - 1])
    cuts = cuts[steps[cuts] > 1]
    starts = [0, *(int(cut) + 1 for cut in cuts)]
    ends = [*(int(cut) for cut in cuts), len(occupied) - 1]
    ranges = tuple(
        (max(least, (first + int(occupied[a])) << width), min(greatest, ((first + int(occupied[b]) + 1) << width) - 1))
        for a, b in zip(starts, ends, strict=True)
    )
    covered = sum(high - low + 1 for low, high in ranges)
    return ranges if covered <= (1 - _LEAST_SPARED) * (greatest - least + 1) else ((least, greatest),)
