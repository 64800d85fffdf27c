"""Names of tables: what parses, and how they are written for Spark and for assets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.table_name import TableName, TablePatterns

LEVELS = st.lists(st.text("abzAZ019_-é", min_size=1), min_size=2, max_size=4)


@settings(deadline=None)
@given(LEVELS)
def test_a_name_parses_to_its_levels_and_prints_as_it_was(levels: list[str]) -> None:
    name = TableName.parse(".".join(levels))
    assert (list(name.namespace), name.table, str(name)) == (levels[:-1], levels[-1], ".".join(levels))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        ".orders",
        "shop.",
        "shop..orders",
        "shop.or ders",
        "shop.orders\n",
        "shop.`x`",
        "a/b.c",
        "{{ t }}.x",
    ],
)
def test_anything_else_is_refused_with_what_was_given(text: str) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        TableName.parse(text)
    assert repr(text) in str(refused.value)
    assert "namespace.table" in str(refused.value)


def test_spark_reads_each_level_in_backticks() -> None:
    name = TableName.parse("shop.eu.orders")
    assert name.quoted() == "`shop`.`eu`.`orders`"
    assert name.quoted("lake-1") == "`lake-1`.`shop`.`eu`.`orders`"


def test_the_asset_uri_has_the_authority_and_the_levels() -> None:
    assert TableName.parse("shop.eu.orders").asset_uri("lake") == "iceberg://lake/shop/eu/orders"


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        ("*", ["shop.orders", "shop.tmp_1", "shop.eu.orders", "crm.people"]),
        ("shop.*", ["shop.orders", "shop.tmp_1", "shop.eu.orders"]),
        ("shop.orders", ["shop.orders"]),
        (["shop.*", "!shop.tmp_*"], ["shop.orders", "shop.eu.orders"]),
        (["!shop.*"], ["crm.people"]),
        (["*.orders"], ["shop.orders", "shop.eu.orders"]),
        (["shop.tmp_?", "crm.people"], ["shop.tmp_1", "crm.people"]),
        (["SHOP.*"], []),
    ],
)
def test_patterns_choose_tables_by_their_whole_names(patterns: str | list[str], chosen: list[str]) -> None:
    names = ["shop.orders", "shop.tmp_1", "shop.eu.orders", "crm.people"]
    assert [name for name in names if TablePatterns.parse(patterns).matches(name)] == chosen


@pytest.mark.parametrize(
    ("patterns", "namespaces"),
    [
        ("*", {()}),
        ("shop.*", {("shop",)}),
        ("shop.eu.orders", {("shop", "eu")}),
        ("sh*.orders", {()}),
        (["shop.*", "shop.eu.*", "crm.p?"], {("shop",), ("crm",)}),
        (["shop.*", "*"], {()}),
        (["!shop.*"], {()}),
    ],
)
def test_patterns_say_below_which_namespaces_their_tables_are(
    patterns: str | list[str], namespaces: set[tuple[str, ...]]
) -> None:
    assert TablePatterns.parse(patterns).namespaces() == namespaces


def test_a_name_without_a_pattern_is_missed_where_it_is_not() -> None:
    patterns = TablePatterns.parse(["shop.orders", "shop.items", "shop.tmp_*", "!shop.gone"])
    assert patterns.missing(["shop.orders"]) == ["shop.items"]
