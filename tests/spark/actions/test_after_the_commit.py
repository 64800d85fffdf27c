"""Failures after a commit: the job says what it did, and what it could not look at any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.commits import metadata_swap
from airflow_lake_provider.spark_jobs.formats.iceberg.rows import row_positions
from tests.spark.consumer import Consumer
from tests.spark.maintained_table import MaintainedTable
from tests.spark.row_change_flow import delete, rows_outside, update
from tests.spark.upsert_flow import Flow, InterruptedProgress, row


@contextmanager
def after_each_commit(monkeypatch: pytest.MonkeyPatch, then: Callable[[], Any]) -> Iterator[None]:
    """Call something right after each commit of the driver was made."""
    send = metadata_swap._send

    def sent(*commit: Any) -> None:
        send(*commit)
        then()

    with monkeypatch.context() as patched:
        patched.setattr(metadata_swap, "_send", sent)
        yield


def lose_executors(spark: SparkSession) -> None:
    """Take the blocks of cached and checkpointed rows away."""
    context: Any = spark.sparkContext._jsc
    for rdd in list(context.getPersistentRDDs().values()):
        rdd.unpersist(True)


@contextmanager
def store_lost(monkeypatch: pytest.MonkeyPatch, spark: SparkSession, metadata: Path) -> Iterator[None]:
    """Take executors and the table's metadata away when the commit was made, and give the metadata back."""
    away = metadata.with_name("away")

    def lose() -> None:
        lose_executors(spark)
        metadata.rename(away)

    try:
        with after_each_commit(monkeypatch, lose):
            yield
    finally:
        away.rename(metadata)


def metadata_of(location: str) -> Path:
    return Path(location.removeprefix("file://").removeprefix("file:")) / "metadata"


def refuses_to_guess(report: JobReport) -> bool:
    """Tell whether a report says that the table after its commit is not known."""
    return report.after is None and any("the table after the commit is not known" in said for said in report.warnings)


def test_rows_of_more_keys_than_are_listed_are_counted_before_the_commit(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_positions, "MOST_LISTED", 2)
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(9)))
    flow.apply("run 1")
    flow.arrive("2.jsonl", *(row(number, "b") for number in range(5, 12)), row(1, "", op="d"))
    with after_each_commit(monkeypatch, lambda: lose_executors(flow.spark)):
        report = flow.apply("run 2", strategy=UpsertStrategy.POSITIONS)
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (3, 4, 1)
    assert flow.rows() == {n: ("a" if n < 5 else "b", 0) for n in range(12) if n != 1}


def test_they_are_counted_on_the_head_that_the_commit_is_committed_on(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_positions, "MOST_LISTED", 2)
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(9)))
    flow.apply("run 1")
    flow.arrive("2.jsonl", *(row(number, "b") for number in range(5, 12)))
    between = f"INSERT INTO {flow.table} VALUES (10, 'other', 0)"
    progress = InterruptedProgress(at="commit", then=lambda: flow.spark.sql(between))
    report = flow.apply("run 2", strategy=UpsertStrategy.POSITIONS, progress=progress)
    assert (report.attempts, report.rows_inserted, report.rows_updated) == (1, 2, 5)
    assert flow.rows() == {n: ("a" if n < 5 else "b", 0) for n in range(12)}


@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
@pytest.mark.parametrize("strategy", [UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE])
def test_an_upsert_is_reported_with_its_counts_when_its_store_is_lost_after_it(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, strategy: UpsertStrategy, many: bool
) -> None:
    if many:
        monkeypatch.setattr(row_positions, "MOST_LISTED", 2)
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(9)))
    flow.apply("run 1")
    flow.arrive("2.jsonl", *(row(number, "b") for number in range(5, 12)), row(1, "", op="d"))
    with store_lost(monkeypatch, flow.spark, metadata_of(flow.loaded().location())):
        report = flow.apply("run 2", strategy=strategy)
    assert report.outcome is Outcome.APPLIED
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (3, 4, 1)
    assert refuses_to_guess(report)
    assert flow.rows() == {n: ("a" if n < 5 else "b", 0) for n in range(12) if n != 1}
    assert flow.apply("run 2", strategy=strategy).outcome is Outcome.ALREADY_APPLIED


def test_equality_deletes_that_cannot_be_counted_after_the_commit_are_unknown(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"))
    flow.apply("run 1", create=TableLayout())
    flow.arrive("2.jsonl", row(1, "b"), row(3, "b"))
    with store_lost(monkeypatch, flow.spark, metadata_of(flow.loaded().location())):
        report = flow.apply("run 2", strategy=UpsertStrategy.EQUALITY)
    assert (report.outcome, report.rows_inserted, report.equality_delete_files) == (Outcome.APPLIED, None, None)
    assert "how many equality deletes the table carries is not known" in report.warnings[1]
    assert refuses_to_guess(report)
    found = {r["id"]: r["name"] for r in flow.spark.table(flow.table).collect()}
    assert found == {1: "b", 2: "a", 3: "b"}


def test_a_deletion_and_an_update_are_reported_when_their_store_is_lost_after_them(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = MaintainedTable(spark)
    table.append(1, 3)
    metadata = metadata_of(table.outside().location())
    with store_lost(monkeypatch, spark, metadata):
        deleted = delete(table, where="id = 1")
    with store_lost(monkeypatch, spark, metadata):
        updated = update(table, where="id = 2", assignments={"amount": "9"})
    assert (deleted.outcome, deleted.rows_deleted) == (Outcome.APPLIED, 1)
    assert (updated.outcome, updated.rows_updated) == (Outcome.APPLIED, 1)
    assert deleted.retained_by is None
    assert refuses_to_guess(deleted)
    assert refuses_to_guess(updated)
    assert rows_outside(table) == {2: ("north", 9), 3: ("north", 30)}


def test_an_incremental_run_is_reported_when_its_store_is_lost_after_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = Consumer(Flow(spark, "landed.source", tmp_path), Flow(spark, "landed.mart", tmp_path / "unused"))
    consumer.commit("1", row(1, "a", 1), row(2, "b", 2))
    consumer.run("1")
    consumer.commit("2", row(2, "c", 3), row(3, "d", 4))
    with store_lost(monkeypatch, spark, metadata_of(consumer.target.loaded().location())):
        report = consumer.run("2")
    assert (report.outcome, report.rows_inserted, report.rows_updated) == (Outcome.APPLIED, 1, 1)
    assert refuses_to_guess(report)
    assert any("the guard" in said for said in report.warnings)
    assert consumer.target.rows() == consumer.expected()
    consumer.commit("3", row(4, "e", 5))
    assert consumer.run("3").warnings == ()
    assert consumer.target.rows() == consumer.expected()
