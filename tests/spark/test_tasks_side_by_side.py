"""Tasks of one application beside each other: their views, settings and reports are their own."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.reports.job import CompactionReport, JobReport, Outcome, UpsertReport
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.specs.spec_codec import Job
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs import run_tasks as tasks_of_driver
from airflow_lake_provider.spark_jobs.progress import Progress, say
from airflow_lake_provider.spark_jobs.run_tasks import Reports, run_tasks
from airflow_lake_provider.spark_jobs.session.open_session import AlikeSessions
from airflow_lake_provider.spark_jobs.session.pinned_settings import PINNED
from tests.spark.upsert_flow import SCHEMA, Flow, NewFlow, row

# The whole number of LAKE_ROUNDS=200 takes minutes.
ROUNDS = int(os.environ.get("LAKE_ROUNDS", "4"))
# A view that only one of two tasks makes; the other goes on without it.
LONGEST_WAIT = 2.0
HOSTILE = next(each for each in PINNED if each.name == "spark.sql.ansi.enabled")


@pytest.fixture
def barriers(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let two threads wait for each other after each view that both make; note the views where they met."""
    # The class of a classic session's frames.
    frame: Any = type(spark.range(1))
    make_view = frame.createOrReplaceTempView
    met: list[str] = []
    lock = threading.Lock()
    barriers: dict[str, threading.Barrier] = {}

    def make_and_wait(frame: DataFrame, name: str) -> None:
        make_view(frame, name)
        with lock:
            barrier = barriers.setdefault(name, threading.Barrier(2))
        try:
            barrier.wait(LONGEST_WAIT)
            met.append(name)
        except threading.BrokenBarrierError:
            with lock:
                barriers.pop(name, None)

    monkeypatch.setattr(frame, "createOrReplaceTempView", make_and_wait)
    return met


def side(new_flow: NewFlow, name: str) -> Flow:
    flow = new_flow()
    files = Files(f"{flow.inbox}/{name}/*.jsonl", format="json", schema=SCHEMA)
    return replace(
        flow,
        table=f"{flow.table}_{name}",
        inbox=flow.inbox / name,
        changes={
            "source": Query("SELECT * FROM source WHERE n >= 0", over=files, name=name),
            "strategy": UpsertStrategy.MERGE,
            "audits": Audits(queries={"named": f"SELECT * FROM batch WHERE name NOT LIKE '{name} %'"}),
        },
    )


def run_rounds(spark: SparkSession, new_flow: NewFlow, rounds: int) -> tuple[list[Flow], list[JobReport | JobFailure]]:
    """Upsert into two tables with equal columns, side by side, round after round."""
    flows = [side(new_flow, name) for name in ("a", "b")]
    reports: list[JobReport | JobFailure] = []
    for number in range(rounds):
        for flow, name in zip(flows, ("a", "b"), strict=True):
            flow.arrive(f"{number}.jsonl", row(1, f"{name} {number}", number), row(number + 2, f"{name} new", 0))
        job = Job({flow.table: flow.spec(f"run {number}") for flow in flows}, parallelism=2)
        reports += run_tasks(spark, job, Progress(), lambda _: None).values()
    return flows, reports


def test_tables_with_equal_columns_get_no_rows_of_each_other(
    spark: SparkSession, new_flow: NewFlow, barriers: list[str]
) -> None:
    flows, reports = run_rounds(spark, new_flow, ROUNDS)
    assert {report.outcome for report in reports if isinstance(report, JobReport)} == {Outcome.APPLIED}
    assert not [report for report in reports if isinstance(report, JobFailure)]
    for flow, name in zip(flows, ("a", "b"), strict=True):
        expected = {1: (f"{name} {ROUNDS - 1}", ROUNDS - 1)}
        assert flow.rows() == {**expected, **{number + 2: (f"{name} new", 0) for number in range(ROUNDS)}}
    # They did meet: between a view and the statement that reads it.
    assert {"source", "batch", "lake_batch"} <= set(barriers)
    assert len(barriers) >= 2 * ROUNDS


