"""The maintenance history of a catalog on SQLite, read back by PyIceberg alone."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ForbiddenError
from pyiceberg.table import Table
from pyiceberg.types import StringType

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.reports.history_entry import HistoryEntry
from airflow_lake_provider.hooks import maintenance_history
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.maintenance_history import MaintenanceHistory
from airflow_lake_provider.hooks.table_health import table_health
from airflow_lake_provider.hooks.table_plans import table_plans
from airflow_lake_provider.maintenance.health import OrphanCount
from airflow_lake_provider.maintenance.history_entries import orphan_counts_of
from airflow_lake_provider.maintenance.past_outcomes import PastOutcome
from airflow_lake_provider.tables.iceberg.ops_table import OpsTable

NAME = "lake_ops.maintenance_history"
NOW = datetime.now(UTC)


def entry(run: str = "aa", table: str = "shop.orders", *, ago: timedelta = timedelta(0), **given: Any) -> HistoryEntry:
    """Return a row."""
    at = NOW - ago
    plain: dict[str, Any] = {
        "month": f"{at:%Y-%m}",
        "run_key": run,
        "dag_id": "nightly",
        "run_id": "r1",
        "task_id": "lake.verdict",
        "try_number": 1,
        "action": "compaction",
        "outcome": "done",
        "core_seconds_expected": 1.5,
    }
    return HistoryEntry(table_name=table, ended_at=at, **{**plain, **given})


@pytest.fixture
def history(lake_catalog: SqlCatalog) -> MaintenanceHistory:
    """History of the catalog, whose table is not there yet."""
    return MaintenanceHistory(LakeCatalogHook())


def rows(catalog: SqlCatalog) -> list[dict[str, Any]]:
    """Return the rows as PyIceberg alone reads them."""
    return catalog.load_table(NAME).scan().to_arrow().to_pylist()


def test_a_table_that_was_told_to_write_orc_gets_its_rows_in_parquet(
    history: MaintenanceHistory, lake_catalog: SqlCatalog
) -> None:
    assert history.record([entry()])
    table = lake_catalog.load_table(NAME)
    table.transaction().set_properties({"write.format.default": "orc"}).commit_transaction()
    assert history.record([entry("bb")])
    assert sorted(row["run_key"] for row in rows(lake_catalog)) == ["aa", "bb"]
    assert lake_catalog.load_table(NAME).metadata.properties["write.format.default"] == "orc"


def test_a_run_is_one_append_to_a_table_that_is_made_when_it_is_missing(
    history: MaintenanceHistory, lake_catalog: SqlCatalog
) -> None:
    full = entry(snapshot_before="9223372036854775807", bytes_before=2**62, seconds=1.5, started_at=NOW, reasons="a,b")
    assert history.record([full, entry(table="shop.items", ago=timedelta(days=40))])
    table = lake_catalog.load_table(NAME)
    assert table.format_version == 2
    assert len(table.metadata.snapshots) == 1
    assert [field.name for field in table.spec().fields] == ["month"]
    (orders,) = [row for row in rows(lake_catalog) if row["table_name"] == "shop.orders"]
    assert {name: value for name, value in orders.items() if value is not None} == {
        name: value for name in HistoryEntry.__dataclass_fields__ if (value := getattr(full, name)) is not None
    }


def test_a_retry_of_the_task_that_writes_appends_nothing(history: MaintenanceHistory, lake_catalog: SqlCatalog) -> None:
    for run in ("aa", "aa", "bb"):
        assert history.record([entry(run), entry(run, "shop.items")])
    assert sorted(row["run_key"] for row in rows(lake_catalog)) == ["aa", "aa", "bb", "bb"]


def test_a_retry_appends_nothing_where_the_snapshot_of_its_first_try_is_expired(
    history: MaintenanceHistory, lake_catalog: SqlCatalog
) -> None:
    assert history.record([entry("aa", ago=timedelta(hours=2))])
    assert history.record([entry("bb")])
    table = lake_catalog.load_table(NAME)
    table.maintenance.expire_snapshots().by_id(table.metadata.snapshots[0].snapshot_id).commit()
    assert history.record([entry("aa", try_number=2)])
    assert sorted(row["run_key"] for row in rows(lake_catalog)) == ["aa", "bb"]


@pytest.mark.parametrize("keys", [["aa", "bb", "cc", "dd"], ["aa", "aa", "aa", "aa"]])
def test_runs_that_end_at_once_append_each_once(keys: list[str], lake_catalog: SqlCatalog) -> None:
    """The same key four times is a task that was taken for dead, and its retries."""
    assert MaintenanceHistory(LakeCatalogHook()).record([entry("first")])
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda key: MaintenanceHistory(LakeCatalogHook()).record([entry(key)]), keys))
    assert done == [True] * 4
    assert sorted(row["run_key"] for row in rows(lake_catalog)) == sorted({*keys, "first"})


def test_an_answer_that_is_lost_appends_once(
    history: MaintenanceHistory, lake_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = OpsTable.append

    def lost(*arguments: Any) -> None:
        append(*arguments)
        raise CommitStateUnknownException("the connection was cut")

    monkeypatch.setattr(OpsTable, "append", lost)
    assert history.record([entry()])
    assert len(rows(lake_catalog)) == 1


def foreign(table: Table) -> None:
    """Make it somebody else's."""
    with table.transaction() as change:
        change.remove_properties("lake.ops-table")


