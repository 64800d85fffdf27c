"""The outcome of a task is in its label, in an XCom of its own and behind a link, whatever the operator."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import jinja2
import pytest
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout, TaskDeferred

from airflow_lake_provider.contracts.errors import CatalogUnavailableError, MissingTableError
from airflow_lake_provider.contracts.reports.job import (
    CompactionReport,
    DeleteRowsReport,
    ExpiryReport,
    IncrementalReport,
    JobReport,
    MetadataChangeReport,
    Outcome,
    UpdateRowsReport,
    UpsertReport,
)
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.outcome import LABEL, ReportLink, in_short, place_of, show_outcome

if TYPE_CHECKING:
    from airflow.sdk import Context


def report(cls: type[JobReport], outcome: Outcome, **fields: Any) -> JobReport:
    return cls(table="shop.orders", outcome=outcome, reason="r", **fields)


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        (
            report(UpsertReport, Outcome.APPLIED, rows_inserted=1200, rows_updated=0, rows_deleted=3),
            "applied, 1,200 inserted, 3 deleted",
        ),
        (
            report(UpsertReport, Outcome.ALREADY_APPLIED, rows_inserted=None, rows_updated=2),
            "already-applied, 2 updated",
        ),
        (report(UpsertReport, Outcome.APPLIED, rows_updated=2, dead_letters=1), "applied, 2 updated, 1 put aside"),
        (report(UpsertReport, Outcome.APPLIED, rows_updated=2, dead_letters=0), "applied, 2 updated"),
        (report(UpsertReport, Outcome.NOTHING_NEW), "nothing-new"),
        (report(IncrementalReport, Outcome.APPLIED, rows_updated=7), "applied, 7 updated"),
        (
            report(CompactionReport, Outcome.DONE, files_rewritten=30, files_added=2),
            "done, 30 files rewritten, 2 files written",
        ),
        (report(CompactionReport, Outcome.CONFLICT, failed_groups=4), "conflict, 4 file groups left"),
        (report(CompactionReport, Outcome.NOTHING_DUE), "nothing-due"),
        (
            report(ExpiryReport, Outcome.DONE, snapshots_expired=("1", "2"), data_files_deleted=5),
            "done, 2 snapshots expired, 5 data files deleted",
        ),
        (report(ExpiryReport, Outcome.SKIPPED), "skipped"),
        (report(DeleteRowsReport, Outcome.APPLIED, rows_deleted=1), "applied, 1 deleted"),
        (report(UpdateRowsReport, Outcome.APPLIED, rows_updated=1), "applied, 1 updated"),
        (
            report(MetadataChangeReport, Outcome.DONE, snapshots_rolled_back=("1",)),
            "done, 1 snapshots rolled back",
        ),
    ],
)
def test_the_outcome_is_said_with_what_was_changed(done: JobReport, expected: str) -> None:
    assert in_short(done) == expected


class Task:
    """Keeps what a task puts into XCom."""

    def __init__(self, template: str | None = None, *, broken: bool = False) -> None:
        self.xcom: dict[str, Any] = {}
        self.broken = broken
        self.context: Any = {"ti": self, "map_index_template": template, "task": SimpleNamespace(table="shop.orders")}

    def xcom_push(self, *, key: str, value: Any) -> None:
        if self.broken:
            raise OSError("the database is away")
        self.xcom[key] = value

    def label(self) -> str:
        """Render as the task runner does once the task has ended."""
        environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # as Airflow
        return environment.from_string(self.context["map_index_template"]).render(self.context)


def test_a_task_without_a_label_of_its_own_gets_table_and_outcome() -> None:
    task = Task()
    show_outcome(task.context, "shop.orders", "applied, 3 inserted")
    assert task.label() == "shop.orders: applied, 3 inserted"
    assert task.xcom == {"outcome": "applied, 3 inserted"}


@pytest.mark.parametrize("length", [10, 240, 250, 400])
def test_a_label_fits_into_airflows_database_and_keeps_the_outcome(length: int) -> None:
    task = Task(LABEL)
    task.context["task"] = SimpleNamespace(place=lambda: "t" * length)
    assert task.label() == ("t" * length)[:250]
    show_outcome(task.context, "t" * length, "19 done, 1 failed")
    assert len(task.label()) <= 250
    assert task.label().endswith("t: 19 done, 1 failed" if length == 10 else ": 19 done, 1 failed")
    show_outcome(task.context, "t" * length, "e" * 1000)
    assert len(task.label()) <= 250


def test_a_task_that_fails_after_its_report_shows_the_error() -> None:
    task = Task()
    show_outcome(task.context, "shop.orders", "conflict, 4 file groups left")
    show_outcome(task.context, "shop.orders", "CommitConflictError")
    assert task.label() == "shop.orders: CommitConflictError"
    assert task.xcom == {"outcome": "CommitConflictError"}


@pytest.mark.parametrize(
    ("branch", "expected"),
    [(None, "shop.orders"), ("main", "shop.orders"), ("day_1", "shop.orders on branch day_1")],
)
def test_a_branch_is_named_where_it_is_written_in_place_of_main(branch: str | None, expected: str) -> None:
    assert place_of("shop.orders", branch) == expected


def test_an_authors_label_stays_and_can_say_the_outcome() -> None:
    task = Task("{{ task.table }} is {{ lake_outcome }}")
    show_outcome(task.context, "shop.orders", "nothing-due")
    assert task.label() == "shop.orders is nothing-due"


def test_a_label_is_no_longer_than_the_database_takes_and_no_template_of_a_table() -> None:
    task = Task()
    show_outcome(task.context, "shop.{{ 1/0 }}" + "x" * 300, "done")
    assert task.label().startswith("shop.{{ 1/0 }}xxx")
    assert len(task.label()) == 250


def test_what_cannot_be_shown_fails_no_task() -> None:
    task = Task(broken=True)
    show_outcome(task.context, "shop.orders", "done")
    assert task.label() == "shop.orders: done"


@pytest.mark.parametrize(
    ("key", "path"),
    [
        (
            ("nightly", "manual__2026-11-25T01:02:03+00:00", "compact", -1),
            "nightly/runs/manual__2026-11-25T01%3A02%3A03%2B00%3A00/tasks/compact/xcom",
        ),
        (("nightly", "r 1", "group.compact", 3), "nightly/runs/r%201/tasks/group.compact/mapped/3/xcom"),
    ],
)
@pytest.mark.parametrize("base", ["https://airflow.example.com/prod", "https://airflow.example.com/prod/"])
def test_a_link_leads_to_the_report(
    monkeypatch: pytest.MonkeyPatch, base: str, key: tuple[str, str, str, int], path: str
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    names = dict(zip(("dag_id", "run_id", "task_id", "map_index"), key, strict=True))
    operator = LakeCompactionOperator(task_id="compact", table="shop.orders")
    link = ReportLink().get_link(operator, ti_key=SimpleNamespace(**names))  # type: ignore[arg-type]  # what is read of it
    assert link == f"https://airflow.example.com/prod/dags/{path}"


@pytest.mark.parametrize("table", ["shop.nowhere", "shop.orders"])
def test_a_task_that_fails_says_by_which_error(
    lake_connection: str, context: Context, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    task = Task()
    values: dict[str, Any] = context  # type: ignore[assignment]  # one of tests
    values["ti"] = SimpleNamespace(**vars(context["ti"]), xcom_push=task.xcom_push)
    operator = LakeCompactionOperator(task_id="compact", table=table, lake_conn_id=lake_connection)
    error = MissingTableError if table == "shop.nowhere" else CatalogUnavailableError

    def refuse(*_: object) -> None:
        raise CatalogUnavailableError("the catalog did not answer")

    if error is CatalogUnavailableError:
        monkeypatch.setattr(operator.action, "report_without_spark", refuse)
    with pytest.raises(error):
        operator.execute(context)
    assert task.xcom == {"outcome": error.__name__}
    assert values["lake_label"] == f"{table}: {error.__name__}"


@pytest.mark.parametrize(
    "error", [AirflowTaskTimeout("too long"), AirflowException("no"), ValueError("a bug")], ids=repr
)
def test_a_task_that_fails_by_an_error_of_others_says_it_too(
    lake_connection: str, context: Context, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    task, values = Task(), cast("dict[str, Any]", context)
    values["ti"] = SimpleNamespace(**vars(context["ti"]), xcom_push=task.xcom_push)
    operator = LakeCompactionOperator(task_id="compact", table="shop.orders", lake_conn_id=lake_connection)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(operator.action, "report_without_spark", fail)
    with pytest.raises(type(error)):
        operator.execute(context)
    assert values["lake_label"] == f"shop.orders: {type(error).__name__}"


def test_a_task_that_begins_to_wait_in_the_triggerer_has_no_outcome_yet(
    lake_connection: str, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = cast("dict[str, Any]", context)
    operator = LakeCompactionOperator(task_id="compact", table="shop.orders", lake_conn_id=lake_connection)

    def defer(*_: object) -> None:
        raise TaskDeferred(trigger=TimeDeltaTrigger(timedelta(0)), method_name="execute_complete")

    monkeypatch.setattr(operator.action, "report_without_spark", defer)
    with pytest.raises(TaskDeferred):
        operator.execute(context)
    assert "lake_label" not in values