def test_in_one_session_their_views_would_mix(
    spark: SparkSession, new_flow: NewFlow, barriers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks_of_driver, "_session_of", lambda session, *_: session)
    flows, reports = run_rounds(spark, new_flow, 1)
    # An audit of one meets the rows of the other, a view is dropped by the other, or nothing stops them.
    refused = [report.message for report in reports if isinstance(report, JobFailure)]
    assert refused or any(
        not value[0].startswith(name)
        for flow, name in zip(flows, ("a", "b"), strict=True)
        for value in flow.rows().values()
    ), refused


def test_a_task_has_a_session_a_scheduler_pool_and_pinned_settings_of_its_own(
    spark: SparkSession, new_flow: NewFlow, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: dict[str, tuple[SparkSession, Any, str | None]] = {}

    def look(session: SparkSession, spec: Any, progress: Progress) -> JobReport:
        pool = session.sparkContext.getLocalProperty("spark.scheduler.pool")
        active = spark._jvm.org.apache.spark.sql.SparkSession.active()  # type: ignore[union-attr]
        seen[str(pool)] = (session, active, session.conf.get(HOSTILE.name))
        progress.say("looked")
        say("looked, too")
        return UpsertReport(table=spec.table, outcome=Outcome.APPLIED, reason="")

    monkeypatch.setattr(tasks_of_driver, "dispatch_action", look)
    open_new = spark.newSession

    def with_hostile_setting() -> SparkSession:
        session = open_new()
        session.conf.set(HOSTILE.name, HOSTILE.hostile)
        return session

    monkeypatch.setattr(spark, "newSession", with_hostile_setting)
    specs = {name: new_flow().spec(name) for name in ("a", "b")}
    run_tasks(spark, Job(specs, parallelism=2), Progress(), lambda _: None)

    assert seen.keys() == {"a", "b"}
    sessions = [session for session, *_ in seen.values()]
    assert len({id(session._jsparkSession) for session in (spark, *sessions)}) == 3
    for session, active, pinned in seen.values():
        assert active.equals(session._jsparkSession)
        assert pinned == HOSTILE.value
    lines = [line for line in capsys.readouterr().out.splitlines() if "looked" in line]
    assert sorted(lines) == [f"[lake] {name}: looked{more}" for name in specs for more in ("", ", too")]


def test_tasks_of_one_table_run_in_their_order_and_a_bad_one_stops_no_other(
    spark: SparkSession, new_flow: NewFlow
) -> None:
    flow = new_flow()
    flow.arrive("1.jsonl", row(1, "first", 1))
    later = replace(flow, inbox=flow.inbox.parent / "later")
    later.arrive("1.jsonl", row(1, "second", 2))
    bad = replace(flow, inbox=flow.inbox.parent / "bad")
    bad.inbox.mkdir(parents=True)
    (bad.inbox / "1.jsonl").write_text('{"id": "no number"}\n')
    compaction = CompactionSpec(
        catalog="lake_default", table=flow.table, run=flow.spec().run, level=CompactionLevel.FULL
    )
    specs = {
        "first": flow.spec("1", source=Files(f"{flow.inbox}/*.jsonl", schema=SCHEMA, format="json", name="first")),
        "bad": bad.spec("2", source=Files(f"{bad.inbox}/*.jsonl", schema=SCHEMA, format="json", name="bad")),
        "later": later.spec("3", source=Files(f"{later.inbox}/*.jsonl", schema=SCHEMA, format="json", name="later")),
        "compact": compaction,
    }
    told: list[Reports] = []
    found = run_tasks(spark, Job(specs, parallelism=3), Progress(), told.append)
    assert list(found) == list(specs)
    assert [sorted(reports) for reports in told] == [sorted(list(specs)[: number + 1]) for number in range(len(specs))]
    assert isinstance(found["bad"], JobFailure)
    assert found["bad"].error == "BadInputError"
    assert isinstance(found["later"], UpsertReport)
    assert isinstance(found["compact"], CompactionReport)
    assert flow.rows() == {1: ("second", 2)}


def shared(spark: SparkSession) -> tuple[Any, ...]:
    """What a task could leave in the application's first session."""
    views = {name for name in ("source", "batch", "audited", "lake_batch") if spark.catalog.tableExists(name)}
    return dict(spark.sparkContext.getConf().getAll()), spark.conf.get("spark.sql.adaptive.enabled"), views


def test_a_task_leaves_the_settings_and_views_of_the_others_alone(spark: SparkSession, new_flow: NewFlow) -> None:
    before = shared(spark)
    flow = new_flow(strategy=UpsertStrategy.MERGE)
    flow.arrive("1.jsonl", row(1, "a", 1))
    other = replace(flow, table=f"{flow.table}_b")
    found = run_tasks(spark, Job({"a": flow.spec(), "b": other.spec()}, parallelism=2), Progress(), lambda _: None)
    assert not [report for report in found.values() if isinstance(report, JobFailure)]
    assert shared(spark) == before


def test_reports_so_far_are_there_when_a_driver_dies(spark: SparkSession, new_flow: NewFlow, tmp_path: Path) -> None:
    flow = new_flow()
    flow.arrive("1.jsonl", row(1, "a", 1))
    second = replace(flow, table=f"{flow.table}_b")
    left: list[Reports] = []

    def tell(reports: Reports) -> None:
        left.append(reports)

    run_tasks(spark, Job({"a": flow.spec(), "b": second.spec()}), Progress(), tell)
    assert [list(reports) for reports in left] == [["a"], ["a", "b"]]


def test_a_report_that_cannot_be_left_holds_up_no_task(spark: SparkSession, new_flow: NewFlow) -> None:
    flow = new_flow()
    flow.arrive("1.jsonl", row(1, "a", 1))

    def tell(_: Reports) -> None:
        raise OSError("no space left on device")

    specs = {"a": flow.spec(), "again": flow.spec("run 2")}
    found = run_tasks(spark, Job(specs), Progress(), tell)
    assert [report.outcome for report in found.values() if isinstance(report, JobReport)] == [
        Outcome.APPLIED,
        Outcome.NOTHING_NEW,
    ]


def test_a_thread_that_cannot_begin_is_the_failure_of_its_task(
    spark: SparkSession, new_flow: NewFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refused:
        def __init__(self, **_: object) -> None:
            raise ConnectionError("the JVM is gone")

    monkeypatch.setattr(tasks_of_driver, "InheritableThread", Refused)
    flow = new_flow()
    found = run_tasks(spark, Job({"a": flow.spec(), "b": flow.spec()}), Progress(), lambda _: None)
    assert all(isinstance(report, JobFailure) for report in found.values())


def connections_to_catalog(spark: SparkSession) -> int:
    """Count the connections that the driver's JVM has to the catalog's database."""
    jvm: Any = spark._jvm
    driver = psutil.Process(int(jvm.java.lang.ProcessHandle.current().pid()))
    return sum(file.path.endswith("catalog.db") for file in driver.open_files())


def test_the_connections_of_a_task_end_with_it(
    spark: SparkSession, new_flow: NewFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_of = tasks_of_driver._session_of

    def as_connected(first: SparkSession, pool: str, alike: AlikeSessions) -> SparkSession:
        session = session_of(first, pool, alike)
        # As a connection sets it: what Iceberg caches cannot be closed.
        session.conf.set("spark.sql.catalog.lake_default.cache-enabled", "false")
        return session

    monkeypatch.setattr(tasks_of_driver, "_session_of", as_connected)
    flow = new_flow()
    flow.arrive("1.jsonl", row(1, "a", 1))
    specs = {name: replace(flow, table=f"{flow.table}_{name}").spec() for name in ("a", "b", "c", "d")}
    before = connections_to_catalog(spark)
    found = run_tasks(spark, Job(specs), Progress(), lambda _: None)
    assert not [report for report in found.values() if isinstance(report, JobFailure)]
    assert connections_to_catalog(spark) <= before
