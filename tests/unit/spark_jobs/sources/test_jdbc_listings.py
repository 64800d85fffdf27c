"""Rows of a database that a run reads after those of another one, and the pages and values where ranges begin."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.positions import WatermarkPosition
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.spark_jobs.sources.jdbc.dialect import DatabaseColumn, Dialect
from airflow_lake_provider.spark_jobs.sources.jdbc.mariadb import MariaDb
from airflow_lake_provider.spark_jobs.sources.jdbc.postgresql import PostgreSql
from airflow_lake_provider.spark_jobs.sources.jdbc.relation import Relation, between
from airflow_lake_provider.spark_jobs.sources.jdbc.source import WatermarkListing, WholeListing
from airflow_lake_provider.spark_jobs.sources.jdbc.splits import Splits, page_bounds, weight_bounds

RELATION = Relation(sql="t", what="t", table=("t",), columns=(), pages=())
NOTHING = SourcePosition()
POSTGRESQL, MARIADB = PostgreSql(), MariaDb()
LEAST = "CAST('0001-01-01' AS DATETIME)"
DAY = "CAST(_utf8mb4 X'323032362d30312d3032' AS DATE)"


def listed(value: Any, column: str = "w") -> WatermarkListing:
    upto = None if value is None else WatermarkPosition(column, value)
    return WatermarkListing(source_name="s", relation=RELATION, shape={"watermark": "x"}, upto=upto)


@given(st.lists(st.none() | st.integers(0, 9)))
def test_runs_read_each_value_once_however_the_greatest_one_moves(greatest: list[int | None]) -> None:
    position = NOTHING
    read: list[Any] = []
    for value in greatest:
        new = listed(value).beyond(position)
        if not new.is_empty:
            assert new.upto is not None
            read.append((new.since.value if new.since else -1, new.upto.value))
            position = listed(value).position_after(position, None)
    assert all(low < high for low, high in read)
    assert [low for low, _ in read] == [-1, *(high for _, high in read)][: len(read)]


def test_a_position_never_goes_back_and_another_column_is_no_order() -> None:
    ten = listed(10).position_after(NOTHING, None)
    assert ten.generation == 1
    assert listed(5).position_after(ten, None).of(WatermarkPosition) == WatermarkPosition("w", 10)
    other = listed(5, "v")
    assert other.beyond(ten) == other
    assert other.changed_since(ten) == "the watermark was w=10, and is of column v now"
    assert listed("2026-10-01").changed_since(ten) == "the watermark was w=10, and is of another type now"
    assert other.without_changed(ten).is_empty
    assert listed(11).changed_since(ten) == ""
    moved = other.position_after(ten, None)
    assert (moved.of(WatermarkPosition), moved.generation) == (WatermarkPosition("v", 5), 2)


def test_a_greatest_value_that_has_fallen_is_said_with_both_and_no_other_one_is() -> None:
    ten = listed(10).position_after(NOTHING, None)
    (warning,) = listed(5).warnings_at(ten)
    assert warning.startswith("the greatest w is 5 now, and rows up to 10 were applied: until it is greater, no row")
    assert [
        listed(value, column).warnings_at(ten) for value, column in ((10, "w"), (11, "w"), (5, "v"), (None, "w"))
    ] == [()] * 4
    assert listed(5).warnings_at(NOTHING) == ()


@pytest.mark.parametrize(
    ("shape", "column", "count"),
    [
        ({"table": "t", "watermark": "x"}, "w", 1),
        ({"table": "t", "query": "of Spark"}, "w", 1),
        # Of a named input nobody knows the table.
        ({}, "w", 1),
        ({"table": "t"}, "v", 0),
        ({"table": "other"}, "w", 0),
        ({"query": "t"}, "w", 0),
    ],
)
def test_a_renamed_source_of_a_table_is_told_by_its_watermark_whatever_came_since(
    shape: dict[str, str], column: str, count: int
) -> None:
    before = replace(listed(5, column), shape=shape).position_after(NOTHING, None)
    now = replace(listed(9), shape={"table": "t", "watermark": "x"}).beyond(NOTHING)
    assert now.consumed_by(before) == count
    assert listed(None).consumed_by(before) == 0


def test_a_whole_table_is_read_by_each_run_and_counts_its_commits() -> None:
    whole = WholeListing(source_name="s", relation=RELATION, shape={"table": "x"})
    after = whole.position_after(NOTHING, None)
    assert whole.beyond(after) == whole
    assert SourcePosition.read(after.to_properties("s"), "s") == after
    assert (after.generation, whole.is_covered_by(after)) == (1, False)


@given(st.lists(st.integers(0, 2_000), min_size=1, max_size=6), st.integers(2, 8))
def test_pages_are_cut_where_each_range_has_as_many_of_all_parts(pages: list[int], wanted: int) -> None:
    bounds = page_bounds(pages, wanted)
    assert bounds == sorted(set(bounds))
    assert len(bounds) < wanted
    ends = [0, *bounds, max(pages)]
    shares = [sum(max(0, min(high, part) - low) for part in pages) for low, high in pairwise(ends)]
    assert sum(shares) == sum(pages)
    # One page of each part is the least that can be told apart.
    assert max(shares) <= sum(pages) / wanted + len(pages)


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=40), st.floats(0, 1), st.integers(2, 8))
def test_values_are_cut_where_each_range_has_as_many_rows(weights: list[float], nulls: float, wanted: int) -> None:
    total = sum(weights) / (1 - min(nulls, 0.99))
    weighed = [(f"{place:03}", weight / total) for place, weight in enumerate(weights)]
    bounds = weight_bounds(weighed, wanted)
    assert bounds == sorted(set(bounds))
    assert len(bounds) < wanted
    if bounds:
        last = sum(weight for value, weight in weighed if value >= bounds[-1])
        assert len(bounds) < wanted - 1 or last <= 1 / wanted + 1e-9


def test_ranges_are_disjoint_and_the_first_one_has_null() -> None:
    splits = Splits.at("n", ["1", "5"], '"_lake_split"')
    assert splits.conditions == (
        '"_lake_split" < 1 OR "_lake_split" IS NULL',
        '"_lake_split" >= 1 AND "_lake_split" < 5',
        '"_lake_split" >= 5',
    )
    assert Splits.at("n", [], "x") == Splits()


@pytest.mark.parametrize(
    ("dialect", "kind", "since", "overlap", "low"),
    [
        (POSTGRESQL, "int4", 7, None, "> '7'::\"int4\""),
        (POSTGRESQL, "int4", -(2**31), "10", ">= '-2147483658'::\"int8\""),
        (POSTGRESQL, "int8", -(2**63), "10", ">= '-9223372036854775808'::\"int8\""),
        (POSTGRESQL, "date", "2026-01-02", "P1D", ">= '2026-01-02'::\"date\" - interval '86400000000 microseconds'"),
        (MARIADB, "integer unsigned", 7, None, "> 7"),
        (MARIADB, "bigint", -(2**63), "10", ">= -9223372036854775808"),
        (
            MARIADB,
            "date",
            "2026-01-02",
            "P1D",
            f">= COALESCE({DAY} - INTERVAL 86400000000 MICROSECOND, {LEAST})",
        ),
    ],
)
def test_an_overlap_begins_at_its_lower_end(dialect: Dialect, kind: str, since: Any, overlap: Any, low: str) -> None:
    column = DatabaseColumn('a"`b', kind)
    name, position = dialect.quoted(column.name), WatermarkPosition(column.name, since)
    wanted = f"{name} <= {dialect.typed(str(since), kind)} AND {name} {low}"
    assert between(dialect, column, position, position, overlap) == wanted


def test_names_and_constants_keep_every_character() -> None:
    assert POSTGRESQL.quoted('a"b') == '"a""b"'
    assert POSTGRESQL.literal("it's") == "'it''s'"
    assert POSTGRESQL.literal("a\\'") == "E'a\\\\'''"
    assert MARIADB.quoted("a`b") == "`a``b`"
    assert MARIADB.literal("a'") == "_utf8mb4 X'6127'"
