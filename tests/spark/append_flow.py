"""Appends into the table of a :class:`.Flow`, run as the driver runs them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.reports.job import AppendReport
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.spark_jobs.actions.append_batch import append_batch
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.upsert_flow import Flow

COLUMNS = "id BIGINT, name STRING"


def append(flow: Flow, run: str, progress: Progress | None = None, **changes: Any) -> AppendReport:
    """Add the files of the inbox."""
    source = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema=COLUMNS)
    given: dict[str, Any] = {"catalog": "lake_default", "table": flow.table, "source": source, **flow.changes}
    given = {**given, "run": RunIdentity.of("dag", run, "task", "-1"), **changes}
    given["source"] = replace(given["source"], name="inbox")
    return append_batch(flow.spark, AppendSpec(**given), progress or Progress())


def event(number: int | None, name: str = "a") -> dict[str, Any]:
    """Return a row of the inbox."""
    return {"id": number, "name": name}


def events_of(flow: Flow) -> list[tuple[Any, ...]]:
    """Return all rows of the table in order, repeats included."""
    return sorted((row["id"], row["name"]) for row in flow.records())
