"""Commits of other writers that get in between, and what each leaves of rows that a batch does not touch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.upsert_flow import Flow, row


def compact(flow: Flow) -> None:
    """Compact the table of a flow."""
    spec = CompactionSpec(
        catalog=flow.spec().catalog,
        table=flow.table,
        run=RunIdentity.of("compact", "r", "t"),
        level=CompactionLevel.MAJOR,
    )
    assert compact_table(flow.spark, spec, Progress()).outcome is Outcome.DONE


def upsert_of_another_run(flow: Flow) -> None:
    """Upsert two keys, one of them the batch's."""
    other = replace(flow, inbox=flow.inbox.parent / "other")
    other.arrive("1.jsonl", row(1, "theirs"), row(3, "theirs"))
    source = replace(other.spec().source, name="other")
    other.apply("their run", identity=RunIdentity.of("another dag", "r", "t"), source=source)


FOREIGN: dict[str, tuple[Callable[[Flow], Any], dict[int, tuple[Any, ...]]]] = {
    "append of another key": (lambda f: f.spark.sql(f"INSERT INTO {f.table} VALUES (9, 'z', 9)"), {9: ("z", 9)}),
    "append of a key of the batch": (lambda f: f.spark.sql(f"INSERT INTO {f.table} VALUES (2, 'z', 9)"), {}),
    "delete of a key of the batch": (lambda f: f.spark.sql(f"DELETE FROM {f.table} WHERE id = 1"), {}),
    "delete of another key": (lambda f: f.spark.sql(f"DELETE FROM {f.table} WHERE id = 3"), {3: ()}),
    "upsert of another run": (upsert_of_another_run, {3: ("theirs", 0)}),
    "compaction": (compact, {}),
    "property": (lambda f: f.spark.sql(f"ALTER TABLE {f.table} SET TBLPROPERTIES ('some' = 'thing')"), {}),
}
