"""A lost report is resolved by the table: a new run key of this task proves the commit, and nothing else does."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import JobFailedError, UnknownOutcomeError
from airflow_lake_provider.contracts.reports.job import IncrementalReport, Outcome, UpsertReport
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, SnapshotExpirySpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.contracts.table_properties import RUN_KEY
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.operators.lost_report import LostReport

RUN = RunIdentity.of("dag", "run", "task", "-1")
OTHER = RunIdentity.of("dag", "run", "other", "-1")
UPSERT = UpsertSpec(
    catalog="lake_default", table="shop.orders", run=RUN, source=Files(path="a", format="csv", name="s"), keys=("id",)
)
LOST = JobFailedError("shop.orders: the driver went away.")


@pytest.fixture
def lake(lake_connection: str) -> LakeCatalogHook:
    return LakeCatalogHook(lake_connection)


@pytest.fixture
def commit(orders: Table) -> Callable[..., str]:
    def run(who: RunIdentity, what: str, branch: str = "main") -> str:
        key = who.run_key(what, ())
        orders.append(pa.table({"id": [1]}), snapshot_properties={RUN_KEY: key}, branch=branch)
        return str(orders.refresh().metadata.refs[branch].snapshot_id)

    return run


COUNTS = {"lake.rows-inserted": "3", "lake.rows-updated": "2", "lake.rows-deleted": "0", "lake.batch-rows": "9"}


def test_the_counts_of_a_lost_report_are_those_of_the_snapshots_summary(lake: LakeCatalogHook, orders: Table) -> None:
    lost_report = LostReport.before(lake, UPSERT, "main")
    key = RUN.run_key("today's input", ())
    orders.append(pa.table({"id": [1]}), snapshot_properties={RUN_KEY: key, **COUNTS})
    report = lost_report.resolve(LOST)
    assert isinstance(report, UpsertReport)
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (3, 2, 0)
    assert (report.batch_rows, report.batch_files) == (9, None)
    assert "3 rows inserted, 2 rows updated" in report.reason


@pytest.mark.parametrize("said", ["-1", "1.5", "many", "", "9" * 30])
def test_a_count_that_is_no_number_is_not_known(lake: LakeCatalogHook, orders: Table, said: str) -> None:
    lost_report = LostReport.before(lake, UPSERT, "main")
    counts = {**COUNTS, "lake.rows-inserted": said}
    orders.append(pa.table({"id": [1]}), snapshot_properties={RUN_KEY: RUN.run_key("x", ()), **counts})
    report = lost_report.resolve(LOST)
    assert isinstance(report, UpsertReport)
    assert (report.rows_inserted, report.rows_updated) == (None, 2)


CHANGES: dict[str, tuple[JobSpec, dict[str, Any]]] = {
    "deletion": (
        DeleteRowsSpec(catalog="lake_default", table="shop.orders", run=RUN, where="id = 3"),
        {"rows_deleted": 7, "erased_digest": "f00d", "digest_salt": None},
    ),
    "update": (
        UpdateRowsSpec(catalog="lake_default", table="shop.orders", run=RUN, where="id = 3", assignments={"n": "1"}),
        {"rows_updated": 7},
    ),
}


@pytest.mark.parametrize(("spec", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_lost_report_of_changed_rows_says_how_many_and_what_proves_it(
    lake: LakeCatalogHook, orders: Table, spec: JobSpec, expected: dict[str, Any]
) -> None:
    lost_report = LostReport.before(lake, spec, "main")
    said = {RUN_KEY: RUN.run_key("rows", ()), "lake.rows-matched": "7", "lake.erased-digest": "f00d"}
    orders.append(pa.table({"id": [1]}), snapshot_properties=said)
    report = lost_report.resolve(LOST)
    assert {name: getattr(report, name) for name in expected} == expected
    assert "7 rows" in report.reason


def test_a_commit_since_the_submission_is_reported(lake: LakeCatalogHook, commit: Callable[..., str]) -> None:
    commit(RUN, "yesterday's input")
    lost_report = LostReport.before(lake, UPSERT, "main")
    snapshot = commit(RUN, "today's input")
    commit(OTHER, "today's input")
    report = lost_report.resolve(LOST)
    assert isinstance(report, UpsertReport)
    assert (report.outcome, report.committed) == (Outcome.APPLIED, (snapshot,))
    assert report.run_key == RUN.run_key("today's input", ())
    assert "lost" in report.reason
    assert report.warnings


@pytest.mark.parametrize("who", [None, OTHER])
def test_without_one_the_loss_is_the_failure(
    lake: LakeCatalogHook, commit: Callable[..., str], who: RunIdentity | None
) -> None:
    commit(RUN, "yesterday's input")
    lost_report = LostReport.before(lake, UPSERT, "main")
    if who is not None:
        commit(who, "today's input")
    with pytest.raises(JobFailedError) as failed:
        lost_report.resolve(LOST)
    assert failed.value is LOST


def test_a_branch_is_asked_for_its_own_commits(
    lake: LakeCatalogHook, commit: Callable[..., str], orders: Table
) -> None:
    base = commit(OTHER, "base")
    orders.manage_snapshots().create_branch(int(base), "audit").commit()
    lost_report = LostReport.before(lake, replace(UPSERT, branch="audit"), "audit")
    on_main = LostReport.before(lake, UPSERT, "main")
    snapshot = commit(RUN, "input", branch="audit")
    assert lost_report.resolve(LOST).committed == (snapshot,)
    with pytest.raises(JobFailedError):
        on_main.resolve(LOST)


def test_a_table_that_the_lost_run_created_resolves_it_too(lake: LakeCatalogHook, orders: Table) -> None:
    orders.catalog.drop_table("shop.orders")
    lost_report = LostReport.before(lake, UPSERT, "main")
    created = orders.catalog.create_table("shop.orders", schema=pa.schema([("id", pa.int64())]))
    created.append(pa.table({"id": [1]}), snapshot_properties={RUN_KEY: RUN.run_key("input", ())})
    assert lost_report.resolve(LOST).outcome is Outcome.APPLIED


def test_an_incremental_run_is_resolved_with_its_own_report(lake: LakeCatalogHook, commit: Callable[..., str]) -> None:
    given: dict[str, Any] = {"source": "shop.lines", "consumer": "c", "to_snapshot": "1", "query": "SELECT 1"}
    spec = IncrementalSpec(catalog="lake_default", table="shop.orders", run=RUN, keys=("id",), **given)
    lost_report = LostReport.before(lake, spec, "main")
    commit(RUN, "range")
    assert isinstance(lost_report.resolve(LOST), IncrementalReport)


def test_actions_without_run_keys_resolve_no_lost_report(lake: LakeCatalogHook, commit: Callable[..., str]) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    expiry = SnapshotExpirySpec(
        catalog="lake_default", table="shop.orders", run=RUN, expire_before=now, expire_stage_branches_before=now
    )
    for spec in (CompactionSpec(catalog="lake_default", table="shop.orders", run=RUN), expiry):
        lost_report = LostReport.before(lake, spec, "main")
        commit(RUN, spec.action)
        with pytest.raises(JobFailedError):
            lost_report.resolve(LOST)


def test_a_catalog_that_does_not_answer_leaves_the_outcome_unknown_and_a_retry_safe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        port = closed_soon.getsockname()[1]
    extra = {"type": "rest", "warehouse": "lake"}
    down = {"conn_type": "iceberg", "host": f"http://127.0.0.1:{port}", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_DOWN", json.dumps(down))
    with pytest.raises(UnknownOutcomeError, match="the driver went away") as unknown:
        LostReport(LakeCatalogHook("down"), UPSERT, "main", frozenset()).resolve(LOST)
    assert "A retry is safe" in str(unknown.value)
    assert unknown.value.retry_may_help
