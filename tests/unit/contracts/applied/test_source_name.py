"""Names of sources: short, safe in a property and in a summary, and different where the texts are."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.source_position import (
    consumer_of_position,
    consumer_source_name,
    default_source_name,
    source_name,
    table_of_position,
)
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import InvalidSpecError

SAFE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# As Airflow has them: a task of a group has the group's name and a dot before its own.
IDS = st.from_regex(r"[ab.ä]{1,4}", fullmatch=True)


@given(st.from_regex(r"[A-Za-z0-9_.-]+", fullmatch=True))
def test_a_name_of_safe_characters_stays_as_it_is_until_it_is_too_long(text: str) -> None:
    name = source_name(text)
    assert SAFE.fullmatch(name)
    assert (name == text) == (len(text) <= 64)
    assert source_name(name) == name


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_dag_and_task_of_any_letters_have_a_safe_name(dag: str, task: str) -> None:
    assert SAFE.fullmatch(default_source_name(dag, task))


def test_names_that_are_long_or_have_other_letters_are_still_told_apart() -> None:
    long = "x" * 80
    assert len({source_name(long + end) for end in "abc"}) == 3
    assert default_source_name("käufe", "t") != default_source_name("kaufe", "t") != default_source_name("kôufe", "t")
    assert default_source_name("shop", "orders") == "shop.orders"


@given(st.tuples(IDS, IDS), st.tuples(IDS, IDS))
@example(("shop", "daily.orders"), ("shop.daily", "orders"))
@example(("a" * 70, "b.c"), ("a" * 70 + ".b", "c"))
def test_two_tasks_never_share_a_default_name(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (default_source_name(*one) == default_source_name(*other)) == (one == other)


def test_the_longest_name_of_a_consumer_stays_as_it_is_and_a_longer_one_is_cut() -> None:
    uuid = "0f8fad5b-d9cb-469f-a165-70867728950e"
    assert consumer_source_name(uuid, "c" * 27) == f"{uuid}.{'c' * 27}"
    assert len(consumer_source_name(uuid, "c" * 28)) == 64


@pytest.mark.parametrize("text", ["a b", "a=1", "a\n", "ä", "a/b", "a\x00"])
def test_a_name_that_would_break_a_property_or_a_summary_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpecError, match="of a source must have"):
        Files(path="a.csv", format="csv", name=text)


@pytest.mark.parametrize("consumer", ["c", "c" * 27, "c" * 64])
def test_a_position_of_a_consumer_tells_the_table_that_it_was_read_from(consumer: str) -> None:
    uuid = "0a1b2c3d-0000-4000-8000-0123456789ab"
    assert table_of_position(consumer_source_name(uuid, consumer), consumer) == uuid
    assert table_of_position(consumer_source_name(uuid, consumer), "other") is None
    # A name that was made shorter tells that there is a consumer, and no more of it.
    told = consumer_of_position(consumer_source_name(uuid, consumer))
    assert told == consumer if len(consumer) <= 27 else told is not None


@pytest.mark.parametrize("name", ["", "c", "shop.orders", "é" * 40, "a b", "x" * 10_000, f"{'x' * 36}.c"])
def test_a_name_that_anybody_may_have_written_tells_no_table(name: str) -> None:
    assert table_of_position(name, "c") is None
    assert consumer_of_position(name) is None
