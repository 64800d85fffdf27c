"""Rewrites of manifests, expiries of rows and statistics, answered or refused by the worker from metadata."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import JobReport, RowExpiryReport
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.rewrite_manifests import LakeRewriteManifestsOperator
from airflow_lake_provider.operators.row_expiry import LakeRowExpiryOperator
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator
from airflow_lake_provider.operators.statistics import LakeStatisticsOperator
from tests.unit.operators.run_of_tests import NO_SPARK

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("lake_connection", "job_directory")

NOW = datetime.now(UTC)
SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("name", pa.string())])


@pytest.fixture
def events(lake_catalog: SqlCatalog) -> Table:
    """A file of old rows, one of old and young ones, and one of young ones."""
    table = lake_catalog.create_table("shop.events", schema=SCHEMA)
    for ages in ((90, 80), (40, 1), (2, 1)):
        add(table, *ages)
    return table


def add(table: Table, *ages: int) -> None:
    rows = [{"id": age, "at": NOW - timedelta(days=age), "name": "a"} for age in ages]
    table.append(pa.Table.from_pylist(rows, schema=SCHEMA))


def expiry(**given: Any) -> LakeRowExpiryOperator:
    arguments = {"task_id": "t", "table": "shop.events", "column": "at", "keep": "P30D", **NO_SPARK, **given}
    return LakeRowExpiryOperator(**arguments)


def answer(job: LakeJobOperator[Any], context: Context) -> JobReport:
    """Return the report of the worker alone."""
    (task,) = job.table_tasks(context)
    task.answer_without_spark()
    if task.error is not None:
        raise task.error
    assert task.report is not None, "Spark would start"
    return task.report


def test_a_dry_run_counts_files_and_rows_by_their_bounds(events: Table, context: Context) -> None:
    report = answer(expiry(dry_run=True), context)
    assert isinstance(report, RowExpiryReport)
    assert (report.outcome.value, report.files_removed, report.files_changed) == ("planned", 1, 1)
    assert (report.rows_deleted, "2 to 4 of 6 rows would go, 33% to 67%" in report.reason) == (4, True)
    assert "more than max_share=0.5 would be refused" in report.reason
    assert report.expired_before is not None
    limit = datetime.fromisoformat(report.expired_before)
    assert abs(limit - (datetime.now(UTC) - timedelta(days=30))) < timedelta(minutes=5)


def test_a_dry_run_of_exactly_the_share_would_not_be_refused(events: Table, context: Context) -> None:
    events.append(pa.Table.from_pylist([{"id": 1, "at": NOW, "name": "a"}] * 94, schema=SCHEMA))
    events.append(pa.Table.from_pylist([{"id": 1, "at": NOW - timedelta(days=99), "name": "a"}] * 25, schema=SCHEMA))
    events.append(pa.Table.from_pylist([{"id": 1, "at": NOW, "name": "a"}] * 75, schema=SCHEMA))
    report = answer(expiry(dry_run=True, max_share=0.145), context)
    assert "27 to 29 of 200 rows would go" in report.reason
    assert "refused" not in report.reason
    assert "refused" in answer(expiry(dry_run=True, max_share=0.144), context).reason


def test_no_row_goes_from_the_limit_of_an_earlier_look_on(events: Table, context: Context) -> None:
    looked = answer(expiry(dry_run=True, keep="P60D"), context)
    now_older = answer(expiry(dry_run=True), context)
    again = answer(expiry(dry_run=True, before=looked.expired_before), context)  # type: ignore[attr-defined]  # of the action
    assert (again.expired_before, again.rows_deleted) == (looked.expired_before, looked.rows_deleted)  # type: ignore[attr-defined]  # of the action
    assert again.expired_before < now_older.expired_before  # type: ignore[attr-defined]  # of the action


def test_a_date_is_a_limit_as_its_text_is(events: Table, context: Context) -> None:
    day = (NOW - timedelta(days=60)).date()
    by_date, by_text = (answer(expiry(dry_run=True, before=each), context) for each in (day, day.isoformat()))
    assert by_date.expired_before == by_text.expired_before == f"{day}T00:00:00+00:00"  # type: ignore[attr-defined]  # of the action


def test_nothing_due_starts_no_spark(events: Table, context: Context) -> None:
    report = answer(expiry(keep="P365D"), context)
    assert (report.outcome.value, "no file has such a row" in report.reason) == ("nothing-new", True)


@pytest.mark.parametrize(
    ("given", "error", "why"),
    [
        ({"column": "name"}, InvalidSpecError, "is of type string"),
        ({"column": "gone"}, InvalidSpecError, "is none of its columns"),
        ({"keep": "PT1H"}, InvalidSpecError, "keep must be at least P1D"),
    ],
)
def test_what_cannot_be_is_refused_before_spark(
    events: Table, context: Context, given: dict[str, Any], error: type[LakeProviderError], why: str
) -> None:
    with pytest.raises(error, match=why):
        answer(expiry(**given), context)


def test_a_table_of_version_1_is_refused_by_the_way_out(lake_catalog: SqlCatalog, context: Context) -> None:
    table = lake_catalog.create_table("shop.events", schema=SCHEMA, properties={"format-version": "1"})
    add(table, 90)
    with pytest.raises(UnsupportedError, match="format version 1 has no deletes; the table has version 1, upgrade it"):
        answer(expiry(), context)


@pytest.mark.parametrize(
    ("text", "is_off"), [("false", True), ("FALSE", True), ("no", True), ("", True), ("TRUE", False)]
)
def test_gc_enabled_forbids_to_delete_files_and_not_rows(
    events: Table, context: Context, text: str, is_off: bool
) -> None:
    with events.transaction() as transaction:
        transaction.set_properties({"gc.enabled": text})
    snapshots = LakeSnapshotExpiryOperator(task_id="t", table="shop.events", dry_run=True, **NO_SPARK)
    assert (answer(snapshots, context).outcome.value == "skipped") is is_off
    assert answer(expiry(dry_run=True), context).outcome.value == "planned"


def test_manifests_that_are_few_need_no_spark_and_many_are_counted(
    orders: Table, append: Callable[..., int], context: Context
) -> None:
    def merge(**given: Any) -> JobReport:
        return answer(LakeRewriteManifestsOperator(task_id="t", table="shop.orders", **NO_SPARK, **given), context)

    assert merge().outcome.value == "nothing-due"
    append(orders, 1)
    assert merge(sort=True).outcome.value == "nothing-due"
    append(orders, 2)
    planned = merge(dry_run=True)
    assert (planned.outcome.value, planned.manifests_rewritten, planned.manifests_added) == ("planned", 2, 1)  # type: ignore[attr-defined]  # of the action
    with pytest.raises(AssertionError, match="Spark would start"):
        merge()


def test_statistics_of_columns_that_the_table_lacks_are_refused(
    orders: Table, append: Callable[..., int], context: Context
) -> None:
    def count(**given: Any) -> JobReport:
        return answer(LakeStatisticsOperator(task_id="t", table="shop.orders", **NO_SPARK, **given), context)

    assert count().outcome.value == "nothing-due"
    append(orders, 1)
    assert count(dry_run=True).outcome.value == "planned"
    with pytest.raises(InvalidSpecError, match=r"columns that the table lacks: \['gone'\]"):
        count(columns=["id", "gone"])
