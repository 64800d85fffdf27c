"""Positions: which files of a listing are new, and whether a table still stands where it says."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.positions import (
    FilesPosition,
    Position,
    SideFile,
    SnapshotPosition,
    UnreadPosition,
)
from airflow_lake_provider.contracts.applied.source_position import (
    SourcePosition,
    moved_at,
    newest_generation,
    positions_in_summary,
)
from airflow_lake_provider.contracts.errors import RolledBackError
from airflow_lake_provider.contracts.input_file import ConsumedFiles, InputFile
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.contracts.table_properties import MAX_VALUE_CHARACTERS, POSITION_PREFIX, SOURCE_POSITION

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
YEAR = timedelta(days=365)
FILES = st.builds(
    InputFile,
    path=st.integers(0, 40).map("s3://in/{}.parquet".format),
    size=st.integers(0, 3),
    version=st.sampled_from(["1", "2", "etag"]),
)


def listing(count: int, folder: str = "in", at: datetime = NOW) -> list[InputFile]:
    return [file(f"s3://{folder}/{number}.parquet", at) for number in range(count)]


def file(path: str, at: datetime = NOW) -> InputFile:
    return InputFile(path, 1, str(int(at.timestamp() * 1000)))


def consume(
    position: SourcePosition, files: list[InputFile], at: datetime = NOW, max_age: timedelta | None = YEAR
) -> SourcePosition:
    return position.moved(position.files.next(files, at, max_age))


@settings(deadline=None)
@given(st.lists(st.lists(FILES), max_size=4), st.lists(FILES))
def test_exactly_the_files_that_no_earlier_listing_had_are_unconsumed_in_their_order(
    listings: list[list[InputFile]], present: list[InputFile]
) -> None:
    position = SourcePosition()
    for files in listings:
        position = consume(position, files)
    known = [file for files in listings for file in files]
    assert position.files.unconsumed(present) == tuple(file for file in present if file not in known)


@settings(deadline=None)
@given(st.lists(FILES), st.lists(FILES))
def test_a_new_version_under_a_known_path_is_corrected_and_any_other_is_new(
    consumed: list[InputFile], present: list[InputFile]
) -> None:
    paths = {file.path for file in consumed}
    expected = tuple(file for file in present if file not in consumed and file.path in paths)
    assert consume(SourcePosition(), consumed).files.corrected(present) == expected


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("s3://in/a.csv", "s3a://in/a.csv"),
        ("s3n://in/a.csv", "s3://in/a.csv"),
        ("file:/in/a.csv", "file:///in/a.csv"),
        ("FILE:/in/a.csv", "file:/in/a.csv"),
        ("abfs://c@x.dfs.core.windows.net/a", "abfss://c@x.dfs.core.windows.net/a"),
        ("wasb://c@x/a", "wasbs://c@x/a"),
    ],
)
def test_another_spelling_of_a_path_is_the_same_file(written: str, read: str) -> None:
    position = consume(SourcePosition(), [file(written)])
    assert position.files.unconsumed([file(read)]) == ()


def test_other_storages_and_other_folders_are_other_files() -> None:
    position = consume(SourcePosition(), [file("s3://in/a.csv")])
    others = [file(path) for path in ("gs://in/a.csv", "s3://in2/a.csv", "file:/in/a.csv", "hdfs://in/a.csv", "a.csv")]
    assert position.files.unconsumed(others) == tuple(others)


KINDS: dict[str, st.SearchStrategy[Any]] = {
    "files": st.builds(
        FilesPosition,
        files=st.dictionaries(st.binary(min_size=10, max_size=10), st.integers(0, 65_535)).map(ConsumedFiles),
        superseded=st.lists(st.text(min_size=1), max_size=3).map(tuple),
        forgotten_until=st.none() | st.integers(0, 10**11),
    ),
    "snapshot": st.integers(0, 2**63 - 1).map(str).map(SnapshotPosition),
    "of another source": st.dictionaries(st.text(), st.integers()).map(UnreadPosition),
}
POSITIONS = st.builds(
    SourcePosition,
    generation=st.integers(0, 10**9),
    positions=st.fixed_dictionaries({}, optional=KINDS),
    shape=st.dictionaries(st.sampled_from(["format", "schema"]), st.text(min_size=1)),
)


@settings(deadline=None)
@given(POSITIONS)
def test_a_position_survives_its_property(position: SourcePosition) -> None:
    assert SourcePosition.read(position.to_properties("src"), "src") == position
    assert SourcePosition.read(position.to_properties("src"), "another") == SourcePosition()


def test_a_list_that_is_too_long_for_a_property_goes_to_a_side_file_and_the_property_names_it() -> None:
    position = SourcePosition()
    for number in (1, 100, 240, 250, 260, 399):
        position = consume(position, listing(number))
        assert (position.list_for_side_file is not None) == any(
            len(value) > MAX_VALUE_CHARACTERS for value in position.to_properties("src").values()
        )
    assert position.list_for_side_file
    assert not consume(SourcePosition(generation=10**9), listing(240)).list_for_side_file
    position = position.with_position(replace(position.files, side_file=SideFile("s3://lake/1.bin", 399)))
    assert not position.list_for_side_file
    read = SourcePosition.read(position.to_properties("src"), "src")
    assert (read.files.side_file, read.files.files, read.files.is_lost) == (
        SideFile("s3://lake/1.bin", 399),
        None,
        True,
    )


def test_a_side_file_is_kept_while_its_list_stays_and_the_one_before_it_is_still_readable() -> None:
    first = SideFile("1.bin", 1)
    position = replace(FilesPosition().next(listing(1), NOW, YEAR), side_file=first)
    same = position.next(listing(1), NOW, YEAR)
    assert (same.side_file, same.superseded, same.outdated) == (first, (), ())
    second = position.next(listing(2), NOW, YEAR)
    assert (second.side_file, second.superseded, second.outdated) == (None, ("1.bin",), ())
    listed = replace(second, side_file=SideFile("2.bin", 2))
    assert listed.next([], NOW, YEAR).side_file is not None
    third = replace(listed, superseded=("1.bin", "0.bin")).next(listing(3), NOW, YEAR)
    assert (third.superseded, third.outdated) == (("2.bin", "1.bin", "0.bin"), ("1.bin", "0.bin"))


def test_a_file_that_left_the_source_a_year_ago_is_forgotten_and_never_taken_for_a_new_one() -> None:
    old, left = listing(2, "old"), listing(1, "left", at=NOW - timedelta(days=1))
    position = consume(SourcePosition(), [*old, *left])
    later = NOW + timedelta(days=366)
    position = consume(position, [*old, *listing(1, "new", later)], later)
    assert position.files.unconsumed([*old, *left]) == tuple(left)
    assert position.files.uncertain([*old, *left]) == tuple(left)
    # One that came after all that were forgotten is surely new.
    assert position.files.uncertain([file("s3://left/9.parquet", NOW + timedelta(days=1))]) == ()
    assert position.files.uncertain([InputFile("s3://left/9.parquet", 1, "etag")]) != ()
    assert consume(position, [], later).files.forgotten_until == position.files.forgotten_until


def test_a_file_is_remembered_for_as_long_as_asked_for_after_the_last_listing_that_showed_it() -> None:
    week = timedelta(days=7)
    position = consume(SourcePosition(), listing(1))
    for day in range(1, 8):
        position = consume(position, [], NOW + timedelta(days=day), week)
    assert position.files.unconsumed(listing(1)) == ()
    position = consume(position, [], NOW + timedelta(days=8), week)
    assert position.files.unconsumed(listing(1)) == tuple(listing(1))


def test_without_a_retention_no_file_is_ever_forgotten() -> None:
    position = consume(SourcePosition(), listing(1), max_age=None)
    position = consume(position, [], NOW + timedelta(days=20_000), None)
    assert (position.files.unconsumed(listing(1)), position.files.forgotten_until) == ((), None)


def test_a_file_whose_clock_is_ahead_of_ours_is_below_the_mark_once_it_is_forgotten() -> None:
    ahead = [file("s3://in/a", NOW + timedelta(days=3))]
    position = consume(SourcePosition(), ahead)
    position = consume(position, [], NOW + timedelta(days=400), YEAR)
    assert position.files.uncertain(ahead) == tuple(ahead)


def test_a_lost_list_makes_every_file_until_now_uncertain_and_later_ones_new() -> None:
    lost = FilesPosition(files=None, side_file=SideFile("4.bin", 300), superseded=("3.bin",))
    found = lost.without_lost(NOW).next(listing(2), NOW, YEAR)
    assert (found.side_file, found.superseded) == (None, ("4.bin", "3.bin"))
    assert found.unconsumed(listing(2)) == ()
    assert found.uncertain(listing(1, "elsewhere")) == tuple(listing(1, "elsewhere"))
    later = listing(1, "elsewhere", NOW + timedelta(seconds=1))
    assert (found.uncertain(later), found.unconsumed(later)) == ((), tuple(later))


def test_a_restarted_position_knows_no_file_and_goes_on_counting() -> None:
    kinds = {"snapshot": SnapshotPosition("7"), "files": FilesPosition(forgotten_until=9)}
    again = consume(SourcePosition(generation=4, positions=kinds, shape={"query": "x"}), listing(1)).restarted()
    assert (again.generation, again.snapshot, again.files.forgotten_until) == (5, None, None)
    assert again.files.unconsumed(listing(1)) == tuple(listing(1))


def test_a_source_never_consumed_is_generation_0_and_each_commit_counts_one() -> None:
    position = SourcePosition.read({}, "src")
    assert (position.generation, position.files, position.snapshot) == (0, FilesPosition(), None)
    moved = consume(consume(position, listing(1)), listing(2)).moved(SnapshotPosition("8245678901234567890"))
    assert (moved.generation, moved.snapshot) == (3, "8245678901234567890")
    assert moved.to_properties("src").keys() == {POSITION_PREFIX + "src"}


def test_a_summary_older_than_the_property_means_the_table_was_rolled_back() -> None:
    position = SourcePosition(generation=3)
    for harmless in (None, 3, 4):
        position.refuse_rolled_back(harmless, "src", "shop.orders")
    with pytest.raises(RolledBackError) as refused:
        position.refuse_rolled_back(2, "src", "shop.orders")
    ways_out = ("LakeRollbackOperator", "on_repeat='apply'", "keys stay", "full_refresh")
    for said in ("shop.orders", "commit 3", "says src=2", *ways_out):
        assert said in str(refused.value)


def test_a_summary_names_each_source_that_a_commit_moved_and_those_of_earlier_commits_name_one() -> None:
    text = positions_in_summary({"inbox": SourcePosition(generation=3), "dag.task": SourcePosition(generation=12)})
    assert text == "inbox=3,dag.task=12"
    summaries = [{}, {"lake.source-position": text}, {"lake.source-position": "inbox=2"}]
    assert newest_generation(summaries, "inbox") == 3
    assert newest_generation(summaries[2:], "inbox") == 2
    assert [newest_generation(summaries, name) for name in ("dag.task", "task", "inbox=3", "")] == [
        12,
        None,
        None,
        None,
    ]
    assert newest_generation([{"lake.source-position": "inbox=\u00b2,inbox=x"}], "inbox") is None


@pytest.mark.parametrize(
    ("newest_first", "newest"),
    [
        (["3 picked", "2", "1"], 3),
        (["2 picked", "3 picked", "1"], 3),
        # The second is missing, and its rows are, too.
        (["3 picked", "1"], 1),
        (["4 picked", "2 picked", "1"], 2),
        (["3 picked"], 3),
        # Somebody took the property away, and the source began again.
        (["1", "5", "4"], 1),
    ],
)
def test_commits_that_were_picked_count_as_far_as_none_is_missing(newest_first: list[str], newest: int) -> None:
    summaries = [
        {"lake.source-position": f"inbox={each.split()[0]}"} | ({"source-snapshot-id": "7"} if "picked" in each else {})
        for each in newest_first
    ]
    assert newest_generation(summaries, "inbox") == newest


@pytest.mark.parametrize(
    ("written", "positions"),
    [
        ('{"generation":1}', {}),
        ('{"generation":1,"snapshot":"7"}', {"snapshot": SnapshotPosition("7")}),
        ('{"files":"","generation":1,"shape":{"format":"x"}}', {"files": FilesPosition()}),
        (
            '{"forgotten_until":9,"generation":1,"side_file":["1.bin",300],"snapshot":"7","superseded":["0.bin"]}',
            {
                "snapshot": SnapshotPosition("7"),
                "files": FilesPosition(
                    files=None, side_file=SideFile("1.bin", 300), superseded=("0.bin",), forgotten_until=9
                ),
            },
        ),
    ],
)
def test_a_position_without_tags_is_read_and_written_again_with_them(written: str, positions: Any) -> None:
    position = SourcePosition.read({POSITION_PREFIX + "src": written}, "src")
    assert position.positions == positions
    again = json.loads(position.to_properties("src")[POSITION_PREFIX + "src"])
    assert again.get("positions", {}).keys() == positions.keys()
    assert again.keys() <= {"generation", "positions", "shape"}


OF_INPUT: st.SearchStrategy[Position] = st.one_of(
    st.integers(1, 9).map(lambda number: SnapshotPosition(str(number))),
    st.lists(FILES, min_size=1, max_size=3).map(lambda files: FilesPosition().next(files, NOW, YEAR)),
)
INPUTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(["orders", "ers", "o", "Orders_2"]), OF_INPUT, min_size=1
)


@settings(deadline=None)
@given(st.lists(INPUTS, min_size=1, max_size=4))
def test_each_named_input_has_a_position_of_its_own_and_all_of_a_commit_move_together(
    commits: list[dict[str, Any]],
) -> None:
    position = consume(SourcePosition(), listing(1, "before"))
    expected: dict[tuple[str, str], Position] = {}
    for inputs in commits:
        moved = {name: position.of_input(name).moved(each) for name, each in inputs.items()}
        position = position.moved_inputs(moved, {"orders.where": "ab"})
        expected |= {(name, each.kind): each for name, each in inputs.items()}
        position = SourcePosition.read(position.to_properties("s"), "s")
    assert position.generation == 1 + len(commits)
    assert {
        (name, kind): each for name, kind in expected for each in [position.of_input(name).positions[kind]]
    } == expected
    # The source's own, from before it had named inputs.
    assert position.files.unconsumed(listing(1, "before")) == ()
    assert position.of_input("") == position
    assert position.of_input("new").positions == {}
    assert position.restarted().of_input("orders").snapshot is None


def test_the_longest_list_of_named_inputs_goes_to_a_side_file_until_the_property_is_short_enough() -> None:
    long, short = (FilesPosition().next(listing(count, f"f{count}"), NOW, YEAR) for count in (230, 120))
    inputs = {"a": SourcePosition().moved(short), "b": SourcePosition().moved(long)}
    position = SourcePosition().moved_inputs(inputs, {})
    assert position.list_for_side_file == "files:b"
    position = position.with_position(replace(long, side_file=SideFile("s3://lake/1.bin", 230)), "files:b")
    assert position.list_for_side_file is None
    longer = FilesPosition().next(listing(300, "longer"), NOW, YEAR)
    both = SourcePosition().moved_inputs({name: SourcePosition().moved(longer) for name in ("a", "b")}, {})
    written = []
    while (tag := both.list_for_side_file) is not None:
        written.append(tag)
        both = both.with_position(replace(longer, side_file=SideFile(f"s3://lake/{tag}.bin", 300)), tag)
    assert written == ["files:a", "files:b"]
    read = SourcePosition.read(position.to_properties("s"), "s")
    assert {tag: each.is_lost for tag, each in read.lists.items()} == {"files:a": False, "files:b": True}
    assert read.shares_files(consume(SourcePosition(), listing(1, "f120")))
    assert not read.shares_files(consume(SourcePosition(), listing(1, "f230")))


def test_the_last_commit_of_a_source_is_the_newest_snapshot_that_names_it() -> None:
    moved: list[dict[str, str]] = [{}, {SOURCE_POSITION: "orders=9,items=2"}, {SOURCE_POSITION: "items=1"}]
    times = zip((3000, 2000, 1000), moved, strict=True)
    commits = [Snapshot(id=str(at), parent=None, at=at, summary=summary) for at, summary in times]
    assert moved_at(commits, "items") == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert moved_at(commits, "item") is None
