"""Columns and keys of lake tables that are named in another case than the table's."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from tests.spark.upsert_flow import Flow

PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}


@pytest.mark.parametrize("kind", [LakeTable, Changes])
def test_columns_keys_and_predicates_are_taken_in_any_case(flow: Flow, kind: type[LakeTable] | type[Changes]) -> None:
    flow.catalog()
    table = f"{flow.table}_in"
    columns = "id BIGINT, total INT, note STRING"
    flow.spark.sql(f"CREATE TABLE {table} ({columns}) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    keys: dict[str, Any] = {"keys": ["ID"], "protect_source": False} if kind is Changes else {}
    source = kind(table, columns=["ID", "TOTAL"], where="Total > 1", name="s", **keys)
    for number in (1, 2):
        flow.spark.sql(f"INSERT INTO {table} VALUES ({number}, 1, 'a'), ({10 + number}, 2, 'b')")
        flow.apply(f"run {number}", source=source, **PLAIN)
    assert sorted(flow.records(), key=lambda row: row["id"]) == [{"id": 11, "total": 2}, {"id": 12, "total": 2}]
