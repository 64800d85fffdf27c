"""Outcomes of the tasks of one application: reports, events, retries, and the archive of classes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import AssetAlias
from airflow.sdk.observability import stats
from pyiceberg.table import Table

from airflow_lake_provider import Files
from airflow_lake_provider.assets.lake_table import lake_table_asset
from airflow_lake_provider.contracts.errors import (
    CommitConflictError,
    InvalidSpecError,
    JobFailedError,
    LakeProviderError,
    UnknownOutcomeError,
)
from airflow_lake_provider.contracts.reports.failure_causes import JVM_GONE
from airflow_lake_provider.contracts.reports.job import CompactionReport, JobReport, Outcome, UpsertReport
from airflow_lake_provider.contracts.reports.report_codec import FAILED_TASKS_EXIT_CODE, JobFailure, reports_to_json
from airflow_lake_provider.contracts.specs.spec_codec import Job, job_from_plain
from airflow_lake_provider.operators.driver_start import DriverStart
from airflow_lake_provider.operators.lake_application import LakeApplicationOperator
from airflow_lake_provider.submission.class_archive import ClassArchive
from airflow_lake_provider.submission.private_folder import private_folder
from tests.unit.operators.run_of_tests import StateStore
from tests.unit.operators.submitted import COMPACT, NOWHERE, UPSERT, application

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("spark_connection", "job_directory", "lake_connection")


@pytest.fixture(autouse=True)
def last_try(context: Context) -> None:
    """No retry is left, unless a test says so."""
    context["ti"].try_number, context["ti"].max_tries = 1, 0


def applied(snapshot: int | None = None, **fields: Any) -> UpsertReport:
    committed = () if snapshot is None else (str(snapshot),)
    return UpsertReport(table="shop.orders", outcome=Outcome.APPLIED, reason="", committed=committed, **fields)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[Job]]:
    """A driver that answers each task by its name, and notes the jobs that it was sent."""

    def answer(**answers: Any) -> list[Job]:
        jobs: list[Job] = []

        def execute(operator: LakeApplicationOperator, _: Context) -> None:
            assert operator._attempt is not None
            operator._before_submit()
            job = job_from_plain(json.loads(operator._attempt.files.spec.read_text()))
            jobs.append(job)
            found = {name: answers[name] for name in job.tasks if name in answers}
            operator._attempt.files.report.write_text(reports_to_json(found))
            if len(found) < len(job.tasks):
                raise RuntimeError("Error code is: -9")

        monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
        return jobs

    return answer


def test_what_stands_behind_an_open_task_of_its_table_is_planned_after_it(
    orders: Table, append: Callable[..., int], context: Context, driver: Callable[..., list[Job]]
) -> None:
    append(orders, 1)
    done = CompactionReport(table="shop.orders", outcome=Outcome.DONE, reason="")
    jobs = driver(**{"upsert shop.orders": applied(), "compaction shop.orders": done})
    # Alone, the metadata says that nothing is due.
    found = application(UPSERT, {**COMPACT, "level": "auto"}).execute(context)
    assert [report["outcome"] for report in found] == ["applied", "done"]
    assert [list(job.tasks) for job in jobs] == [["upsert shop.orders", "compaction shop.orders"]]


def test_a_branch_has_its_own_event(
    orders: Table, append: Callable[..., int], context: Context, driver: Callable[..., list[Job]]
) -> None:
    base = append(orders, 1)
    orders.manage_snapshots().create_branch(base, "b").commit()
    on_main, on_branch = lake_table_asset("shop.orders"), lake_table_asset("shop.orders", branch="b")
    driver(**{"upsert shop.orders on b": applied(append(orders, 2, branch="b"))})
    job = application({**UPSERT, "branch": "b"}, outlets=[on_main, on_branch])
    job.execute(context)
    assert job.outlets == [on_branch]
    assert context["outlet_events"][on_branch].extra["branch"] == "b"


@pytest.mark.parametrize("broken", [{"action": "compaction", "table": "orders"}, {"action": "compaction"}, {}])
def test_a_task_without_a_table_takes_no_event_from_the_others(
    orders: Table,
    append: Callable[..., int],
    context: Context,
    driver: Callable[..., list[Job]],
    broken: dict[str, Any],
) -> None:
    asset = lake_table_asset("shop.orders")
    driver(**{"upsert shop.orders": applied(append(orders, 1))})
    job = application(UPSERT, outlets=[asset])
    job.tasks = [*job.tasks, broken]
    assert [report["outcome"] for report in job.execute(context)] == ["applied", "failed"]
    assert job.outlets == [asset]


@pytest.mark.parametrize(
    "broken",
    [
        {"action": ["upsert"]},
        {**UPSERT, "source": {"type": ["x"]}},
        {**UPSERT, "merge_engine": {"type": {}}},
        {**UPSERT, "table": "shop.o\ud800"},
        {**UPSERT, "create": None},
        7,
    ],
    ids=str,
)
def test_a_broken_value_of_xcom_fails_its_own_task_alone(
    orders: Table, context: Context, driver: Callable[..., list[Job]], broken: Any
) -> None:
    driver(**{"upsert shop.orders": applied()})
    job = application(UPSERT)
    job.tasks = [broken, {**UPSERT, "source": Files("in/b.csv", name="b")}]
    first, second = job.table_tasks(context)
    assert isinstance(first.error, InvalidSpecError)
    assert second.error is None


def test_a_submission_that_fails_is_the_error_of_each_open_task(
    orders: Table, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(*_: object) -> None:
        raise RuntimeError("no spark-submit")

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    tag = {"action": "create-tag", "table": "shop.orders", "tag": "t"}
    found = application({**UPSERT, "table": "shop.others"}, tag).execute(context)
    assert "no spark-submit" in found[0]["reason"]
    assert found[1]["outcome"] == "failed"  # The table has no snapshot to put a tag on.


def test_an_application_that_was_given_no_tasks_says_so(context: Context) -> None:
    assert application().execute(context) == []
    assert cast("dict[str, Any]", context)["lake_label"] == "no tasks"


def test_a_bad_task_stops_no_other(orders: Table, context: Context, driver: Callable[..., list[Job]]) -> None:
    jobs = driver(**{"upsert shop.orders": applied(rows_inserted=3)})
    first, second = application(NOWHERE, UPSERT).execute(context)
    assert (first["outcome"], first["error"], first["table"]) == ("failed", "MissingTableError", "shop.nowhere")
    assert (second["outcome"], second["rows_inserted"]) == ("applied", 3)
    assert [list(job.tasks) for job in jobs] == [["upsert shop.orders"]]


def test_a_table_that_no_pattern_allows_fails_its_own_task_alone(
    orders: Table, context: Context, driver: Callable[..., list[Job]]
) -> None:
    driver(**{"upsert shop.orders": applied()})
    found = application({**UPSERT, "table": "mart.sales"}, UPSERT, allowed_tables=["shop.*"]).execute(context)
    assert [report["outcome"] for report in found] == ["failed", "applied"]


@pytest.mark.parametrize("is_last", [False, True])
def test_an_error_that_may_pass_is_retried_while_tries_are_left(
    orders: Table, context: Context, driver: Callable[..., list[Job]], is_last: bool
) -> None:
    context["ti"].try_number, context["ti"].max_tries = (3, 2) if is_last else (2, 2)
    conflict = JobFailure.of(CommitConflictError("other writers won"))
    bad = JobFailure.of(InvalidSpecError("no such column"))
    driver(**{"upsert shop.orders": conflict, "upsert shop.others": bad})
    job = application(UPSERT, {**UPSERT, "table": "shop.others"}, retries=2)
    if is_last:
        assert [report["outcome"] for report in job.execute(context)] == ["failed", "failed"]
    else:
        with pytest.raises(CommitConflictError, match="other writers won"):
            job.execute(context)


def test_what_no_retry_mends_waits_for_none(orders: Table, context: Context, driver: Callable[..., list[Job]]) -> None:
    context["ti"].try_number, context["ti"].max_tries = 1, 2
    driver(**{"upsert shop.orders": JobFailure.of(InvalidSpecError("no such column"))})
    (found,) = application(UPSERT, retries=2).execute(context)
    assert found["error"] == "InvalidSpecError"


def test_a_driver_that_died_leaves_the_reports_of_what_it_had_done(
    orders: Table, context: Context, driver: Callable[..., list[Job]]
) -> None:
    driver(**{"upsert shop.orders": applied(rows_inserted=1)})
    done, lost = application(UPSERT, {**UPSERT, "table": "shop.others"}).execute(context)
    assert done["rows_inserted"] == 1
    assert lost["error"] == JobFailedError.__name__
    assert "signal 9" in lost["reason"]


def test_tables_with_new_rows_have_an_event_and_no_other(
    orders: Table, append: Callable[..., int], context: Context, driver: Callable[..., list[Job]]
) -> None:
    asset, failed, absent = (lake_table_asset(f"shop.{name}") for name in ("orders", "nowhere", "absent"))
    again = {**UPSERT, "source": Files("in/b.csv", name="b")}
    nothing: JobReport = UpsertReport(table="shop.orders", outcome=Outcome.NOTHING_NEW, reason="")
    driver(**{"upsert shop.orders": applied(append(orders, 1)), "upsert shop.orders b": nothing})
    job = application(UPSERT, again, NOWHERE, outlets=[asset, failed, absent])
    job.execute(context)
    assert job.outlets == [asset]
    assert context["outlet_events"][asset].extra["table"] == "shop.orders"


def test_a_publication_of_a_try_that_another_task_failed_is_told_once_by_the_retry(
    orders: Table,
    append: Callable[..., int],
    context: Context,
    driver: Callable[..., list[Job]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[tuple[str, int]] = []
    monkeypatch.setattr(stats, "incr", lambda name, count, **_: counted.append((name, count)))
    orders.manage_snapshots().create_branch(append(orders, 1), "load").commit()
    asset, on_branch = lake_table_asset("shop.orders"), append(orders.refresh(), 2, branch="load")
    publish = {"action": "publish-branch", "table": "shop.orders", "branch": "load", "drop_branch": True}
    other = {**UPSERT, "table": "shop.others"}
    StateStore.of(context)
    context["ti"].try_number, context["ti"].max_tries = 1, 1
    driver(**{"upsert shop.others": JobFailure.of(CommitConflictError("other writers won"))})
    with pytest.raises(CommitConflictError):
        application(publish, other, retries=1).execute(context)

    context["ti"].try_number = 2
    driver(**{"upsert shop.others": replace(applied(), table="shop.others")})
    retry = application(publish, other, retries=1, outlets=[asset])
    assert [each["outcome"] for each in retry.execute(context)] == ["already-applied", "applied"]
    assert retry.outlets == [asset]
    assert context["outlet_events"][asset].extra["snapshot_id"] == str(on_branch)
    assert [each for each in counted if each[0] == "lake.commits"] == [("lake.commits", 1)]


@pytest.mark.parametrize(
    ("failure", "is_told"),
    [
        (UnknownOutcomeError("the answer was lost, and the catalog does not answer"), True),
        (InvalidSpecError("no such column"), False),
    ],
)
def test_a_commit_whose_outcome_was_not_known_is_told_once_the_task_is_cleared(
    orders: Table,
    append: Callable[..., int],
    context: Context,
    driver: Callable[..., list[Job]],
    failure: LakeProviderError,
    is_told: bool,
) -> None:
    asset = lake_table_asset("shop.orders")
    StateStore.of(context)
    driver(**{"upsert shop.orders": JobFailure.of(failure)})
    application(UPSERT, outlets=[asset]).execute(context)

    context["ti"].try_number, context["ti"].max_tries = 2, 1
    driver(**{"upsert shop.orders": replace(applied(append(orders, 1)), outcome=Outcome.ALREADY_APPLIED)})
    cleared = application(UPSERT, outlets=[asset])
    cleared.execute(context)
    assert cleared.outlets == [asset] * is_told


def test_an_alias_gets_the_assets_of_tables_that_come_from_xcom(
    orders: Table, append: Callable[..., int], context: Context, driver: Callable[..., list[Job]]
) -> None:
    alias = AssetAlias("loaded")
    driver(**{"upsert shop.orders": applied(append(orders, 1))})
    application(UPSERT, NOWHERE, outlets=[alias]).execute(context)
    (event,) = context["outlet_events"][alias].asset_alias_events
    assert event.dest_asset_key.uri == "iceberg://lake_default/shop/orders"
    assert event.extra["table"] == "shop.orders"


def test_an_alias_gets_the_asset_of_a_connection_whose_id_fits_into_no_uri(
    orders: Table,
    append: Callable[..., int],
    context: Context,
    driver: Callable[..., list[Job]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = json.loads(os.environ["AIRFLOW_CONN_LAKE_DEFAULT"])
    connection["extra"] |= {"asset_authority": "lake-eu", "catalog_name": "lake_default"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE:EU", json.dumps(connection))
    alias = AssetAlias("loaded")
    driver(**{"upsert shop.orders": applied(append(orders, 1))})
    application(UPSERT, outlets=[alias], lake_conn_id="lake:eu").execute(context)
    (event,) = context["outlet_events"][alias].asset_alias_events
    assert event.dest_asset_key.uri == "iceberg://lake-eu/shop/orders"


def test_a_report_that_the_metadata_gives_starts_no_driver(
    orders: Table, append: Callable[..., int], context: Context, driver: Callable[..., list[Job]]
) -> None:
    append(orders, 1)
    jobs = driver()
    (found,) = application({**COMPACT, "level": "auto"}).execute(context)
    assert found["outcome"] == CompactionReport(table="t", outcome=Outcome.NOTHING_DUE, reason="").outcome.value
    assert jobs == []


CODE = FAILED_TASKS_EXIT_CODE
GOOD, BAD = applied(), JobFailure.of(InvalidSpecError("no such column"))
GONE = JobFailure.of(JobFailedError(f"shop.orders: {JVM_GONE.name}"))
ENDS: dict[str, tuple[dict[str, JobReport | JobFailure], int, bytes | None]] = {
    "every task ended well": ({"t 1": GOOD, "t 2": GOOD}, 0, b"classes"),
    "a task failed": ({"t 1": GOOD, "t 2": BAD}, CODE, b"classes"),
    "a task failed, and then the JVM over the archive": ({"t 1": GOOD, "t 2": BAD}, 1, b""),
    "the JVM failed over the archive": ({"t 1": GOOD, "t 2": GOOD}, 1, b""),
    "no task ended well, so few classes were loaded": ({"t 1": BAD, "t 2": BAD}, CODE, None),
    "the driver was killed between two tasks": ({"t 1": GOOD}, -9, None),
    "the heap of the JVM was full amid a task": ({"t 1": GOOD, "t 2": GONE}, 52, None),
    "the JVM was killed amid a task": ({"t 1": GOOD, "t 2": GONE}, 137, None),
}


@pytest.mark.parametrize(("answers", "code", "kept"), ENDS.values(), ids=ENDS)
def test_the_archive_of_classes_is_kept_where_the_driver_ended_in_order(
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    answers: dict[str, JobReport | JobFailure],
    code: int,
    kept: bytes | None,
) -> None:
    archive = ClassArchive(folder=private_folder(tmp_path / "archives"), digest="0" * 16)
    start = DriverStart(archive=archive, attempt="a", options=archive.options("a"))

    def execute(operator: LakeApplicationOperator, _: Context) -> None:
        assert operator._attempt is not None
        operator._before_submit()
        operator._driver = start
        keys = list(job_from_plain(json.loads(operator._attempt.files.spec.read_text())).tasks)
        operator._attempt.files.report.write_text(reports_to_json(dict(zip(keys, answers.values(), strict=False))))
        Path(start.options.split()[0].partition("=")[2]).write_bytes(b"classes")
        if code:
            raise RuntimeError(f"Cannot execute: spark-submit. Error code is: {code}.")

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    application(UPSERT, {**UPSERT, "table": "shop.customers"}).execute(context)
    left = [path.read_bytes() for path in archive.folder.glob("*.jsa")]
    assert left == ([] if kept is None else [kept])


@pytest.mark.parametrize(
    ("answers", "error", "is_kept"),
    [
        ([], "Giving up tracking YARN application", True),
        ([CommitConflictError("other writers won")], "Giving up tracking YARN application", False),
        ([CommitConflictError("other writers won")], "", False),
        ([], "", False),
    ],
)
def test_a_retry_reconnects_to_an_application_that_may_run_and_to_no_other(
    orders: Table,
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[LakeProviderError],
    error: str,
    is_kept: bool,
) -> None:
    store = StateStore.of(context)
    context["ti"].try_number, context["ti"].max_tries = 1, 2

    def execute(operator: LakeApplicationOperator, _: Context) -> None:
        assert operator._attempt is not None
        operator._before_submit()
        store.set(operator.external_id_key, "application_1764000000000_0001")
        reports = dict(zip(["upsert shop.orders"], map(JobFailure.of, answers), strict=False))
        operator._attempt.files.report.write_text(reports_to_json(reports))
        if error:
            raise RuntimeError(error)

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    with pytest.raises((JobFailedError, CommitConflictError)):
        application(UPSERT, retries=2).execute(context)
    assert ("spark_job_id up to try 2" in store) is is_kept
