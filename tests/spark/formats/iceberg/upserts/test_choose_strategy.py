"""The strategy that ``auto`` takes, and the report's reason for it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.commits import write_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import scan_tasks
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from tests.spark.hostile_tables import write_metadata_of
from tests.spark.upsert_flow import Flow, InterruptedProgress, NewFlow, row

MERGE_ON_READ = TableLayout(properties={"write.merge.mode": "merge-on-read"})


@pytest.fixture
def flow(new_flow: NewFlow) -> Flow:
    return new_flow(strategy=UpsertStrategy.AUTO)


def test_auto_takes_positions_and_the_report_tells_what_they_looked_at(flow: Flow) -> None:
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(30)))
    first = flow.apply("run 1", create=MERGE_ON_READ)
    assert str(first.strategy_reason).startswith("the table has no rows; ")
    flow.arrive("2.jsonl", row(1, "b"), row(99, "b"))
    report = flow.apply("run 2")
    assert report.strategy == "positions"
    assert str(report.strategy_reason).startswith("1 files of 1, 30 candidate rows; pruned")


def test_rows_that_a_summary_does_not_count_are_those_of_the_manifests(flow: Flow) -> None:
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(30)))
    flow.apply("run 1", create=MERGE_ON_READ)
    write_metadata_of(flow.spark, flow.table, flow.loaded().metadata_location, without_totals)
    flow.arrive("2.jsonl", *(row(number, "b") for number in range(29)))
    report = flow.apply("run 2")
    assert report.before is not None
    assert (report.before.rows, report.strategy) == (30, "copy-on-write")
    assert str(report.strategy_reason).startswith("29 keys are 97% of the table's 30 rows")


def without_totals(metadata: dict[str, Any]) -> None:
    """Some writers leave them out of the summaries."""
    for snapshot in metadata["snapshots"]:
        snapshot["summary"] = {key: v for key, v in snapshot["summary"].items() if not key.startswith("total-")}


def test_files_are_planned_once_for_the_choice_the_read_and_the_deletes(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(30)))
    flow.apply("run 1", create=MERGE_ON_READ)
    planned: list[str] = []

    def again(table: IcebergTable, snapshot: int, paths: Collection[str]) -> dict[str, Any]:
        planned.extend(paths)
        return scan_tasks(table, snapshot, paths)

    monkeypatch.setattr(write_deletes, "scan_tasks", again)
    flow.arrive("2.jsonl", row(1, "b"))
    flow.apply("run 2")
    assert planned == []

    delete = f"DELETE FROM {flow.table} WHERE id = 9"
    flow.arrive("3.jsonl", row(2, "c"))
    report = flow.apply("run 3", progress=InterruptedProgress(at="commit", then=lambda: flow.spark.sql(delete)))
    assert report.attempts == 1
    # On the other writer's head the deletes of before are not those of now.
    assert planned
    assert {key: name for key, (name, _) in flow.rows().items() if name != "a"} == {1: "b", 2: "c"}
    assert 9 not in flow.rows()
