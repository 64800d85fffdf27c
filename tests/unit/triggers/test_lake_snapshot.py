"""Triggers on real tables: what wakes, what does not, and what a kill costs."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, closing
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest
from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.sensors.lake_snapshot import _SingleLook
from airflow_lake_provider.triggers import lake_snapshot
from airflow_lake_provider.triggers.lake_snapshot import LakeSnapshotEventTrigger, LakeSnapshotTrigger
from airflow_lake_provider.triggers.watermark_store import WatermarkStore

Append = Callable[..., int]
LOG: Any = logging.getLogger("test.poller")
TABLE = "shop.orders"
POLL = 0.05
SILENCE_SECONDS = 0.4


class StateOfOneAsset:
    """Airflow's asset state store, as far as the trigger uses it: JSON values by key, through a process border."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.history: list[object] = []
        self.written = threading.Event()

    def get(self, key: str) -> object:
        return json.loads(self.values[key]) if key in self.values else None

    def set(self, key: str, value: object) -> None:
        self.values[key] = json.dumps(value)
        self.history.append(value)
        self.written.set()


class StateThatFails(StateOfOneAsset):
    """A store whose database is away for some writes."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def set(self, key: str, value: object) -> None:
        self.times -= 1
        if self.times >= 0:
            raise RuntimeError("Server error 500: the database is away")
        super().set(key, value)


class StateOfTwoAssets(StateOfOneAsset):
    def get(self, key: str) -> object:
        raise ValueError("Task has 2 concrete inlets and outlets")


@pytest.fixture(autouse=True)
def quick_watermarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_snapshot, "WatermarkStore", partial(WatermarkStore, delay=0.2, pause=0.1))


def watcher(state: StateOfOneAsset | None = None, **arguments: Any) -> LakeSnapshotEventTrigger:
    """A watcher as the triggerer makes it: from its serialized form, with a store put in."""
    given = LakeSnapshotEventTrigger(table=TABLE, asset_name="orders", poll_interval=POLL, **arguments)
    _, kwargs = given.serialize()
    made = LakeSnapshotEventTrigger(**json.loads(json.dumps(kwargs)))
    made.asset_state_store = state  # type: ignore[assignment]  # a stand-in for Airflow's accessors
    return made


async def next_payload(events: AsyncIterator[TriggerEvent], within: float = 5) -> dict[str, Any]:
    event = await asyncio.wait_for(anext(events), within)
    payload: dict[str, Any] = event.payload
    return payload


async def stays_silent(events: AsyncIterator[TriggerEvent]) -> None:
    """Run on for a while, as the triggerer does, and expect no event."""
    waiting = asyncio.ensure_future(anext(events))
    done, _ = await asyncio.wait([waiting], timeout=SILENCE_SECONDS)
    assert not done, waiting.result()
    await stop(waiting)


async def written(state: StateOfOneAsset) -> None:
    """Wait for what a busy machine may do late."""
    assert await asyncio.to_thread(state.written.wait, 30)


async def stop(waiting: asyncio.Future[TriggerEvent]) -> None:
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_each_change_of_rows_makes_one_event(orders: Table, append: Append) -> None:
    first = append(orders, 1, 2)
    async with aclosing(watcher().run()) as events:
        seen = await next_payload(events)
        assert (seen["snapshot_id"], seen["previous_snapshot_id"]) == (str(first), None)
        second = append(orders, 3)
        seen = await next_payload(events)
    assert {key: seen[key] for key in ("table", "branch", "snapshot_id", "previous_snapshot_id", "ancestry")} == {
        "table": TABLE,
        "branch": "main",
        "snapshot_id": str(second),
        "previous_snapshot_id": str(first),
        "ancestry": "linear",
    }
    assert seen["counts"]["added-records"] == 1


async def test_a_compaction_wakes_nobody_and_moves_the_watermark(
    orders: Table, append: Append, compact: Callable[[Table], int]
) -> None:
    append(orders, 1)
    state = StateOfOneAsset()
    async with aclosing(watcher(state).run()) as events:
        await next_payload(events)
        compacted = compact(orders)
        await stays_silent(events)
    assert str(state.history[-1]).startswith(f"{compacted}@")
    assert all(isinstance(value, str) for value in state.history)


async def test_the_watermark_is_written_after_the_event_was_stored(orders: Table, append: Append) -> None:
    first = append(orders, 1)
    state = StateOfOneAsset()
    async with aclosing(watcher(state).run()) as events:
        await next_payload(events)
        assert state.history == []
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.1)
        assert state.history == []
        await written(state)
        assert [str(value).split("@")[0] for value in state.history] == [str(first)]
        await stop(waiting)


async def test_a_watcher_killed_before_its_watermark_repeats_the_event(orders: Table, append: Append) -> None:
    append(orders, 1)
    state = StateOfOneAsset()
    async with aclosing(watcher(state).run()) as events:
        before = await next_payload(events)
    async with aclosing(watcher(state).run()) as events:
        assert await next_payload(events) == before


async def test_a_restarted_watcher_goes_on_where_it_stood(orders: Table, append: Append) -> None:
    first = append(orders, 1)
    state = StateOfOneAsset()
    async with aclosing(watcher(state).run()) as events:
        await next_payload(events)
        waiting = asyncio.ensure_future(anext(events))
        await written(state)
        await stop(waiting)
    async with aclosing(watcher(state).run()) as events:
        await stays_silent(events)
    second = append(orders, 2)
    async with aclosing(watcher(state).run()) as events:
        seen = await next_payload(events)
    assert (seen["snapshot_id"], seen["previous_snapshot_id"]) == (str(second), str(first))


async def test_a_watermark_is_written_when_the_database_is_back_so_that_a_restart_repeats_nothing(
    orders: Table, append: Append
) -> None:
    append(orders, 1)
    state = StateThatFails(times=3)
    async with aclosing(watcher(state).run()) as events:
        await next_payload(events)
        waiting = asyncio.ensure_future(anext(events))
        await written(state)
        await stop(waiting)
    assert state.times == -1
    async with aclosing(watcher(state).run()) as events:
        await stays_silent(events)


async def test_a_rollback_makes_an_event_that_says_so(orders: Table, append: Append) -> None:
    first, second = append(orders, 1), append(orders, 2)
    async with aclosing(watcher().run()) as events:
        await next_payload(events)
        orders.manage_snapshots().rollback_to_snapshot(first).commit()
        seen = await next_payload(events)
    assert (seen["ancestry"], seen["snapshot_id"], seen["previous_snapshot_id"]) == (
        "rolled-back",
        str(first),
        str(second),
    )


async def test_commits_are_collected_until_enough_rows_came(orders: Table, append: Append) -> None:
    append(orders, 1, 2)
    async with aclosing(watcher(StateOfOneAsset(), min_added_rows=4).run()) as events:
        await stays_silent(events)
    append(orders, 3, 4)
    async with aclosing(watcher(StateOfOneAsset(), min_added_rows=4).run()) as events:
        seen = await next_payload(events)
    assert (seen["commits"], seen["counts"]["added-records"]) == (2, 4)


async def test_the_least_time_between_events_holds_across_a_restart(orders: Table, append: Append) -> None:
    append(orders, 1)
    state = StateOfOneAsset()
    async with aclosing(watcher(state, min_interval=3600.0).run()) as events:
        await next_payload(events)
        await stays_silent(events)
    append(orders, 2)
    async with aclosing(watcher(state, min_interval=3600.0).run()) as events:
        await stays_silent(events)
    async with aclosing(watcher(state).run()) as events:
        await next_payload(events)


@pytest.mark.parametrize("state", [None, StateOfTwoAssets()], ids=["no-store", "store-of-two-assets"])
async def test_without_a_store_events_are_made_all_the_same(
    state: StateOfOneAsset | None, orders: Table, append: Append
) -> None:
    append(orders, 1)
    async with aclosing(watcher(state).run()) as events:
        await next_payload(events)
        await stays_silent(events)


def test_two_assets_on_one_table_never_share_a_trigger_row() -> None:
    rows = [LakeSnapshotEventTrigger(table=TABLE, asset_name=name).serialize() for name in ("orders", "bookings")]
    assert BaseEventTrigger.hash(*rows[0]) != BaseEventTrigger.hash(*rows[1])
    assert BaseEventTrigger.hash(*rows[0]) == BaseEventTrigger.hash(*rows[0])


async def test_a_missing_table_is_waited_for(lake_catalog: SqlCatalog, append: Append) -> None:
    import pyarrow as pa

    async with aclosing(watcher().run()) as events:
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(SILENCE_SECONDS)
        assert not waiting.done()
        made = append(lake_catalog.create_table(TABLE, schema=pa.schema([("id", pa.int64())])), 1)
        assert (await asyncio.wait_for(waiting, 5)).payload["snapshot_id"] == str(made)


def test_what_is_missing_is_said_once_at_warning(
    lake_catalog: SqlCatalog, append: Append, caplog: pytest.LogCaptureFixture
) -> None:
    import pyarrow as pa

    poller = _SingleLook(table=TABLE, lake_conn_id="lake_default", branch="main", log=LOG)
    for _ in range(3):
        assert poller.look().head is None
    assert [(r.levelname, "shop.orders does not exist yet" in r.getMessage()) for r in caplog.records] == [
        ("WARNING", True)
    ]
    append(lake_catalog.create_table(TABLE, schema=pa.schema([("id", pa.int64())])), 1)
    assert poller.look().head is not None
    lake_catalog.drop_table(TABLE)
    for _ in range(3):
        assert poller.look().head is None
    assert len(caplog.records) == 2


async def test_an_event_that_waits_for_the_least_time_comes_also_while_looks_fail(
    orders: Table, append: Append, tmp_path: Path
) -> None:
    append(orders, 1)
    async with aclosing(watcher(min_interval=3.0).run()) as events:
        await next_payload(events)
        second = append(orders, 2)
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(1.0)  # the commit is seen, too soon for an event
        with closing(sqlite3.connect(tmp_path / "catalog.db", timeout=30)) as database, database:
            database.execute("UPDATE iceberg_tables SET metadata_location = ?", [f"file://{tmp_path}/no.metadata.json"])
        assert (await asyncio.wait_for(waiting, 10)).payload["snapshot_id"] == str(second)


async def test_an_outage_is_waited_out_and_said_once(
    orders: Table, append: Append, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="airflow_lake_provider")
    away = tmp_path / "away.db"
    first = append(orders, 1)
    (tmp_path / "catalog.db").rename(away)
    # SQLite cannot open a folder, and the file takes the place of a link at once: it would make a file between the two.
    (tmp_path / "catalog.db").symlink_to(tmp_path)
    async with aclosing(watcher().run()) as events:
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(1.5)
        assert not waiting.done()
        away.rename(tmp_path / "catalog.db")
        assert (await asyncio.wait_for(waiting, 30)).payload["snapshot_id"] == str(first)
    said = [(record.levelname, record.getMessage()) for record in caplog.records if "overdue_alarm" in record.name]
    assert [level for level, _ in said if level != "ERROR"] == ["WARNING", "INFO"]
    assert "cannot look" in said[0][1]
    assert "answers again" in said[-1][1]


async def test_watchers_and_deferrals_share_one_catalog_and_close_it_with_the_last(
    orders: Table, append: Append, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[LakeCatalogHook] = []
    closed: list[object] = []
    read: Callable[[LakeCatalogHook], CatalogConnection] = LakeCatalogHook.connection.func

    def noted(hook: LakeCatalogHook) -> CatalogConnection:
        opened.append(hook)
        return read(hook)

    def closed_one(catalog: SqlCatalog) -> None:
        closed.append(catalog)

    monkeypatch.setattr(SqlCatalog, "close", closed_one)
    connection = cached_property(noted)
    connection.__set_name__(LakeCatalogHook, "connection")
    monkeypatch.setattr(LakeCatalogHook, "connection", connection)
    first = append(orders, 1)
    deferral = LakeSnapshotTrigger(table=TABLE, since=str(first), poll_interval=POLL)
    async with aclosing(watcher().run()) as one, aclosing(watcher(branch="main", min_added_rows=1).run()) as two:
        await next_payload(one)
        await next_payload(two)
        async with aclosing(deferral.run()) as waiting:
            found = asyncio.ensure_future(anext(waiting))
            await asyncio.sleep(0.2)
            append(orders, 2)
            assert (await asyncio.wait_for(found, 5)).payload["status"] == "success"
    assert len(opened) == 1
    await asyncio.sleep(0.5)
    assert closed == [opened[0].catalog]


async def test_a_deferral_ends_with_the_payload(orders: Table, append: Append) -> None:
    first = append(orders, 1)
    trigger = LakeSnapshotTrigger(table=TABLE, since=str(first), poll_interval=POLL)
    async with aclosing(trigger.run()) as events:
        await stays_silent(events)
    second = append(orders, 2)
    async with aclosing(trigger.run()) as events:
        event = await next_payload(events)
        with pytest.raises(StopAsyncIteration):
            await anext(events)
    assert event["status"] == "success"
    assert (event["payload"]["snapshot_id"], event["payload"]["previous_snapshot_id"]) == (str(second), str(first))
    json.dumps(event)


async def test_a_deferral_ends_at_its_deadline(orders: Table, append: Append) -> None:
    first = append(orders, 1)
    trigger = LakeSnapshotTrigger(table=TABLE, since=str(first), poll_interval=POLL, deadline=time.time() + 0.3)
    assert LakeSnapshotTrigger(**trigger.serialize()[1]).serialize() == trigger.serialize()
    async with aclosing(trigger.run()) as events:
        assert await next_payload(events) == {"status": "timeout"}
        with pytest.raises(StopAsyncIteration):
            await anext(events)


async def test_a_deferral_ends_with_an_error_that_waiting_does_not_mend() -> None:
    trigger = LakeSnapshotTrigger(table=TABLE, lake_conn_id="nowhere", since="1", poll_interval=POLL)
    async with aclosing(trigger.run()) as events:
        event = await next_payload(events)
    assert (event["status"], event["error"]) == ("error", "InvalidConnectionError")
    assert "nowhere" in event["message"]
