"""A second format is one class and one entry: a job of it goes through the driver, and what it lacks is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.capabilities import FORMATS, FormatCapabilities, Support
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import IncrementalReport, JobReport, Outcome
from airflow_lake_provider.contracts.reports.report_codec import JobFailure, reports_from_plain
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.specs.spec_codec import Job, job_to_json
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs import run_job
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.formats.changelog import net_of_changelog
from airflow_lake_provider.spark_jobs.formats.commits import AppliedCommit, ChangeFilter, KeyedCommit
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from tests.spark.formats.base_repeats import RepeatSuite
from tests.spark.formats.base_upserts import UpsertSuite
from tests.spark.formats.tiny_format import WAREHOUSE, TinyFormat, TinyTable
from tests.spark.formats.tiny_suite import TinySuite
from tests.spark.upsert_flow import SCHEMA, Flow, row
from tests.tiny_format import TINY

LOGGED = replace(
    TINY,
    driver="tests.spark.formats.test_tiny_format:LoggedFormat",
    declared={**TINY.declared, "read-changes": Support(), "changelog": Support()},
)


class LoggedFormat(TinyFormat):
    """The same, with a changelog that it writes beside its rows."""

    capabilities: ClassVar[FormatCapabilities] = LOGGED

    def table(self, spark: SparkSession, catalog: str, name: TableName, write_options: Mapping[str, str]) -> TinyTable:
        return LoggedTable(spark, Path(str(spark.conf.get(WAREHOUSE))) / str(name))


class LoggedTable(TinyTable):
    """A table with a file of steps for each version; it reads no changes but by them."""

    capabilities: ClassVar[FormatCapabilities] = LOGGED

    def apply(self, commit: KeyedCommit, progress: Progress) -> AppliedCommit:
        keys, rows = list(commit.keys), self.current_rows(commit.base)
        known = commit.rows.select(*keys).limit(0) if rows is None else rows.select(*keys)
        steps = commit.rows.join(known.withColumn("is_known", sf.lit(True)), keys, "left")
        kind = sf.when(sf.col(DELETED), "delete").when(sf.col("is_known"), "update").otherwise("insert")
        steps = steps.withColumn("_change_type", kind).drop("is_known", DELETED).localCheckpoint()
        applied = super().apply(commit, progress)
        steps.write.parquet(f"{self.folder}/log/{applied.snapshot}")
        return applied

    def changelog(self, start: str | None, end: str | None) -> DataFrame:
        versions = sorted(path.name for path in (self.folder / "log").iterdir())
        wanted = [name for name in versions if (start or "") < name <= (end or versions[-1])]
        steps = [
            self.spark.read.parquet(f"{self.folder}/log/{name}").withColumn("_change_ordinal", sf.lit(int(name[1:])))
            for name in wanted
        ]
        return reduce(DataFrame.unionByName, steps)

    def identity(self) -> str:
        return self.folder.name

    def rows_at(
        self, snapshot: str | None, where: str | None = None, *, is_head: bool = False, allow_sql: bool = False
    ) -> DataFrame:
        return self.spark.read.parquet(f"{self.folder}/{snapshot or self._head()['version']}")

    def has_passed(self, position: str, snapshot: str) -> bool:
        return position > snapshot


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


def test_a_format_serves_its_own_changelog_step_by_step_and_to_an_incremental_run(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FORMATS, TINY.name, LOGGED)
    flow = Flow(session, "shop.orders", tmp_path / "inbox", {"table_format": TINY.name})
    batches = [
        [row(1, "a", 1), row(2, "b", 2)],
        [row(1, "c", 3), row(3, "d", 4)],
        [row(3, "", 5, op="d"), row(2, "", 6, op="d"), row(4, "e", 7)],
    ]
    versions: list[str] = []
    for number, batch in enumerate(batches):
        flow.arrive(f"{number}.jsonl", *batch)
        done = run(tmp_path, flow.spec(f"run {number}"))
        assert isinstance(done, JobReport), done
        versions += done.committed
    read = partial(read_changes, session, flow.table, versions[0], table_format=TINY.name)
    steps = read(None, mode="changelog").orderBy("_change_ordinal", "id").collect()
    assert [(step["id"], step["_change_type"]) for step in steps] == [
        (1, "update"),
        (3, "insert"),
        (2, "delete"),
        (3, "delete"),
        (4, "insert"),
    ]
    # Row 3 was born and deleted between the two.
    net = {each["id"]: each["_change_type"] for each in read(None, keys=["id"]).collect()}
    assert net == {1: "upsert", 2: "delete", 4: "upsert"}
    assert {each["id"] for each in read(None, keys=["id"], mode="upserts", columns=["n"]).collect()} == {1, 4}
    with pytest.raises(InvalidSpecError, match=r"read of the format's changelog; give the keys"):
        read(None)
    reports = [consume(tmp_path, flow.table, number, versions[number]) for number in (0, 2)]
    assert (reports[1].upserts_read, reports[1].deletes_read) == (2, 1)
    assert rows_of(tmp_path / "tables" / "mart.orders") == {1: ("c", 30), 4: ("e", 70)}


def test_net_changes_of_a_changelog_take_a_key_of_any_name(session: SparkSession) -> None:
    steps = session.createDataFrame(
        [(1, "insert", 1), (1, "update", 2), (2, "update", 1), (2, "delete", 2), (3, "insert", 1), (3, "delete", 2)],
        "`shop.id` INT, _change_type STRING, _change_ordinal INT",
    )
    net = net_of_changelog(steps, ChangeFilter(keys=("shop.id",))).collect()
    assert {each["shop.id"]: each["_change_type"] for each in net} == {1: "upsert", 2: "delete"}


def consume(folder: Path, source: str, number: int, version: str) -> IncrementalReport:
    """Bring a target to a version of its source."""
    spec = IncrementalSpec(
        catalog="c",
        table="mart.orders",
        table_format=TINY.name,
        run=RunIdentity.of("dag", f"run {number}", "task", "-1"),
        source=source,
        consumer="mart",
        keys=("id",),
        source_keys=("id",),
        to_snapshot=version,
        protect_source=False,
        query="SELECT id, name, n * 10 AS n, _change_type FROM changes",
    )
    done = run(folder, spec)
    assert isinstance(done, IncrementalReport), done
    return done
