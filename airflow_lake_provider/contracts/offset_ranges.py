"""Sets of Kafka offsets as sorted ranges, both ends included."""

from __future__ import annotations

from collections.abc import Iterable

Ranges = tuple[tuple[int, int], ...]

_BUCKET_BITS = 15
# Offsets of a bitmap; Spark's ``bitmap_construct_agg`` makes one of this many bits.
BUCKET = 1 << _BUCKET_BITS


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """Return all offsets of some sets, ranges that touch joined."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(one for ranges in sets for one in ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return tuple(joined)


def missing(wanted: Ranges, held: Ranges) -> Ranges:
    """Return the offsets of ``wanted`` that are not in ``held``."""
    gaps: list[tuple[int, int]] = []
    for low, high in wanted:
        for start, end in held:
            if end < low or start > high:
                continue
            if start > low:
                gaps.append((low, start - 1))
            low = max(low, end + 1)
        if low <= high:
            gaps.append((low, high))
    return tuple(gaps)


def up_to(ranges: Ranges, last: int) -> Ranges:
    """Return the offsets that are not beyond ``last``."""
    return tuple((low, min(high, last)) for low, high in ranges if low <= last)


def of_bitmap(bucket: int, bitmap: bytes) -> Ranges:
    """Return the offsets that a bitmap stands for.

    :param bucket: number of the bitmap: its first bit is offset ``bucket * BUCKET``.
    :param bitmap: least significant bit first.
    """
    bits = int.from_bytes(bitmap, "little")
    first, found = bucket * BUCKET, []
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros
        # Adding one carries through the ones at the end and stops at the first zero.
        ones = ((bits + 1) & -(bits + 1)).bit_length() - 1
        found.append((first + zeros, first + zeros + ones - 1))
        bits >>= ones
        first += zeros + ones
    return tuple(found)
