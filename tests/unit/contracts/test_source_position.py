"""Positions: which files of a listing are new, and whether a table still stands where it says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.errors import RolledBackError
from airflow_lake_provider.contracts.source_position import (
    MAX_INLINE_FILES,
    InputFile,
    SourcePosition,
    unpack_digests,
)
from airflow_lake_provider.contracts.table_properties import MAX_VALUE_CHARACTERS, POSITION_PREFIX

FILES = st.builds(
    InputFile,
    path=st.integers(0, 40).map("s3://in/{}.parquet".format),
    size=st.integers(0, 3),
    version=st.sampled_from(["1", "2", "etag"]),
)


def listing(count: int) -> list[InputFile]:
    return [InputFile(f"s3://in/{number}.parquet", number, "1") for number in range(count)]


@settings(deadline=None)
@given(st.lists(FILES), st.lists(FILES))
def test_exactly_the_files_of_another_identity_are_unconsumed_in_their_order(
    consumed: list[InputFile], present: list[InputFile]
) -> None:
    position = SourcePosition().next_files(consumed)
    assert position.unconsumed(present) == tuple(file for file in present if file not in consumed)


@settings(deadline=None)
@given(st.lists(FILES), st.lists(FILES))
def test_a_new_version_under_a_known_path_is_corrected_and_any_other_is_new(
    consumed: list[InputFile], present: list[InputFile]
) -> None:
    paths = {file.path for file in consumed}
    expected = tuple(file for file in present if file not in consumed and file.path in paths)
    assert SourcePosition().next_files(consumed).corrected(present) == expected


@settings(deadline=None)
@given(
    st.builds(
        SourcePosition,
        generation=st.integers(0, 10**9),
        files=st.none() | st.frozensets(st.binary(min_size=10, max_size=10)),
        side_file=st.none() | st.text(min_size=1),
        snapshot=st.none() | st.integers(0, 2**63 - 1).map(str),
    )
)
def test_a_position_survives_its_property(position: SourcePosition) -> None:
    assert SourcePosition.read(position.to_properties("src"), "src") == position
    assert SourcePosition.read(position.to_properties("src"), "another") == SourcePosition()


def test_the_largest_inline_list_fits_a_property_and_one_more_asks_for_a_side_file() -> None:
    largest = SourcePosition(generation=10**12).next_files(listing(MAX_INLINE_FILES))
    assert not largest.needs_side_file
    assert all(len(value) <= MAX_VALUE_CHARACTERS for value in largest.to_properties("src").values())
    assert SourcePosition().next_files(listing(MAX_INLINE_FILES + 1)).needs_side_file


def test_a_side_file_holds_every_digest_and_the_property_only_its_path() -> None:
    files = listing(MAX_INLINE_FILES + 50)
    position = SourcePosition().next_files(files)
    assert unpack_digests(position.packed_files) == {file.digest for file in files}
    moved = position.with_side_file("s3://lake/positions/1.bin")
    assert SourcePosition.read(moved.to_properties("src"), "src") == moved
    assert moved.files is None
    assert not moved.needs_side_file


def test_a_source_never_consumed_is_generation_0_and_each_commit_counts_one() -> None:
    position = SourcePosition.read({}, "src")
    assert (position.generation, position.files, position.snapshot) == (0, None, None)
    moved = position.next_files(listing(1)).next_files(listing(2)).next_snapshot("8245678901234567890")
    assert (moved.generation, moved.files, moved.snapshot) == (3, None, "8245678901234567890")
    assert moved.to_properties("src").keys() == {POSITION_PREFIX + "src"}


def test_a_summary_older_than_the_property_means_the_table_was_rolled_back() -> None:
    position = SourcePosition(generation=3)
    for harmless in (None, "src=3", "src=4", position.to_summary("src")):
        position.refuse_rolled_back(harmless, "src", "shop.orders")
    with pytest.raises(RolledBackError) as refused:
        position.refuse_rolled_back("src=2", "src", "shop.orders")
    for said in ("shop.orders", "commit 3", "says src=2", "on_repeat='apply'", "full_refresh"):
        assert said in str(refused.value)
