"""Events that wrap a whole row are upserted by a query, as the page on envelopes shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.specs.job import SpecFrame
from airflow_lake_provider.spark_jobs.actions.upsert_batch import upsert_batch
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.sources.wrapped_rows import customers
from tests.spark.upsert_flow import Flow


def event(op: str, position: int, number: int, name: str, table: str = "customers") -> dict[str, Any]:
    return {"table": table, "op": op, "position": position, "row": {"id": number, "name": name}}


def apply(flow: Flow, run: str) -> None:
    written = customers.written()
    query = written.source
    assert isinstance(query, Query)
    assert isinstance(query.over, Files)
    source = replace(query, over=replace(query.over, path=f"{flow.inbox}/*.jsonl"), name="inbox")
    frame = SpecFrame(catalog="lake_default", table_format="iceberg", run=RunIdentity.of("dag", run, "task", "-1"))
    upsert_batch(flow.spark, replace(written, table=flow.table, source=source).framed(frame), Progress())


def test_the_last_event_of_a_row_wins_also_where_others_come_late_or_again(flow: Flow) -> None:
    first = (event("I", 10, 1, "Ada"), event("I", 11, 2, "Bob"), event("U", 12, 1, "Ada Lovelace"))
    flow.arrive("1.jsonl", *first, event("I", 13, 1, "a table", table="tables"))
    apply(flow, "run 1")
    flow.arrive("2.jsonl", event("D", 20, 2, "Bob"))
    apply(flow, "run 2")
    flow.arrive("3.jsonl", *first, event("U", 19, 2, "Bobby"))
    apply(flow, "run 3")
    rows = flow.loaded().scan().to_arrow().to_pylist()
    assert json.loads(json.dumps(sorted(rows, key=lambda row: row["id"]))) == [
        {"id": 1, "name": "Ada Lovelace", "position": 12, "is_deleted": False},
        {"id": 2, "name": "Bob", "position": 20, "is_deleted": True},
    ]
