"""Tables that got a VARIANT since their last commit, which no file has: whole loads and sources read them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyspark
import pytest

from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from tests.spark.upsert_flow import Flow

pytestmark = pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 3.5 has no VARIANT")
PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}


def test_a_variant_that_the_batch_or_somebody_has_just_added_is_compared(flow: Flow) -> None:
    flow.catalog()
    columns = "id BIGINT, n INT"
    flow.spark.sql(f"CREATE TABLE {flow.table} ({columns}) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (1, 1), (2, 1), (3, 1)")
    files = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema=columns)
    source = Query("SELECT *, CASE WHEN id = 1 THEN parse_json('[1]') END AS v FROM source", over=files)
    whole: dict[str, Any] = {"is_complete": True, "missing_columns": "null", "max_deleted_share": 0.5, **PLAIN}
    flow.arrive("1.jsonl", {"id": 1, "n": 1}, {"id": 2, "n": 1}, at=1_700_000_001)
    by_batch = flow.apply("run 1", source=source, **whole)
    flow.spark.sql(f"ALTER TABLE {flow.table} ADD COLUMN w VARIANT")
    # The same batch as a later file.
    flow.arrive("1.jsonl", {"id": 1, "n": 1}, {"id": 2, "n": 2}, at=1_700_000_002)
    by_somebody = flow.apply("run 2", source=source, **whole)
    counts = [(each.rows_updated, each.rows_deleted, each.rows_unchanged) for each in (by_batch, by_somebody)]
    assert counts == [(1, 1, 1), (1, 0, 1)]
    rows = flow.spark.sql(f"SELECT id, n, to_json(v), w IS NULL FROM {flow.table} ORDER BY id").collect()
    assert rows == [(1, 1, "[1]", True), (2, 2, None, True)]
    flow.spark.sql(f"ALTER TABLE {flow.table} ADD COLUMN x VARIANT")
    copied = replace(flow, table=f"{flow.table}_copy")
    copied.apply(source=LakeTable(flow.table, where="n > 0"), **PLAIN)
    rows = flow.spark.sql(f"SELECT id, n, to_json(v), x IS NULL FROM {copied.table} ORDER BY id").collect()
    assert rows == [(1, 1, "[1]", True), (2, 2, None, True)]
