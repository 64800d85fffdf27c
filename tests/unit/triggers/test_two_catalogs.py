"""Watchers of a sound catalog and of one that misbehaves, in one event loop: the sound one's keep their pace."""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_lake_provider.triggers.catalog_poller import MOST_ABANDONED
from airflow_lake_provider.triggers.lake_snapshot import LakeSnapshotEventTrigger
from airflow_lake_provider.triggers.poll_threads import ChangedTable, PollThreads
from tests.unit.hostile_server import HostileServer, serving

if TYPE_CHECKING:
    from pyiceberg.table import Table

WATCHERS = 200
INTERVAL = 3.0
LOOK_TIMEOUT = 1.5
SILENT_TABLES = 5
BEAT = 0.02


@dataclass
class Noted:
    """What pollers did, and how long the loop was kept.

    :param looks: moments at which looks at a table were answered, by connection and table.
    :param longest_keep: seconds; less those in which a thread that only sleeps was kept as well, by a busy machine.
    """

    looks: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    events: list[tuple[float, str, str]] = field(default_factory=list)
    longest_keep: float = 0.0

    def gaps(self, conn_id: str) -> list[float]:
        """Return the seconds between two answered looks at a table."""
        of_connection = [times for (conn, _), times in self.looks.items() if conn == conn_id]
        return [later - earlier for times in of_connection for earlier, later in itertools.pairwise(times)]


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Noted:
    found, look = Noted(), PollThreads.look

    def note(looks: PollThreads, table: str, branches: tuple[str, ...], seen: Any) -> ChangedTable | None:
        answer = look(looks, table, branches, seen)
        found.looks.setdefault((looks._lake_conn_id, table), []).append(time.monotonic())
        return answer

    monkeypatch.setattr(PollThreads, "look", note)
    return found


@pytest.fixture
def many(orders: Table, append: Callable[..., int], tmp_path: Path) -> list[str]:
    """Tables that share the metadata of one, beside it."""
    append(orders, 1)
    names = [f"t{number:03d}" for number in range(WATCHERS - 1)]
    row = ("lake_default", "shop", orders.metadata_location)
    with sqlite3.connect(tmp_path / "catalog.db") as database:
        database.executemany(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type) "
            "VALUES (?, ?, ?, ?, 'TABLE')",
            [(row[0], row[1], name, row[2]) for name in names],
        )
    return ["shop.orders", *(f"shop.{name}" for name in names)]


@pytest.fixture
def metadata(orders: Table, append: Callable[..., int]) -> dict[str, Any]:
    append(orders, 1)
    found: dict[str, Any] = json.loads(orders.metadata.model_dump_json())
    return found


