from __future__ import annotations

import statistics
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.spark_jobs.batch.key_ranges import (
    KeyRange,
    KeyRanges,
    Ranges,
    in_parts_of,
    is_uneven,
    without_longest_gaps,
)


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


def looks_uneven(numbers: list[int]) -> bool:
    return is_uneven(min(numbers), max(numbers), (statistics.fmean(numbers), statistics.pstdev(numbers)))


@given(long, st.integers(0, 2**40), st.integers(300, 1000))
def test_numbers_spread_evenly_are_not_searched_for_gaps(base: int, step: int, count: int) -> None:
    assert not looks_uneven([base // 4 + step * number for number in range(count)])


@given(near, st.integers(10**8, 10**12))
def test_one_late_number_far_from_the_others_is_noticed(numbers: list[int], distance: int) -> None:
    assert looks_uneven([*range(numbers[0], numbers[0] + 300), *numbers, numbers[0] - distance])


def test_numbers_next_to_each_other_are_one_range() -> None:
    assert parts_of([3, 4, 5, 900, 901]) == ((3, 5), (900, 901))


def test_of_many_gaps_the_longest_are_cut_out() -> None:
    longer = [100 * n + (70 if n % 2 else 0) for n in range(40)]
    ranges = parts_of(longer)
    assert len(ranges) == 16
    assert {low - high for (_, high), (low, _) in pairwise(ranges)} == {170}


def range_of(column: str, least: int, greatest: int, *parts: tuple[str, str], is_uneven: bool = True) -> KeyRange:
    return KeyRange(column=column, least=str(least), greatest=str(greatest), is_uneven=is_uneven, parts=parts)


PARTS, WHOLE = (("0", "9"), ("90", "99")), (("5", "95"),)


@pytest.mark.parametrize(
    ("of_more_keys", "parts", "is_uneven"),
    [
        pytest.param(range_of("ID", 0, 99, *PARTS, is_uneven=False), PARTS, False, id="their parts"),
        pytest.param(range_of("ID", 0, 99, is_uneven=False), WHOLE, False, id="one part, which may be wider"),
        pytest.param(range_of("ID", 0, 99), WHOLE, True, id="nobody has looked for gaps"),
        pytest.param(range_of("other", 0, 99, is_uneven=False), WHOLE, True, id="another column"),
    ],
)
def test_gaps_between_more_keys_are_gaps_between_some_of_them(
    of_more_keys: KeyRange, parts: tuple[tuple[str, str], ...], is_uneven: bool
) -> None:
    ranges = KeyRanges(keys=2, columns=(range_of("id", 5, 95),))
    (narrowed,) = in_parts_of(ranges, KeyRanges(keys=9, columns=(of_more_keys,))).columns
    assert (narrowed.parts, narrowed.is_uneven) == (parts, is_uneven)
    assert (narrowed.least, narrowed.greatest) == ("5", "95")
    assert in_parts_of(ranges, None) == ranges
