from __future__ import annotations

from itertools import chain, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.spark_jobs.key_gaps import Ranges, occupied_ranges


def bitmaps(numbers: list[int]) -> list[bytes]:
    """What Spark's bitmap_construct_agg makes of the numbers, for widths of 1, 256, ... 2^56."""
    result = []
    for width in range(0, 57, 8):
        bits = np.zeros(32_768, dtype=np.uint8)
        bits[[(number >> width) % 32_768 for number in numbers]] = 1
        result.append(np.packbits(bits, bitorder="little").tobytes())
    return result


def ranges_of(numbers: list[int]) -> Ranges:
    return occupied_ranges(min(numbers), max(numbers), bitmaps(numbers))


long = st.integers(-(2**63), 2**63 - 1)
near = st.builds(
    lambda base, offsets: [base + offset for offset in offsets],
    st.integers(-(2**62), 2**62),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=50),
)
clusters = st.lists(near, min_size=1, max_size=4).map(lambda lists: list(chain.from_iterable(lists)))


@given(st.one_of(st.lists(long, min_size=1, max_size=50), near, clusters))
def test_every_number_is_in_a_range_and_the_ranges_are_few_apart_and_ascending(numbers: list[int]) -> None:
    ranges = ranges_of(numbers)
    assert all(any(low <= number <= high for low, high in ranges) for number in numbers)
    assert len(ranges) <= 16
    ends = [end for of_range in ranges for end in of_range]
    assert ends == sorted(ends)
    assert (ends[0], ends[-1]) == (min(numbers), max(numbers))
    for (_, high), (low, _) in pairwise(ranges):
        assert high < low


def test_a_gap_is_cut_out_at_the_finest_width_that_covers_the_range() -> None:
    assert ranges_of([3, 4, 5, 900, 901]) == ((3, 5), (900, 901))
    assert ranges_of([0, 8_000_000]) == ((0, 255), (8_000_000, 8_000_000))


def test_numbers_all_over_their_range_are_one_range() -> None:
    assert ranges_of(list(range(0, 1000, 3))) == ((0, 999),)


def test_of_many_gaps_the_longest_are_cut_out() -> None:
    longer = [100 * n + (70 if n % 2 else 0) for n in range(40)]
    ranges = ranges_of(longer)
    assert len(ranges) == 16
    assert {low - high for (_, high), (low, _) in pairwise(ranges)} == {170}
