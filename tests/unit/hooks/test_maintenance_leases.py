"""Leases of tables in a catalog on SQLite, taken by runs that meet."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.maintenance_leases import MaintenanceLeases
from airflow_lake_provider.maintenance.leases import MaintenanceLease, without_leased
from airflow_lake_provider.maintenance.plan import PlannedAction, TablePlan
from airflow_lake_provider.tables.iceberg.ops_table import OpsTable

NAME = "lake_ops.maintenance_leases"
NOW = datetime.now(UTC)


def run(key: str, *, until: timedelta = timedelta(hours=6)) -> MaintenanceLease:
    """Return the lease that a run asks for."""
    return MaintenanceLease(
        table_name="", run_key=key, dag_id=f"dag_{key}", run_id="r1", acquired_at=NOW, expires_at=NOW + until
    )


@pytest.fixture
def leases(lake_catalog: SqlCatalog) -> MaintenanceLeases:
    """Leases of the catalog, whose table is not there yet."""
    return MaintenanceLeases(LakeCatalogHook())


def rows(catalog: SqlCatalog) -> dict[str, str]:
    """Return who has which table, as PyIceberg alone reads it."""
    read = catalog.load_table(NAME).scan().to_arrow().to_pylist()
    assert len({row["table_name"] for row in read}) == len(read)
    return {row["table_name"]: row["run_key"] for row in read}


def test_a_table_that_another_run_has_leased_is_refused_and_the_rest_is_taken(
    leases: MaintenanceLeases, lake_catalog: SqlCatalog
) -> None:
    assert leases.take(["shop.a", "shop.b"], run("one")) == {}
    refused = leases.take(["shop.b", "shop.c"], run("two"))
    assert {name: each.dag_id for name, each in refused.items()} == {"shop.b": "dag_one"}
    assert rows(lake_catalog) == {"shop.a": "one", "shop.b": "one", "shop.c": "two"}
    leases.give_back("one")
    assert rows(lake_catalog) == {"shop.c": "two"}
    assert leases.take(["shop.b"], run("two")) == {}
    leases.give_back("two")
    leases.give_back("two")
    assert rows(lake_catalog) == {}


def test_a_retry_takes_the_leases_of_its_first_try(leases: MaintenanceLeases, lake_catalog: SqlCatalog) -> None:
    leases.take(["shop.a", "shop.b"], run("one"))
    assert leases.take(["shop.b", "shop.c"], run("one")) == {}
    assert rows(lake_catalog) == {"shop.b": "one", "shop.c": "one"}


def test_a_lease_of_a_run_that_died_is_over_after_its_time(leases: MaintenanceLeases, lake_catalog: SqlCatalog) -> None:
    leases.take(["shop.a"], run("one", until=timedelta(seconds=-1)))
    assert leases.take(["shop.a"], run("two")) == {}
    assert rows(lake_catalog) == {"shop.a": "two"}


def test_a_lease_that_a_clock_has_dated_ahead_does_not_hold(
    leases: MaintenanceLeases, lake_catalog: SqlCatalog
) -> None:
    ahead = NOW + timedelta(days=400)
    leases.take(["shop.a"], replace(run("dead"), acquired_at=ahead, expires_at=ahead + timedelta(hours=6)))
    assert leases.current() == {}
    assert leases.take(["shop.a"], run("one")) == {}
    assert rows(lake_catalog) == {"shop.a": "one"}
    # Clocks differ by minutes, or by an hour of summer time, and such a lease is one.
    soon = NOW + timedelta(hours=1, minutes=10)
    leases.take(["shop.b"], replace(run("two"), acquired_at=soon, expires_at=soon + timedelta(hours=6)))
    assert set(leases.take(["shop.b"], run("one"))) == {"shop.b"}


def test_a_run_makes_one_commit_and_no_commit_to_the_tables(
    leases: MaintenanceLeases, lake_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[str] = []
    commit = OpsTable.replace

    def counted(ops: OpsTable, *arguments: Any) -> None:
        commits.append(str(ops.name))
        commit(ops, *arguments)

    monkeypatch.setattr(OpsTable, "replace", counted)
    leases.take([f"shop.t{number}" for number in range(500)], run("one"))
    assert commits == [NAME]
    assert len(rows(lake_catalog)) == 500
    # Nothing changed, nothing is committed.
    leases.take([f"shop.t{number}" for number in range(500)], run("one"))
    assert commits == [NAME]


def test_of_runs_that_ask_at_once_one_gets_the_table(lake_catalog: SqlCatalog) -> None:
    MaintenanceLeases(LakeCatalogHook()).take(["shop.other"], run("other"))
    keys = ["one", "two", "three", "four"]
    with ThreadPoolExecutor(4) as threads:
        refused = list(
            threads.map(lambda key: MaintenanceLeases(LakeCatalogHook()).take(["shop.a", f"own.{key}"], run(key)), keys)
        )
    winners = [key for key, each in zip(keys, refused, strict=True) if not each]
    assert len(winners) == 1
    assert {each["shop.a"].run_key for each in refused if each} == set(winners)
    assert rows(lake_catalog) == {"shop.other": "other", "shop.a": winners[0], **{f"own.{key}": key for key in keys}}


@pytest.mark.parametrize("name", ["off", ""])
def test_leases_that_are_switched_off_ask_no_catalog(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__MAINTENANCE_LEASES", name)
    switched_off = MaintenanceLeases(LakeCatalogHook("absent"))
    assert switched_off.take(["shop.a"], run("one")) == {}
    switched_off.give_back("one")


def test_leases_that_cannot_be_had_stop_nobody(
    lake_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake_catalog.create_namespace("lake_ops")
    foreign = lake_catalog.create_table(
        NAME,
        OpsTable(catalog=lake_catalog, name=None, row=MaintenanceLease, kind="").schema,  # type: ignore[arg-type]
    )
    with caplog.at_level(logging.WARNING):
        assert MaintenanceLeases(LakeCatalogHook()).take(["shop.a"], run("one")) == {}
    assert "not asked: UnsupportedError" in caplog.text
    assert lake_catalog.load_table(NAME).metadata_location == foreign.metadata_location
    monkeypatch.setattr(OpsTable, "load_or_create", lambda _: time.sleep(30))
    began = time.monotonic()
    assert MaintenanceLeases(LakeCatalogHook(timeout=1)).take(["shop.a"], run("one")) == {}
    assert time.monotonic() - began < 10


def test_a_lease_that_comes_after_its_run_has_stopped_waiting_is_given_back(
    lake_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    MaintenanceLeases(LakeCatalogHook()).take(["shop.b"], run("other"))
    replace_rows, commits, waits = OpsTable.replace, threading.Semaphore(0), iter([1.5])

    def late(ops: OpsTable, *arguments: Any) -> None:
        replace_rows(ops, *arguments)
        time.sleep(next(waits, 0))
        commits.release()

    monkeypatch.setattr(OpsTable, "replace", late)
    assert MaintenanceLeases(LakeCatalogHook(timeout=1)).take(["shop.a"], run("one")) == {}
    assert rows(lake_catalog) == {"shop.b": "other", "shop.a": "one"}
    assert commits.acquire(timeout=10)
    deadline = time.monotonic() + 10
    while rows(lake_catalog) != {"shop.b": "other"}:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_leases_that_hold_now_are_read_without_a_commit(
    leases: MaintenanceLeases, lake_catalog: SqlCatalog
) -> None:
    assert leases.current() == {}
    assert ("lake_ops",) not in lake_catalog.list_namespaces()
    leases.take(["shop.over"], run("over", until=timedelta(seconds=-1)))
    leases.take(["shop.a"], run("one"))
    assert {name: each.run_key for name, each in leases.current().items()} == {"shop.a": "one"}


def test_a_run_that_has_no_lease_commits_nothing_to_give_it_back(
    leases: MaintenanceLeases, lake_catalog: SqlCatalog
) -> None:
    leases.take(["shop.over"], run("over", until=timedelta(seconds=-1)))
    before = lake_catalog.load_table(NAME).metadata_location
    leases.give_back("dry run")
    assert lake_catalog.load_table(NAME).metadata_location == before


def test_the_plan_of_a_leased_table_says_who_has_it_and_until_when() -> None:
    plan = TablePlan(table="shop.a", planned_at=NOW, actions=(PlannedAction(action="compaction"),))
    at = datetime(2026, 11, 26, 3, 0, tzinfo=UTC)
    lease = replace(run("one"), table_name="shop.a", acquired_at=at, expires_at=at + timedelta(hours=6))
    left, other = without_leased([plan, replace(plan, table="shop.b")], {"shop.a": lease})
    assert left.actions == ()
    (waiting,) = left.not_planned
    assert waiting.why == "Run r1 of DAG dag_one maintains it since 2026-11-26 03:00."
    assert waiting.instead == "It is planned again when that run has ended, at the latest from 2026-11-26 09:00 on."
    assert waiting.is_waiting
    assert other.actions == plan.actions
