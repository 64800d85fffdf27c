"""Rows that an overwrite brings as they were keep their ids, and readers of changes do not see them."""

from __future__ import annotations

from typing import Any

import pyspark
import pytest

from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from tests.spark.overwrite_flow import COLUMNS, overwrite, put
from tests.spark.upsert_flow import Flow

DAY = "2026-11-01"


def updated(flow: Flow) -> dict[str, int]:
    """Return the sequence number of the last change by the name of each row."""
    rows = flow.spark.sql(f"SELECT name, _last_updated_sequence_number AS number FROM {flow.table}").collect()
    return {row["name"]: row["number"] for row in rows}


def row_ids(flow: Flow) -> dict[str, int]:
    """Return the row id by the name of each row."""
    rows = flow.spark.sql(f"SELECT name, _row_id FROM {flow.table}").collect()
    return {row["name"]: row["_row_id"] for row in rows}


def test_rows_of_one_key_in_another_order_are_unchanged(flow: Flow) -> None:
    flow.changes["create"] = TableLayout(partition_by=["day"], properties={"format-version": "3"})
    rows = [(7, name, DAY) for name in "abcdef"]
    part: dict[str, Any] = {"where": f"day = '{DAY}'", "keys": ("id",)}
    put(flow, "in", *rows)
    overwrite(flow, "run 1", "in", **part)
    put(flow, "in", *reversed(rows))
    overwrite(flow, "run 2", "in", **part)
    assert updated(flow) == dict.fromkeys("abcdef", 1)


def test_rows_beside_new_ones_of_their_key_are_unchanged(flow: Flow) -> None:
    flow.changes["create"] = TableLayout(partition_by=["day"], properties={"format-version": "3"})
    part: dict[str, Any] = {"where": f"day = '{DAY}'", "keys": ("id",)}
    put(flow, "in", *((7, name, DAY) for name in "fkpz"))
    overwrite(flow, "run 1", "in", **part)
    before = row_ids(flow)
    put(flow, "in", *((7, name, DAY) for name in "abcdefghijkp"))
    overwrite(flow, "run 2", "in", **part)
    assert updated(flow) == {name: 1 if name in "fkp" else 2 for name in "abcdefghijkp"}
    after = row_ids(flow)
    assert {name: after[name] for name in "fkp"} == {name: before[name] for name in "fkp"}
    # One of the others is the row that went, changed.
    assert len(set(before.values()) & set(after.values())) == 4


NEEDS_VARIANT = pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 3.5 has no VARIANT")
VALUES = ["map(id, timestamp_micros(1))", pytest.param("parse_json('{\"b\": [1, 2.5]}')", marks=NEEDS_VARIANT)]


@pytest.mark.parametrize("value", VALUES)
def test_a_map_and_a_variant_are_compared(flow: Flow, value: str) -> None:
    flow.changes["create"] = TableLayout(partition_by=["day"], properties={"format-version": "3"})
    files = Files(path=f"{flow.inbox}/in/*.jsonl", format="json", schema=COLUMNS)
    source = Query(f"SELECT *, CASE WHEN name <> 'none' THEN {value} END AS value FROM source", over=files)
    part: dict[str, Any] = {"where": f"day = '{DAY}'", "keys": ("id",), "source": source}
    put(flow, "in", (1, "same", DAY), (2, "none", DAY))
    overwrite(flow, "run 1", "in", **part)
    put(flow, "in", (1, "same", DAY), (2, "given", DAY))
    overwrite(flow, "run 2", "in", **part)
    assert updated(flow) == {"same": 1, "given": 2}


def test_rows_of_nothing_but_keys_keep_their_ids(flow: Flow) -> None:
    flow.changes["create"] = TableLayout(partition_by=["day"], properties={"format-version": "3"})
    part: dict[str, Any] = {"where": f"day = '{DAY}'", "keys": ("id", "name", "day")}
    put(flow, "in", (1, "a", DAY), (2, "b", DAY))
    overwrite(flow, "run 1", "in", **part)
    before = row_ids(flow)["b"]
    put(flow, "in", (2, "b", DAY), (3, "c", DAY))
    overwrite(flow, "run 2", "in", **part)
    assert (row_ids(flow)["b"], updated(flow)) == (before, {"b": 1, "c": 2})