def newer(table: Table) -> None:
    """Make it one of a later version."""
    with table.transaction() as change:
        change.set_properties({"lake.ops-table": "maintenance-history/2"})


def without_a_column(table: Table) -> None:
    """Drop a column."""
    with table.update_schema() as change:
        change.delete_column("outcome")


def with_another_type(table: Table) -> None:
    """Give a column another type."""
    with table.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("seconds")
    with table.update_schema() as change:
        change.add_column("seconds", StringType())


@pytest.mark.parametrize("change", [foreign, newer, without_a_column, with_another_type])
def test_a_table_that_is_no_history_of_this_version_is_left_alone_with_a_warning(
    change: Callable[[Table], None],
    history: MaintenanceHistory,
    lake_catalog: SqlCatalog,
    caplog: pytest.LogCaptureFixture,
) -> None:
    history.record([entry()])
    change(lake_catalog.load_table(NAME))
    before = lake_catalog.load_table(NAME).metadata_location
    with caplog.at_level(logging.WARNING):
        assert not history.record([entry("bb")])
        assert history.remembered().outcomes is None
        assert not history.prepare()
    assert lake_catalog.load_table(NAME).metadata_location == before
    assert "UnsupportedError" in caplog.text
    assert "left alone" in caplog.text


def test_a_column_that_another_tool_has_added_does_not_matter(
    history: MaintenanceHistory, lake_catalog: SqlCatalog
) -> None:
    history.record([entry()])
    with lake_catalog.load_table(NAME).update_schema() as change:
        change.add_column("note", StringType())
    assert history.record([entry("bb")])
    assert len(rows(lake_catalog)) == 2


@pytest.mark.parametrize("error", [OSError("disk full"), ValueError("bug"), MemoryError()])
def test_a_history_that_cannot_be_written_fails_nobody(
    error: Exception,
    history: MaintenanceHistory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: Any) -> None:
        raise error

    monkeypatch.setattr(OpsTable, "append", broken)
    with caplog.at_level(logging.WARNING):
        assert not history.record([entry()])
    assert "lake_ops.maintenance_history was not written" in caplog.text
    assert type(error).__name__ in caplog.text