@pytest.fixture
def hostile(metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    monkeypatch.setenv("AIRFLOW__LAKE__WATCH_LOOK_TIMEOUT", str(LOOK_TIMEOUT))
    monkeypatch.setenv("AIRFLOW__LAKE__CATALOG_ANSWER_MEGABYTES", "2")
    with serving(metadata) as server:
        fields = {"conn_type": "iceberg", "host": server.uri, "extra": {"type": "rest"}}
        monkeypatch.setenv("AIRFLOW_CONN_HOSTILE", json.dumps(fields))
        yield server


@asynccontextmanager
async def watching(noted: Noted, conn_id: str, tables: list[str], interval: float) -> AsyncIterator[None]:
    """Watch tables, and note their events."""

    async def watch(table: str) -> None:
        arguments: dict[str, Any] = {"lake_conn_id": conn_id, "poll_interval": interval}
        trigger = LakeSnapshotEventTrigger(table=table, asset_name=f"{conn_id}.{table}", **arguments)
        async with aclosing(trigger.run()) as events:
            async for event in events:
                noted.events.append((time.monotonic(), table, str(event.payload["snapshot_id"])))

    tasks = [asyncio.create_task(watch(table)) for table in tables]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class OtherThread(threading.Thread):
    """Notes how long a thread was kept that does nothing but sleep."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.longest_keep = 0.0
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.is_set():
            before = time.monotonic()
            time.sleep(BEAT)
            self.longest_keep = max(self.longest_keep, time.monotonic() - before - BEAT)


async def beat(noted: Noted) -> None:
    """Note how long the loop was kept from anything else."""
    other, longest = OtherThread(), 0.0
    other.start()
    try:
        while True:
            before = time.monotonic()
            await asyncio.sleep(BEAT)
            longest = max(longest, time.monotonic() - before - BEAT)
            noted.longest_keep = longest - other.longest_keep
    finally:
        other.is_over.set()


async def until(is_so: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not become so in time"
        await asyncio.sleep(0.02)


async def test_two_hundred_watchers_keep_their_pace_beside_a_silent_catalog_which_recovers_within_an_interval(
    many: list[str], noted: Noted, hostile: HostileServer, orders: Table, append: Callable[..., int]
) -> None:
    hostile.modes["config"] = "silent"
    silent = [f"shop.s{number}" for number in range(SILENT_TABLES)]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(watching(noted, "hostile", silent, INTERVAL))
        await asyncio.sleep(0.5)
        await stack.enter_async_context(watching(noted, "lake_default", many, INTERVAL))
        await until(lambda: len(noted.looks) == WATCHERS, 30)
        noted.looks.clear()
        heart = asyncio.create_task(beat(noted))
        committed, at = str(append(orders, 2)), time.monotonic()
        await asyncio.sleep(2.5 * INTERVAL)
        heart.cancel()
        seen = [moment for moment, table, snapshot in noted.events if (table, snapshot) == ("shop.orders", committed)]
        gaps = noted.gaps("lake_default")
        assert len({table for _, table in noted.looks}) == WATCHERS
        assert max(gaps) < INTERVAL + 1
        assert len(seen) == 1
        assert seen[0] - at < INTERVAL + 1
        assert noted.longest_keep < 0.5
        assert [conn for conn, _ in noted.looks if conn == "hostile"] == []

        hostile.modes.clear()  # requests that hang stay unanswered
        await until(lambda: {(conn, t) for conn, t in noted.looks if conn == "hostile"}, INTERVAL + 1)
        await until(lambda: sum(conn == "hostile" for conn, _ in noted.looks) == SILENT_TABLES, INTERVAL + 1)


FAULTS = [("config", "slow header"), ("config", "no json"), ("config", "huge"), ("table", "silent")]
FAULTS += [("table", "slow body"), ("table", "reset"), ("table", "wrong types"), ("table", "deep")]


@pytest.mark.parametrize(("call", "mode"), FAULTS, ids=lambda text: text)
async def test_a_watcher_keeps_its_pace_beside_a_catalog_that_misbehaves_and_is_sound_again(
    call: str, mode: str, orders: Table, noted: Noted, hostile: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__WATCH_LOOK_TIMEOUT", "0.3")
    hostile.modes[call] = mode
    tables = ["shop.a", "shop.b"]
    async with watching(noted, "hostile", tables, 0.5), watching(noted, "lake_default", ["shop.orders"], 0.2):
        await until(lambda: len(noted.looks.get(("lake_default", "shop.orders"), ())) > 5, 10)
        assert max(noted.gaps("lake_default")) < 1.2
        assert [conn for conn, _ in noted.looks if conn == "hostile"] == []
        hostile.modes.clear()
        await until(lambda: sum(conn == "hostile" for conn, _ in noted.looks) == len(tables), 5)


async def test_no_thread_is_left_by_a_thousand_looks_at_a_silent_catalog(
    hostile: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__WATCH_LOOK_TIMEOUT", "0.02")
    hostile.modes["config"] = "silent"
    looks, before = PollThreads("hostile"), threading.active_count()
    for _ in range(10):
        waiting = [looks.start("shop.orders", ("main",), None) for _ in range(100)]
        for answer in waiting:
            with suppress(Exception):
                await answer
    hostile.healed.set()
    await until(lambda: threading.active_count() <= before + MOST_ABANDONED, 10)


async def test_a_table_that_goes_in_a_circle_is_said_once_and_its_neighbour_is_watched(
    orders: Table,
    append: Callable[..., int],
    noted: Noted,
    hostile: HostileServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    append(orders, 1)
    for snapshot in hostile.metadata["snapshots"]:
        snapshot["parent-snapshot-id"] = snapshot["snapshot-id"]
    async with watching(noted, "hostile", ["shop.a"], 0.2), watching(noted, "lake_default", ["shop.orders"], 0.2):
        await until(lambda: len(noted.looks.get(("lake_default", "shop.orders"), ())) > 5, 10)
        await until(lambda: hostile.asked.count("table") > 2, 10)
    said = [record.getMessage() for record in caplog.records if "is its own ancestor" in record.getMessage()]
    assert [line for line in said if "cannot be looked at" in line][1:] == []
    assert said
    assert {table for _, table, _ in noted.events} == {"shop.orders"}


async def test_a_decision_about_a_hundred_thousand_snapshots_does_not_keep_the_loop(noted: Noted) -> None:
    from airflow_lake_provider.contracts.table_facts import Snapshot
    from airflow_lake_provider.tables.detect_new_snapshot import NewSnapshot, TableHead
    from airflow_lake_provider.tables.watermark import Since
    from airflow_lake_provider.triggers.lake_snapshot import decide_aside

    ids = [None, *map(str, range(1, 100_001))]
    records = {
        id_: Snapshot(id=id_, parent=ids[n], at=n, summary={"added-records": "1"})
        for n, id_ in enumerate(ids[1:])
        if id_ is not None
    }
    heart = asyncio.create_task(beat(noted))
    await asyncio.sleep(0.1)
    answer = await decide_aside(TableHead(head="100000", snapshots=records), Since(snapshot_id="1"))
    heart.cancel()
    assert isinstance(answer, NewSnapshot)
    assert answer.commits == 99_999
    assert noted.longest_keep < 0.3
