"""Locations of tables that overlap, compared with each other one by one."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.maintenance.locations import overlapping_locations

PLACES = st.lists(st.sampled_from(["a", "b", "a-b", "a.b"]), min_size=1, max_size=4).map(
    lambda parts: "s3://" + "/".join(parts)
)


@given(st.dictionaries(st.sampled_from("tuvwx"), st.sets(PLACES, min_size=1, max_size=3)))
def test_every_table_inside_or_beside_another_one_is_told_and_no_other(locations: dict[str, set[str]]) -> None:
    found = overlapping_locations(locations)
    named = {name for each in found for name in (each.table, each.other)}
    pairs = [
        (table, other)
        for table, own in locations.items()
        for other, theirs in locations.items()
        for mine in own
        for place in theirs
        if table != other and (mine == place or mine.startswith(f"{place}/"))
    ]
    # The nearest table around one is told of, so each that lies in another is, and each that is nobody's is not.
    assert {each.table for each in found} <= {inner for inner, _ in pairs} | {outer for _, outer in pairs}
    assert named <= {name for pair in pairs for name in pair}
    assert {inner for inner, outer in pairs} <= named
    for each in found:
        assert each.location == each.around or each.location.startswith(f"{each.around}/")


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("s3://b/shop", "the location of shop.orders is that of shop.items: s3://b/shop"),
        (
            "s3://b/shop/orders",
            "the location of shop.orders lies in that of shop.items: s3://b/shop/orders in s3://b/shop",
        ),
    ],
)
def test_an_overlap_says_which_tables_and_where(place: str, sentence: str) -> None:
    (found,) = overlapping_locations({"shop.items": ["s3://b/shop"], "shop.orders": [place]})
    assert str(found) == sentence


def test_a_table_may_keep_its_data_in_its_own_folder() -> None:
    assert overlapping_locations({"a.b": ["s3://b/x", "s3://b/x/data"], "a.c": ["s3://b/x-1"]}) == []


def test_ten_thousand_tables_of_one_path_take_less_than_a_second() -> None:
    locations = {f"a.t{number}": ["s3://b/shared", f"s3://b/shared/t{number}"] for number in range(10_000)}
    started = time.monotonic()
    assert len(overlapping_locations(locations)) == 19_999
    assert time.monotonic() - started < 1
