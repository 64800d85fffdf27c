"""The part of a triggerer that runs watchers, in its own words: Airflow's shared streams, a second for each round.

Airflow's runner and supervisor are two processes. Here they are two lists and two delays; streams are Airflow's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from airflow.triggers.shared_stream import SharedStreamManager

from airflow_lake_provider.triggers import catalog_poller
from airflow_lake_provider.triggers.lake_snapshot import LakeSnapshotEventTrigger
from tests.unit.triggers.simulated_catalog import SimulatedCatalog


@dataclass
class AssetStates:
    """State of assets in Airflow's database, and the events that it stored: what outlives a kill."""

    values: dict[tuple[str, str], str] = field(default_factory=dict)
    stored: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)

    def events_of(self, table: str) -> list[tuple[int, int]]:
        """Return previous and new snapshot of the stored events of a table, 0 for none."""
        payloads = [payload for _, name, payload in self.stored if name == table]
        return [(int(found["previous_snapshot_id"] or 0), int(found["snapshot_id"])) for found in payloads]


class _State:
    def __init__(self, states: AssetStates, asset: str, triggerer: SimulatedTriggerer) -> None:
        self._states, self._asset, self._triggerer = states, asset, triggerer

    def get(self, key: str) -> object:
        return self._states.values.get((self._asset, key))

    def set(self, key: str, value: str) -> None:
        if not self._triggerer.is_killed:
            self._states.values[self._asset, key] = value


class SimulatedTriggerer:
    """Runs watchers until it is killed.

    :param store_seconds: time that the supervisor needs to store one event.
    """

    def __init__(self, states: AssetStates, store_seconds: float = 0.01) -> None:
        self.is_killed = False
        self._states = states
        self._store_seconds = store_seconds
        self._streams = SharedStreamManager()
        self._made: list[tuple[int, str, dict[str, Any], int | None]] = []
        self._rows: dict[int, str] = {}
        self._watchers: dict[int, asyncio.Task[None]] = {}
        self._rounds = asyncio.create_task(self._run())

    def watch(self, table: str, **arguments: Any) -> int:
        """Start a watcher and return the id of its row."""
        trigger = LakeSnapshotEventTrigger(table=table, asset_name=table, **arguments)
        trigger.asset_state_store = _State(self._states, table, self)  # type: ignore[assignment]  # a stand-in
        row = len(self._rows) + 1
        self._rows[row] = table
        self._watchers[row] = asyncio.create_task(self._run_trigger(row, trigger))
        return row

    async def drop(self, row: int) -> None:
        """Delete a watcher's row, as parsing a DAG file does; the watcher itself ends a round later."""
        del self._rows[row]
        await asyncio.sleep(1.5)
        self._watchers[row].cancel()
        await asyncio.wait({self._watchers[row]})

    async def kill(self) -> None:
        """End at once: what was not stored is lost."""
        self.is_killed = True
        tasks = {self._rounds, *self._watchers.values()}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        catalog_poller._pollers.clear()

    async def _run_trigger(self, row: int, trigger: LakeSnapshotEventTrigger) -> None:
        key = trigger.shared_stream_key()
        stream = self._streams.subscribe(trigger_id=row, trigger=trigger, key=key)
        try:
            async for event in trigger.filter_shared_stream(stream):
                seq = self._streams.bind_pending_event(trigger_id=row, key=key)
                self._made.append((row, trigger.table, event.payload, seq))
        finally:
            await self._streams.unsubscribe(row, key)

    async def _run(self) -> None:
        confirmed: list[int] = []
        while True:
            sent, self._made = self._made, []
            self._streams.confirm_persisted(confirmed)
            confirmed = []
            for row, table, payload, seq in sent:
                await asyncio.sleep(self._store_seconds)
                # Airflow stores nothing for a row that is gone, and confirms it all the same.
                if row in self._rows:
                    self._states.stored.append((asyncio.get_running_loop().time(), table, payload))
                if seq is not None:
                    confirmed.append(seq)
            await asyncio.sleep(1.0)


@contextmanager
def looking_at(catalog: SimulatedCatalog) -> Iterator[None]:
    """Let pollers look at a simulated catalog."""

    class _Looks:
        def __init__(self, lake_conn_id: str) -> None:
            self.start, self.reopen = catalog.start, catalog.reopen

        def close(self) -> None:
            """Nothing is open."""

    with patch.object(catalog_poller, "PollThreads", _Looks):
        yield
