"""Patterns of tables that match nothing are said in the log, with the name that is nearest."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_lake_provider.contracts.errors import CatalogUnavailableError
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.table_health import table_health
from airflow_lake_provider.hooks.table_plans import table_plans

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def two(lake_catalog: SqlCatalog) -> None:
    lake_catalog.create_namespace("stock")
    lake_catalog.create_table("shop.orders", SCHEMA)
    lake_catalog.create_table("stock.items", SCHEMA)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if "matches" in each.getMessage()]


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("look", [table_plans, table_health])
@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("shpo.*", "; did you mean 'shop.*'?"),
        ("shop.ordr*", "; did you mean 'shop.orders'?"),
        ("Stock.*", "; did you mean 'stock.*'?"),
        ("zzz_*.q?", ""),
    ],
)
def test_a_pattern_that_matches_no_table_is_a_warning(
    look: Any, pattern: str, meant: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert [each.table for each in look(["stock.items", "shop.o*", pattern])].count("stock.items") == 1
    assert warnings(caplog) == [f"no table matches {pattern!r}{meant}"]


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("tables", ["*", ["shop.*", "!shop.tmp_*"], ["shop.*", "!shop.orders"], "!shop.x"])
def test_patterns_of_tables_that_exist_are_no_warning(tables: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        table_plans(tables)
    assert warnings(caplog) == []


@pytest.mark.usefixtures("two")
def test_a_catalog_that_lists_no_other_namespaces_stops_no_look(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    listed = LakeCatalogHook.list_tables

    def some(hook: LakeCatalogHook, within: tuple[str, ...] = ()) -> Any:
        if not within:
            raise CatalogUnavailableError("no answer")
        return listed(hook, within)

    monkeypatch.setattr(LakeCatalogHook, "list_tables", some)
    with caplog.at_level(logging.WARNING):
        assert [each.table for each in table_plans(["shop.orders", "shpo.*"])] == ["shop.orders"]
    assert warnings(caplog) == ["no table matches 'shpo.*'; did you mean 'shop.*'?"]
