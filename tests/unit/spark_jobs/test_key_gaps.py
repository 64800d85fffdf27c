from __future__ import annotations

import functools
import operator
from itertools import chain, pairwise

from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.spark_jobs.key_gaps import Ranges, has_gaps, without_longest_gaps


def occupancy(numbers: list[int]) -> list[int]:
    """What Spark's bit_or makes of the numbers, for widths of 1, 8, 64, ..."""
    bits = [functools.reduce(operator.or_, (1 << (n >> width) % 64 for n in numbers)) for width in range(0, 61, 3)]
    return [value - 2**64 if value >= 2**63 else value for value in bits]


def parts_of(numbers: list[int]) -> Ranges:
    each = sorted(set(numbers))
    return without_longest_gaps([each, each])


long = st.integers(-(2**63), 2**63 - 1)
near = st.builds(
    lambda base, offsets: [base + offset for offset in offsets],
    st.integers(-(2**62), 2**62),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=50),
)
clusters = st.lists(near, min_size=1, max_size=4).map(lambda lists: list(chain.from_iterable(lists)))


@given(st.one_of(st.lists(long, min_size=1, max_size=50), near, clusters))
def test_every_number_is_in_a_range_and_the_ranges_are_few_apart_and_ascending(numbers: list[int]) -> None:
    ranges = parts_of(numbers)
    assert all(any(low <= number <= high for low, high in ranges) for number in numbers)
    assert len(ranges) <= 16
    ends = [end for of_range in ranges for end in of_range]
    assert ends == sorted(ends)
    assert (ends[0], ends[-1]) == (min(numbers), max(numbers))
    assert all(low - high > 1 for (_, high), (low, _) in pairwise(ranges))


@given(st.one_of(st.lists(long, min_size=1, max_size=50), near, clusters))
def test_gaps_are_seen_where_parts_of_the_range_are_empty(numbers: list[int]) -> None:
    least, greatest = min(numbers), max(numbers)
    width = next(w for w in range(0, 61, 3) if (greatest >> w) - (least >> w) < 64)
    parts = range(least >> width, (greatest >> width) + 1)
    empty = len(parts) - len({number >> width for number in numbers})
    assert has_gaps(least, greatest, occupancy(numbers)) == (empty >= 0.2 * len(parts))


def test_numbers_next_to_each_other_are_one_range() -> None:
    assert parts_of([3, 4, 5, 900, 901]) == ((3, 5), (900, 901))


def test_of_many_gaps_the_longest_are_cut_out() -> None:
    longer = [100 * n + (70 if n % 2 else 0) for n in range(40)]
    ranges = parts_of(longer)
    assert len(ranges) == 16
    assert {low - high for (_, high), (low, _) in pairwise(ranges)} == {170}
