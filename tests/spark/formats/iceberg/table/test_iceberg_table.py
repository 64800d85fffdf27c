"""Spark's catalog forgets a table that nobody asked for in 30 seconds, and takes another handle at the next read."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.spark.upsert_flow import Flow, InterruptedProgress, row


@pytest.fixture(params=[UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE], ids=lambda strategy: strategy.value)
def flow(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Flow:
    flow = Flow(spark, f"cached.t_{uuid.uuid4().hex[:8]}", tmp_path / "inbox", {"strategy": request.param})
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"), row(2, "b"))
    return flow


def take_another_handle(flow: Flow) -> None:
    flow.spark.sql(f"REFRESH TABLE {flow.table}")
    assert flow.spark.table(flow.table).columns


@pytest.mark.parametrize("phase", ["resolve", "commit"])
def test_the_session_reads_a_commit_that_took_long(flow: Flow, phase: str) -> None:
    flow.apply("run 2", progress=InterruptedProgress(at=phase, then=lambda: take_another_handle(flow)))
    found = flow.spark.table(flow.table).select("id", "name").collect()
    assert sorted(tuple(row) for row in found) == [(1, "b"), (2, "b")]


def test_a_commit_in_between_is_rebased_by_a_batch_that_takes_long(flow: Flow) -> None:
    # A catalog of its own, as another driver has.
    other = flow.spark.newSession()

    def meanwhile() -> None:
        take_another_handle(flow)
        other.sql(f"INSERT INTO {flow.table} VALUES (3, 'theirs', 0)")

    report = flow.apply("run 2", progress=InterruptedProgress(at="commit", then=meanwhile), max_attempts=1)
    assert report.attempts == 1
    assert {key: values[0] for key, values in flow.rows().items()} == {1: "b", 2: "b", 3: "theirs"}
