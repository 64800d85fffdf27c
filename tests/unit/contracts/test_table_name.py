"""Names of tables: what parses, and how they are written for Spark and for assets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.table_name import TableName

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
    assert TableName.parse("shop.orders").asset_uri("lake", "paimon") == "paimon://lake/shop/orders"