def test_a_slow_store_is_waited_for_no_longer_than_a_catalog(
    lake_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(OpsTable, "append", lambda *_: time.sleep(30))
    began = time.monotonic()
    assert not MaintenanceHistory(LakeCatalogHook(timeout=1)).record([entry()])
    assert time.monotonic() - began < 10
    assert "CatalogUnavailableError" in caplog.text


@pytest.mark.parametrize("name", ["", "off"])
def test_a_history_that_is_switched_off_asks_no_catalog(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__MAINTENANCE_HISTORY", name)
    switched_off = MaintenanceHistory(LakeCatalogHook("absent"))
    assert not switched_off.record([entry()])
    assert switched_off.remembered().outcomes is None
    assert switched_off.remembered().orphans == {}


def test_the_table_is_named_by_the_setting_or_by_the_author(
    lake_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__MAINTENANCE_HISTORY", "ops.lake.journal")
    assert MaintenanceHistory(LakeCatalogHook()).record([entry()])
    assert MaintenanceHistory(LakeCatalogHook(), "ops.mine").record([entry()])
    assert lake_catalog.load_table("ops.lake.journal").scan().count() == 1
    assert lake_catalog.load_table("ops.mine").scan().count() == 1
    with pytest.raises(InvalidSpecError, match="journal"):
        MaintenanceHistory(LakeCatalogHook(), "journal")


def test_of_many_counts_of_orphan_files_the_newest_of_each_table_alone_becomes_an_object(
    history: MaintenanceHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = ("shop.orders", "shop.items")
    history.record(
        [
            entry(table=table, ago=timedelta(hours=hour), orphan_files=hour, orphan_bytes=10 * hour)
            for table in tables
            for hour in range(100)
        ]
    )
    read: list[Any] = []

    def counts_of(given: Any) -> dict[str, OrphanCount]:
        read.extend(given)
        return orphan_counts_of(read)

    monkeypatch.setattr(maintenance_history, "orphan_counts_of", counts_of)
    newest = OrphanCount(files=0, bytes=0, counted_at=NOW)
    assert history.remembered().orphans == dict.fromkeys(tables, newest)
    assert len(read) == 2


def test_what_keeps_failing_and_the_newest_of_the_rest_are_read_back_for_a_plan(history: MaintenanceHistory) -> None:
    hours = [timedelta(hours=hour) for hour in (4, 3, 2)]
    for number, ago in enumerate(hours):
        failed: dict[str, Any] = {"outcome": "failed", "cause": f"no space {number}", "ago": ago}
        history.record(
            [
                entry(f"r{number}", "shop.orders", **failed),
                entry(f"r{number}", "shop.orders", ago=ago, action="snapshot-expiry"),
                entry(f"r{number}", "shop.items", ago=ago),
                # A dry run is no success.
                entry(f"r{number}", "shop.orders", ago=ago - timedelta(minutes=1), outcome="planned"),
            ]
        )
    for number, ago in enumerate(hours):
        history.record([entry(f"m{number}", "shop.mended", ago=ago, outcome="failed")])
    history.record([entry("m9", "shop.mended")])
    # Three tasks of one action of one run are one failure.
    history.record([entry("one", "shop.once", ago=ago, outcome="failed", action="create-tag") for ago in hours])
    history.record([entry("old", "shop.old", ago=timedelta(days=91), outcome="failed")])
    past = history.remembered().outcomes or {}
    assert "shop.old" not in past
    read = {
        table: sorted({(each.action, each.run, each.cause) for each in outcomes}) for table, outcomes in past.items()
    }
    assert read["shop.orders"] == [
        ("compaction", "r0", "no space 0"),
        ("compaction", "r1", "no space 1"),
        ("compaction", "r2", "no space 2"),
        ("snapshot-expiry", "r2", ""),
    ]
    assert read["shop.items"] == [("compaction", "r2", "")]
    assert [each.run for each in past["shop.once"]] == ["one"]
    newest = PastOutcome(action="compaction", run="m9", at=NOW, outcome="done")
    assert [each for each in past["shop.mended"] if each.run == "m9"][:1] == [newest]


def test_a_table_that_was_broken_for_days_does_not_rest_once_it_is_mended(history: MaintenanceHistory) -> None:
    for number in range(5):
        # As a plan reports it, which nobody has tried.
        broken: dict[str, Any] = {"outcome": "failed", "action": "plan", "core_seconds_expected": None}
        history.record([entry(f"r{number}", ago=timedelta(hours=number), **broken)])
    assert history.remembered().outcomes == {}


def test_the_newest_count_of_orphans_is_read_back_for_the_health(history: MaintenanceHistory) -> None:
    for hours, files in ((9, 7), (5, 3), (1, None)):
        history.record([entry(f"r{hours}", ago=timedelta(hours=hours), orphan_files=files, orphan_bytes=10)])
    assert history.remembered().orphans == {
        "shop.orders": OrphanCount(files=3, bytes=10, counted_at=NOW - timedelta(hours=5))
    }


def test_rows_of_a_clock_that_is_ahead_hide_no_earlier_ones_from_a_plan(
    history: MaintenanceHistory, lake_catalog: SqlCatalog
) -> None:
    look: dict[str, Any] = {"action": "remove-orphans", "orphan_files": 3, "orphan_bytes": 10}
    history.record([entry("r1", ago=timedelta(days=9), **look)])
    history.record([entry("ahead", ago=-timedelta(days=3650), **look)])
    remembered = history.remembered()
    at = NOW - timedelta(days=9)
    assert remembered.orphans == {"shop.orders": OrphanCount(files=3, bytes=10, counted_at=at)}
    assert [(each.run, each.at) for each in (remembered.outcomes or {})["shop.orders"]] == [("r1", at)]
    assert [each["run_key"] for each in history.entries("*", NOW - timedelta(days=30))] == ["ahead", "r1"]
    assert len(rows(lake_catalog)) == 2


@pytest.mark.usefixtures("orders")
def test_the_health_of_a_table_has_its_orphans(history: MaintenanceHistory) -> None:
    history.record([entry(orphan_files=3, orphan_bytes=10)])
    (health,) = table_health("shop.orders")
    assert health.orphans == OrphanCount(files=3, bytes=10, counted_at=NOW)


@pytest.mark.usefixtures("orders")
def test_the_health_of_a_table_has_the_newest_runs_that_left_no_snapshot(history: MaintenanceHistory) -> None:
    runs = [("snapshot-expiry", 9), ("remove-orphans", 8), ("snapshot-expiry", 7)]
    for action, hours in runs:
        history.record([entry(f"r{hours}", action=action, ago=timedelta(hours=hours))])
    history.record([entry("r6", action="expire-rows", outcome="failed")])
    (health,) = table_health("shop.orders")
    assert {action: run.at for action, run in health.last_maintenance.items()} == {
        "snapshot-expiry": NOW - timedelta(hours=7),
        "remove-orphans": NOW - timedelta(hours=8),
    }


def test_without_a_history_there_is_nothing_to_read(
    history: MaintenanceHistory, caplog: pytest.LogCaptureFixture
) -> None:
    assert history.remembered().outcomes == {}
    assert history.remembered().orphans == {}
    assert history.entries("*", NOW - timedelta(days=1)) == []
    assert caplog.text == ""


def test_the_fleet_maintains_the_history_seldom(history: MaintenanceHistory) -> None:
    for number in range(30):
        history.record([entry(f"r{number}")])
    sooner = {"compaction": {"min_input_files": 5}, "expiry": {"min_snapshots": 20}}

    def due(days: int, policy: dict[str, Any] | None = None) -> list[str]:
        (plan,) = table_plans("lake_ops.*", now=datetime.now(UTC) + timedelta(days=days), policy=policy)
        assert plan.error is None
        return [each.action for each in plan.actions]

    assert due(8) == []
    assert due(8, sooner) == ["snapshot-expiry", "compaction"]
    # Its month is written to in each run, and is no hot partition that waits.
    assert due(0, sooner) == ["compaction"]


def test_a_catalog_that_lets_nobody_create_namespaces_has_a_history_in_one_that_is_there(
    lake_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake_catalog.create_namespace("lake_ops")

    def refused(*_: Any, **__: Any) -> None:
        raise ForbiddenError("no right to create namespaces")

    monkeypatch.setattr(SqlCatalog, "create_namespace", refused)
    assert MaintenanceHistory(LakeCatalogHook()).record([entry()])
    assert not MaintenanceHistory(LakeCatalogHook(), "elsewhere.history").record([entry()])


@pytest.mark.parametrize("is_lost", [False, True], ids=["seen", "not seen again"])
def test_the_rows_of_a_commit_that_a_client_sent_twice_stay_readable(
    history: MaintenanceHistory, lake_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    assert history.record([entry()])
    commit, load = SqlCatalog.commit_table, SqlCatalog.load_table

    # As botocore sends an UpdateTable of Glue again, whose answer was lost.
    def twice(catalog: SqlCatalog, *arguments: Any) -> Any:
        commit(catalog, *arguments)
        if is_lost:
            monkeypatch.setattr(SqlCatalog, "load_table", lost)
        raise CommitFailedException("ConcurrentModificationException")

    def lost(*_: Any) -> Any:
        monkeypatch.setattr(SqlCatalog, "load_table", load)
        raise ConnectionError("no answer")

    monkeypatch.setattr(SqlCatalog, "commit_table", twice)
    history.record([entry("bb")])
    monkeypatch.undo()
    assert sorted(row["run_key"] for row in load(lake_catalog, NAME).scan().to_arrow().to_pylist()) == ["aa", "bb"]
