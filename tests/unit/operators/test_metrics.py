"""Reports become metrics in Airflow's OpenTelemetry backend; the page of metrics lists each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk._shared.observability.metrics.otel_logger import SafeOtelLogger
from airflow.sdk.observability import stats
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pyiceberg.table import Table

from airflow_lake_provider.contracts.errors import CatalogUnavailableError, CommitConflictError, InvalidSpecError
from airflow_lake_provider.contracts.reports.job import (
    CompactionReport,
    ExpiryReport,
    IncrementalReport,
    JobReport,
    Outcome,
    UpdateRowsReport,
    UpsertReport,
)
from airflow_lake_provider.contracts.table_facts import TableState
from airflow_lake_provider.operators import spark_application
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.metrics import COUNTERS, GAUGES, JobMetrics
from airflow_lake_provider.operators.update_rows import LakeUpdateRowsOperator
from tests.unit.operators.run_of_tests import NO_SPARK

if TYPE_CHECKING:
    from airflow.sdk import Context

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
TAGS = {"table": "shop.orders", "lake_conn_id": "lake_default", "operator": "LakeUpsertOperator"}
Told = Callable[[], dict[str, dict[tuple[str, ...], float]]]


@pytest.fixture
def told() -> Iterator[Told]:
    """Metrics by name, each with its values by tags, as the backend would export them."""
    reader = InMemoryMetricReader()
    backend: Any = SafeOtelLogger(MeterProvider(metric_readers=[reader]))
    stats.initialize(factory=lambda: backend, export_legacy_names=False)

    def collect() -> dict[str, dict[tuple[str, ...], float]]:
        found: dict[str, dict[tuple[str, ...], float]] = {}
        data: Any = reader.get_metrics_data()
        for metric in data.resource_metrics[0].scope_metrics[0].metrics if data else ():
            for point in metric.data.data_points:
                value = point.sum if hasattr(point, "sum") else point.value
                found.setdefault(metric.name, {})[tuple(sorted(map(str, point.attributes.values())))] = value
        return found

    yield collect
    stats.initialize(factory=NoStatsLogger, export_legacy_names=False)


def total(values: dict[tuple[str, ...], float]) -> float:
    return sum(values.values())


def report(cls: type[JobReport], outcome: Outcome = Outcome.APPLIED, **fields: Any) -> JobReport:
    return cls(**{"table": "shop.orders", "reason": "", "outcome": outcome, **fields})


def test_an_upsert_counts_rows_files_and_conflicts_and_measures_its_table(told: Told) -> None:
    state = TableState(snapshot="7", rows=100, data_files=3, data_bytes=9_000_000_000, snapshots=12)
    counts: dict[str, Any] = {
        "batch_files": 2,
        "batch_rows": 60,
        "rows_inserted": 10,
        "rows_updated": 40,
        "rows_deleted": None,
    }
    done = report(UpsertReport, **counts, attempts=3, committed=("7",), after=state, seconds={"commit": 0.25})
    JobMetrics(tags=TAGS).tell_report(done, 2.5)
    JobMetrics(tags=TAGS).tell_report(done, 0.5)
    found = told()
    assert {name: total(values) for name, values in found.items() if not name.startswith("airflow.lake.table")} == {
        "airflow.lake.jobs": 2,
        "airflow.lake.job.duration": 3000,
        "airflow.lake.job.phase_duration": 500,
        "airflow.lake.rows.read": 120,
        "airflow.lake.rows.inserted": 20,
        "airflow.lake.rows.updated": 80,
        "airflow.lake.files.read": 4,
        "airflow.lake.commits": 2,
        "airflow.lake.conflicts": 4,
    }
    gauges = {name: found[f"airflow.lake.table.{name}"] for name in GAUGES}
    assert gauges["rows"] == {("lake_default", "shop.orders"): 100}
    assert gauges["data_bytes"] == {("lake_default", "shop.orders"): 9_000_000_000}
    assert gauges["delete_files"] == {("lake_default", "shop.orders"): 0}
    assert list(found["airflow.lake.jobs"]) == [("LakeUpsertOperator", "applied", "lake_default", "shop.orders")]
    assert next(iter(found["airflow.lake.job.phase_duration"]))[-3:] == ("commit", "lake_default", "shop.orders")


def test_what_an_earlier_try_has_told_is_not_counted_again(told: Told) -> None:
    done = report(UpsertReport, Outcome.ALREADY_APPLIED, committed=("1",), rows_inserted=3, attempts=2)
    JobMetrics(tags=TAGS).tell_report(done, 1.0, is_repeated=True)
    found = {name.removeprefix("airflow.lake."): total(values) for name, values in told().items()}
    assert found.keys() == {"jobs", "job.duration", "conflicts"}
    JobMetrics(tags=TAGS).tell_report(done, 1.0)
    assert total(told()["airflow.lake.rows.inserted"]) == 3


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        (report(UpsertReport, Outcome.ALREADY_APPLIED, attempts=2), {"conflicts": 2}),
        (report(UpdateRowsReport, Outcome.NOTHING_NEW, attempts=2), {"conflicts": 1}),
        (report(CompactionReport, Outcome.CONFLICT, attempts=3, failed_groups=4), {"conflicts": 3, "groups.failed": 4}),
        (report(CompactionReport, Outcome.PLANNED, files_rewritten=9, bytes_rewritten=9), {}),
        (
            report(IncrementalReport, upserts_read=5, deletes_read=2, rows_deleted=2, attempts=1, committed=("1",)),
            {"rows.read": 7, "rows.deleted": 2, "commits": 1},
        ),
        (
            report(
                ExpiryReport, Outcome.DONE, data_files_deleted=1, statistics_deleted=2, snapshots_expired=("1", "2")
            ),
            {"files.deleted": 3, "snapshots.expired": 2},
        ),
    ],
)
def test_each_report_counts_what_it_did(told: Told, done: JobReport, expected: dict[str, int]) -> None:
    JobMetrics(tags=TAGS).tell_report(done, 1.0)
    found = {name.removeprefix("airflow.lake."): total(values) for name, values in told().items()}
    assert {name: found[name] for name in found.keys() - {"jobs", "job.duration"}} == expected


def test_the_state_of_a_branch_is_not_told_as_the_tables(told: Told) -> None:
    done = report(UpsertReport, after=TableState(rows=5))
    JobMetrics(tags=TAGS, on_main=False).tell_report(done, 1.0)
    assert not [name for name in told() if ".table." in name]


def test_an_operator_tells_its_report_and_its_failures(
    told: Told, orders: Table, append: Callable[..., int], context: Context
) -> None:
    append(orders, 1)
    LakeCompactionOperator(task_id="c", table="shop.orders", **NO_SPARK).execute(context)
    wrong: dict[str, Any] = {"assignments": {"code": "1"}, "where": "id = 1", **NO_SPARK}
    with pytest.raises(InvalidSpecError):
        LakeUpdateRowsOperator(task_id="u", table="shop.orders", **wrong).execute(context)
    found = told()
    jobs, failures = found["airflow.lake.jobs"], found["airflow.lake.job_failures"]
    assert jobs == {("LakeCompactionOperator", "lake_default", "nothing-due", "shop.orders"): 1}
    assert failures == {("InvalidSpecError", "LakeUpdateRowsOperator", "lake_default", "shop.orders"): 1}
    assert found["airflow.lake.table.rows"] == {("lake_default", "shop.orders"): 1}


def test_a_job_that_lost_every_attempt_counts_them(told: Told, lake_connection: str, context: Context) -> None:
    job = LakeUpdateRowsOperator(
        task_id="u", table="shop.orders", assignments={"id": "1"}, where="id = 1", max_attempts=4
    )
    JobMetrics(tags=TAGS).tell_failure(CommitConflictError("lost"), job.build_spec(context))
    assert total(told()["airflow.lake.conflicts"]) == 4


def test_a_conflict_that_a_report_has_told_of_is_not_counted_again_when_it_fails_the_task(
    told: Told, lake_connection: str, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = report(CompactionReport, Outcome.CONFLICT, attempts=3)
    job = LakeCompactionOperator(task_id="c", table="shop.orders", fail_on_conflict=True)
    monkeypatch.setattr(job.action, "report_without_spark", lambda *_: lost)
    with pytest.raises(CommitConflictError):
        job.execute(context)
    assert total(told()["airflow.lake.conflicts"]) == 3


def test_a_backend_that_fails_fails_no_task() -> None:
    asked = []

    def broken() -> NoStatsLogger:
        asked.append("a backend")
        raise OSError("no route to host")

    stats.initialize(factory=broken, export_legacy_names=False)
    JobMetrics(tags=TAGS).tell_report(report(UpsertReport), 1.0)
    JobMetrics(tags=TAGS).tell_failure(InvalidSpecError("x"), None)
    stats.initialize(factory=NoStatsLogger, export_legacy_names=False)
    assert len(asked) == 2


def test_the_page_lists_every_metric_and_no_other() -> None:
    listed = set(re.findall(r"^\| `(lake\.[a-z_.]+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    others = {"jobs", "job_failures", "job.duration", "job.phase_duration", "commits", "conflicts", "snapshots.expired"}
    assert listed == {*COUNTERS, *(f"lake.table.{name}" for name in GAUGES), *(f"lake.{name}" for name in others)}


@pytest.mark.usefixtures("lake_connection")
def test_rows_of_a_try_that_could_not_make_its_event_are_told_by_the_retry_alone(
    context: Context, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: dict[str, Any] = {"assignments": {"n": "n + 1"}, "where": "id = 3"}
    job = LakeUpdateRowsOperator(task_id="t", table="shop.orders", retries=3, **arguments, **NO_SPARK)
    done = report(UpdateRowsReport, Outcome.APPLIED, committed=("1",), rows_updated=5)
    monkeypatch.setattr(job.action, "report_without_spark", lambda *_: done)
    with monkeypatch.context() as without:
        without.setattr(spark_application, "announce", raising(CatalogUnavailableError("the catalog did not answer")))
        with pytest.raises(CatalogUnavailableError):
            job.execute(context)
    found = replace(done, outcome=Outcome.ALREADY_APPLIED)
    monkeypatch.setattr(job.action, "report_without_spark", lambda *_: found)
    job.execute(context)
    assert total(told()["airflow.lake.rows.updated"]) == 5
    assert total(told()["airflow.lake.commits"]) == 1


def raising(error: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail
