"""The compare-and-swap of a commit: what is committed just before it stays, and what may have been made is kept."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import UnknownOutcomeError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.commits import metadata_swap
from tests.spark.upsert_flow import Flow, row

WAYS = [("2", UpsertStrategy.POSITIONS), ("3", UpsertStrategy.POSITIONS), ("3", UpsertStrategy.MERGE)]


def lost_answer(spark: SparkSession) -> Py4JJavaError:
    jvm: Any = spark._jvm
    cause = jvm.java.lang.RuntimeException("no answer")
    return Py4JJavaError("lost", jvm.org.apache.iceberg.exceptions.CommitStateUnknownException("lost", cause))


@pytest.fixture(params=WAYS, ids=[f"{strategy.value}, version {version}" for version, strategy in WAYS])
def flow(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Flow:
    """A table with a batch, and another batch that waits."""
    version, strategy = request.param
    layout = TableLayout(properties={"format-version": version})
    name = f"swaps.t_{uuid.uuid4().hex[:8]}"
    flow = Flow(spark, name, tmp_path / "inbox", {"create": layout, "strategy": strategy})
    flow.arrive("1.jsonl", *(row(key, "a") for key in range(4)))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"), row(2, "b", op="d"), row(7, "b"))
    return flow


BEFORE = dict.fromkeys(range(4), ("a", 0))
AFTER = {0: ("a", 0), 1: ("b", 0), 3: ("a", 0), 7: ("b", 0)}


def test_what_is_committed_between_the_check_and_the_swap_is_not_overwritten(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = metadata_swap._send
    # A catalog object of its own, as another driver has.
    other = flow.spark.newSession()
    statements = [f"UPDATE {flow.table} SET name = 'other' WHERE id IN (0, 1)"]

    def overtaken(*commit: Any) -> None:
        while statements:
            other.sql(statements.pop())
        send(*commit)

    monkeypatch.setattr(metadata_swap, "_send", overtaken)
    report = flow.apply("run 2")
    assert report.outcome is Outcome.APPLIED
    assert flow.rows() == {**AFTER, 0: ("other", 0)}
    assert flow.commits_of(report.run_key) == 1
    assert len(flow.loaded().history()) == 3


def test_a_commit_that_is_committed_after_its_driver_has_failed_is_whole_and_its_retry_applies_nothing(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = metadata_swap._send
    sent: list[Any] = []

    def lose(*commit: Any) -> None:
        sent.append(commit)
        raise lost_answer(flow.spark)

    monkeypatch.setattr(metadata_swap, "_send", lose)
    with pytest.raises(UnknownOutcomeError, match="A retry is safe"):
        flow.apply("run 2")
    assert flow.rows() == BEFORE

    monkeypatch.setattr(metadata_swap, "_send", send)
    (on_its_way,) = sent
    send(*on_its_way)
    assert flow.rows() == AFTER
    retry = flow.apply("run 2")
    assert retry.outcome is Outcome.ALREADY_APPLIED
    assert flow.rows() == AFTER
    assert flow.commits_of(retry.run_key) == 1


def test_a_commit_that_was_made_without_an_answer_is_a_success(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    send = metadata_swap._send

    def committed_without_answer(*commit: Any) -> None:
        send(*commit)
        raise lost_answer(flow.spark)

    monkeypatch.setattr(metadata_swap, "_send", committed_without_answer)
    report = flow.apply("run 2")
    assert (report.outcome, report.attempts) == (Outcome.APPLIED, 1)
    assert flow.rows() == AFTER
    assert flow.commits_of(report.run_key) == 1
