"""Overwrites of partitions of the table of a :class:`.Flow`, run as the driver runs them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.reports.job import OverwritePartitionsReport
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.spark_jobs.actions.overwrite_batch import overwrite_partitions
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.upsert_flow import Flow

COLUMNS = "id BIGINT, name STRING, day DATE"
Row = tuple[int, str, str | None]


def overwrite(
    flow: Flow, run: str, folder: str, progress: Progress | None = None, **changes: Any
) -> OverwritePartitionsReport:
    """Put the rows of a folder of the inbox in place.

    :param run: of the task, with its clearing.
    """
    source = Files(path=f"{flow.inbox}/{folder}/*.jsonl", format="json", schema=COLUMNS)
    given: dict[str, Any] = {"catalog": "lake_default", "table": flow.table, "source": source, **flow.changes}
    given = {**given, "run": RunIdentity.of("dag", run, "task", "-1"), **changes}
    given["source"] = replace(given["source"], name="inbox")
    return overwrite_partitions(flow.spark, OverwritePartitionsSpec(**given), progress or Progress())


def put(flow: Flow, folder: str, *rows: Row) -> None:
    """Write the one file of a folder."""
    (flow.inbox / folder).mkdir(parents=True, exist_ok=True)
    flow.arrive(f"{folder}/rows.jsonl", *({"id": id_, "name": name, "day": day} for id_, name, day in rows))


def rows_of(flow: Flow, branch: str = "main") -> list[Row]:
    """Return all rows of the table in order, repeats included."""
    return ordered((row["id"], row["name"], _text(row["day"])) for row in flow.records(branch))


def ordered(rows: Any) -> list[Row]:
    """Return rows in order, those without a day last."""
    return sorted(rows, key=lambda row: (row[2] or "~", row[0], row[1]))


def _text(day: date | None) -> str | None:
    return None if day is None else day.isoformat()
