"""The second look at tables for which a catalog did not answer: those that hang stop no other."""

from __future__ import annotations

import time
from collections import Counter

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ServiceUnavailableError

from airflow_lake_provider.hooks import look_at_tables
from airflow_lake_provider.hooks.bounded_catalogs.iceberg_catalog import IcebergCatalog
from airflow_lake_provider.hooks.table_health import table_health
from airflow_lake_provider.tables.base import ListedTable, LoadedTable


def test_tables_that_hang_are_asked_last_and_stop_no_other(
    lake_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"shop.t{number:02}" for number in range(20)]
    for name in names:
        lake_catalog.create_table(name, pa.schema([("id", pa.int64())]))
    hanging, asked = set(names[:9]), Counter[str]()
    load = IcebergCatalog.load_listed

    def slow(catalog: IcebergCatalog, table: ListedTable) -> LoadedTable:
        asked[str(table)] += 1
        if str(table) in hanging:
            time.sleep(0.3)
        if str(table) in hanging or asked[str(table)] == 1:
            raise ServiceUnavailableError("503")
        return load(catalog, table)

    monkeypatch.setattr(IcebergCatalog, "load_listed", slow)
    monkeypatch.setattr(look_at_tables, "BEFORE_SECOND_LOOK", 0.0)
    health = {each.table: each.error for each in table_health("shop.*")}
    assert {name for name, error in health.items() if error is not None} == hanging
