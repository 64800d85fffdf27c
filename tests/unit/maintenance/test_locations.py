"""Folders that overlap, however they are spelled, and folders that do not though their names begin alike."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.file_locations import folders_of_metadata
from airflow_lake_provider.maintenance.locations import (
    TableLocations,
    overlapping_locations,
    overlaps_of_all,
    unknown_locations,
)

MEETING = [
    ("s3://b/t", "s3://b/t"),
    ("s3://b/t", "s3a://b/t/"),
    ("s3n://B/t/", "s3://b/t/data"),
    ("s3://b/wh/t/data", "s3://b/wh"),
    ("s3://b/t", "s3://b//t"),
    ("hdfs://nn:8020/wh/t", "hdfs:///wh/t"),
    ("hdfs://nn:8020/wh/t", "/wh/t/data"),
    ("/wh/t", "hdfs://nn/wh/t"),
    ("file:/wh/t", "file:///wh/t/x"),
    ("/wh/t", "file:///wh/t"),
    ("abfss://c@a.dfs.core.windows.net/t", "wasbs://c@a.blob.core.windows.net/t/data"),
    ("gs://b/t/../u", "gcs://b/u"),
    ("s3://b", "s3://b/t"),
]
APART = [
    ("s3://b/t", "s3://b/t2"),
    ("s3://b/t", "s3://other/t"),
    ("s3://b/t", "gs://b/t"),
    ("hdfs://nn1/wh/t", "hdfs://nn2/wh/t"),
    ("file:/wh/orders", "file:/wh/orders_old"),
    ("s3://b/wh/a", "s3://b/wh/b"),
    ("abfss://c@a.dfs.core.windows.net/t", "abfss://d@a.dfs.core.windows.net/t"),
]


def table(name: str, *folders: str, error: str | None = None) -> TableLocations:
    return TableLocations(name=name, folders=folders, error=error)


@pytest.mark.parametrize(("one", "other"), MEETING)
def test_folders_that_contain_one_another_overlap_both_ways(one: str, other: str) -> None:
    for mine, theirs in ((one, other), (other, one)):
        found = overlapping_locations(table("a.b", "s3://own/x", mine), [table("a.c", "s3://elsewhere/y", theirs)])
        assert [(each.folder, each.other, each.other_folder) for each in found] == [(mine, "a.c", theirs)]


@pytest.mark.parametrize(("one", "other"), APART)
def test_neighbours_of_a_longer_name_and_other_stores_do_not_overlap(one: str, other: str) -> None:
    assert overlapping_locations(table("a.b", one), [table("a.c", other), table("a.b", one)]) == []


def test_a_link_of_the_disk_is_followed_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert overlapping_locations(table("a.b", f"file:{tmp_path}/link"), [table("a.c", f"file://{tmp_path}/real")])


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"], ids=["NUL", "half a surrogate pair"])
def test_a_folder_that_is_no_path_is_compared_as_it_is(name: str) -> None:
    strange = table("a.b", f"file:///wh/{name}")
    others = [table("a.c", f"file:/wh/{name}/data"), table("a.d", "file:///wh/a")]
    assert [each.other for each in overlapping_locations(strange, others)] == ["a.c"]
    assert [(each.table, each.other) for each in overlaps_of_all([strange, *others])] == [("a.c", "a.b")]


def test_a_table_that_cannot_be_read_overlaps_by_its_metadata_file_or_is_nowhere_known() -> None:
    own = table("a.b", "s3://b/wh/t")
    broken = table("a.c", *folders_of_metadata("s3://b/wh/t/metadata/00001-x.metadata.json"), error="gone")
    elsewhere = table("a.d", *folders_of_metadata("s3://b/wh/u/metadata/00001-x.metadata.json"), error="gone")
    nowhere = table("a.e", *folders_of_metadata(None), error="500")
    (found,) = overlapping_locations(own, [broken, elsewhere, nowhere])
    assert str(found) == "s3://b/wh/t overlaps s3://b/wh/t of a.c, which cannot be read"
    assert list(unknown_locations(own, [broken, elsewhere, nowhere, own])) == ["a.e (500)"]
    assert folders_of_metadata("s3://b/meta/x.json") == ("s3://b/meta",)


def test_two_entries_of_one_table_are_told_from_two_tables_of_one_folder() -> None:
    entries = [
        TableLocations(name=name, folders=("s3://b/t",), uuid=uuid)
        for name, uuid in (("a.b", "1"), ("c.b", "1"), ("d.b", "2"), ("e.b", ""), ("f.b", ""))
    ]
    same = {frozenset((each.table, each.other)) for each in overlaps_of_all(entries) if each.is_same_table}
    assert same == {frozenset(("a.b", "c.b"))}


PLACES = st.lists(st.sampled_from(["a", "b", "a-b", "a.b"]), min_size=1, max_size=4).map(
    lambda parts: "s3://" + "/".join(parts)
)


@given(st.dictionaries(st.sampled_from("tuvwx"), st.sets(PLACES, min_size=1, max_size=3)))
def test_the_overlaps_of_all_are_those_of_each_with_each(places: dict[str, set[str]]) -> None:
    tables = [table(name, *sorted(folders)) for name, folders in places.items()]
    pairs = {(each.table, each.other) for one in tables for each in overlapping_locations(one, tables)}
    found = overlaps_of_all(tables)
    assert {(each.table, each.other) for each in found} <= pairs
    # Of three in one folder, each is named, and not each pair.
    assert {name for each in found for name in (each.table, each.other)} == {name for pair in pairs for name in pair}


@pytest.mark.parametrize(("one", "other"), MEETING)
def test_the_overlaps_of_all_know_every_spelling(one: str, other: str) -> None:
    assert len(overlaps_of_all([table("a.b", one), table("a.c", other)])) == 1


@pytest.mark.parametrize(("one", "other"), APART)
def test_the_overlaps_of_all_leave_neighbours_apart(one: str, other: str) -> None:
    assert overlaps_of_all([table("a.b", one), table("a.c", other)]) == []


def test_ten_thousand_tables_of_one_path_take_seconds() -> None:
    tables = [table(f"a.t{number}", "s3://b/shared", f"s3://b/shared/t{number}") for number in range(10_000)]
    started = time.monotonic()
    assert len(overlaps_of_all(tables)) == 19_999
    assert time.monotonic() - started < 10
