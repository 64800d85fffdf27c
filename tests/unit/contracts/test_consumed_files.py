"""Lists of consumed files: what is in them, what they forget, and their packed form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.input_file import ConsumedFiles

DIGESTS = st.binary(min_size=10, max_size=10)
DAYS = st.integers(0, 65_535)
ENTRIES = st.dictionaries(DIGESTS, DAYS)


@given(ENTRIES)
def test_a_list_survives_its_packed_form(days: dict[bytes, int]) -> None:
    files = ConsumedFiles(days)
    assert ConsumedFiles.unpack(files.pack()) == files
    assert len(files.pack()) == 10 * len(days) + 4 * len(set(days.values()))


@given(ENTRIES, st.integers(1, 200))
def test_a_list_that_is_cut_off_is_never_taken_for_a_shorter_one(days: dict[bytes, int], cut: int) -> None:
    packed = ConsumedFiles(days).pack()
    try:
        read = ConsumedFiles.unpack(packed[:-cut])
    except ValueError:
        return
    # A cut between two groups; the count in the property tells it.
    assert len(read) < len(days) or not days


def test_more_files_of_one_day_than_a_group_holds_are_all_kept() -> None:
    files = ConsumedFiles({number.to_bytes(10, "big"): 7 for number in range(70_000)})
    assert ConsumedFiles.unpack(files.pack()) == files


@given(ENTRIES, st.lists(st.tuples(DIGESTS, DAYS)))
def test_a_listing_adds_its_files_and_takes_none_away(days: dict[bytes, int], listing: list[tuple[bytes, int]]) -> None:
    seen = ConsumedFiles(days).seen(listing)
    assert set(seen.days) == set(days) | {digest for digest, _ in listing}
    for digest, day in seen.days.items():
        candidates = [days[digest]] if digest in days else []
        assert day == max([*candidates, *(when for name, when in listing if name == digest)])


@given(ENTRIES, DAYS)
def test_only_files_last_seen_before_the_day_are_forgotten_and_the_newest_of_them_is_said(
    days: dict[bytes, int], before: int
) -> None:
    kept, newest = ConsumedFiles(days).forget(before)
    gone = [day for day in days.values() if day < before]
    assert set(kept.days) == {digest for digest, day in days.items() if day >= before}
    assert newest == (max(gone) if gone else None)


def test_a_day_after_2149_is_the_last_day_there_is() -> None:
    assert ConsumedFiles().seen([(b"0123456789", 10**6)]).days == {b"0123456789": 65_535}


@pytest.mark.parametrize("packed", [b"\x00", b"\x00\x01\x00\x02" + b"x" * 10])
def test_what_is_no_list_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match="cut off"):
        ConsumedFiles.unpack(packed)
