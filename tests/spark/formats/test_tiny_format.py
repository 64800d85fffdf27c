"""A second format is one class and one entry: a job of it goes through the driver, and what it lacks is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.capabilities import FORMATS
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.reports.job import JobFailure, JobReport, Outcome, reports_from_plain
from airflow_lake_provider.contracts.specs.compaction import CompactionSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.spec_codec import Job, job_to_json
from airflow_lake_provider.spark_jobs import run_job
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from tests.spark.formats.base_repeats import RepeatSuite
from tests.spark.formats.base_upserts import UpsertSuite
from tests.spark.formats.tiny_format import WAREHOUSE
from tests.spark.formats.tiny_suite import TinySuite
from tests.spark.upsert_flow import SCHEMA, Flow, row
from tests.tiny_format import TINY


class TestUpserts(TinySuite, UpsertSuite):
    pass


class TestRepeats(TinySuite, RepeatSuite):
    pass


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """A session whose catalog has tables of the format, which the application gets and does not end."""
    monkeypatch.setitem(FORMATS, TINY.name, TINY)
    session = spark.newSession()
    session.conf.set(WAREHOUSE, str(tmp_path / "tables"))
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    monkeypatch.setattr(run_job, "open_session", lambda: (session, []))
    return session


def run(folder: Path, spec: JobSpec) -> JobReport | JobFailure:
    """Run a job of one task as spark-submit does."""
    (folder / "spec.json").write_text(job_to_json(Job({"task": spec})))
    run_job.main(["--spec", str(folder / "spec.json"), "--report", str(folder / "report.json")])
    return reports_from_plain(json.loads((folder / "report.json").read_text()))["task"]


def rows_of(folder: Path) -> dict[int, tuple[Any, ...]]:
    """Return the rows that the newest head names, read by pyarrow."""
    head = json.loads(max(folder.glob("head-*.json")).read_text())
    found = pq.read_table(head["rows"]).to_pylist()
    return {each.pop("id"): tuple(each.values()) for each in found}


def test_a_job_of_a_second_format_goes_through_the_driver(session: SparkSession, tmp_path: Path) -> None:
    flow = Flow(session, "shop.orders", tmp_path / "inbox", {"table_format": TINY.name})
    flow.arrive("1.jsonl", row(1, "a", 1), row(2, "b", 2))
    first = run(tmp_path, flow.spec("run 1"))
    assert isinstance(first, JobReport), first
    assert first.outcome is Outcome.APPLIED
    flow.arrive("2.jsonl", row(1, "c", 3), row(2, "", op="d"), row(3, "d", 4))
    assert getattr(run(tmp_path, flow.spec("run 2")), "outcome", None) is Outcome.APPLIED
    assert rows_of(tmp_path / "tables" / "shop.orders") == {1: ("c", 3), 3: ("d", 4)}
    assert getattr(run(tmp_path, flow.spec("run 2")), "outcome", None) is Outcome.ALREADY_APPLIED
    assert getattr(run(tmp_path, flow.spec("run 3")), "outcome", None) is Outcome.NOTHING_NEW


@pytest.mark.usefixtures("session")
def test_what_a_second_format_lacks_is_refused_by_name(tmp_path: Path) -> None:
    asked = RunIdentity.of("dag", "run", "task", "-1")
    refused = run(tmp_path, CompactionSpec(catalog="c", table="shop.orders", table_format=TINY.name, run=asked))
    assert isinstance(refused, JobFailure)
    assert refused.error == "UnsupportedError"
    assert "table format 'tiny' lacks 'compaction'" in refused.message


def test_a_new_column_is_refused_where_the_format_evolves_no_schema(session: SparkSession, tmp_path: Path) -> None:
    flow = Flow(session, "shop.orders", tmp_path / "inbox", {"table_format": TINY.name})
    flow.arrive("1.jsonl", row(1, "a", 1))
    run(tmp_path, flow.spec("run 1"))
    flow.arrive("2.jsonl", {**row(2, "b", 2), "extra": 1})
    wider = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema=f"{SCHEMA}, extra INT")
    refused = run(tmp_path, flow.spec("run 2", source=wider))
    assert isinstance(refused, JobFailure)
    assert "the batch has new columns ['extra']: table format 'tiny' lacks 'schema-evolution'" in refused.message
    assert rows_of(tmp_path / "tables" / "shop.orders") == {1: ("a", 1)}


def test_changes_that_a_second_format_cannot_read_are_refused_by_name(session: SparkSession) -> None:
    with pytest.raises(UnsupportedError, match="table format 'tiny' lacks 'read-changes'"):
        read_changes(session, "shop.orders", None, None, table_format=TINY.name)


@pytest.mark.usefixtures("session")
def test_a_format_that_nobody_registered_is_refused_by_name(tmp_path: Path) -> None:
    asked = RunIdentity.of("dag", "run", "task", "-1")
    refused = run(tmp_path, CompactionSpec(catalog="c", table="shop.orders", table_format="teeny", run=asked))
    assert isinstance(refused, JobFailure)
    assert "table format 'teeny' is not known; this version knows iceberg, tiny" in refused.message
