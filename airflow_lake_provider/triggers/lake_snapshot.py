"""Triggers that see new snapshots of a lake table: one for a deferred task, one for an AssetWatcher."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from airflow_lake_provider.contracts.new_snapshot import EventThreshold, NewSnapshot, Since, Watermark, decide
from airflow_lake_provider.triggers.snapshot_poller import (
    DEFAULT_CONNECTION,
    SnapshotPoller,
    default_poll_interval,
    may_pass,
)
from airflow_lake_provider.triggers.watermark_store import WatermarkStore

_PATH = "airflow_lake_provider.triggers.lake_snapshot"


class LakeSnapshotTrigger(BaseTrigger):
    """Wait for a new snapshot of one table and end: what a deferred LakeSnapshotSensor waits on.

    Its event is ``{"status": "success", "payload": {...}}``, or ``{"status": "error", "error": <class in
    contracts.errors or other>, "message": ...}`` for an error that waiting does not mend.

    :param table: ``namespace.table``.
    :param lake_conn_id: connection of type ``iceberg``.
    :param branch: branch to look at.
    :param since: snapshot id or ISO-8601 time with a zone after which commits count; None takes ``consumer``.
    :param consumer: consumer whose cursor on the table counts; neither means any snapshot.
    :param min_added_rows: commits are collected until they added this many rows.
    :param poll_interval: seconds; None means ``[lake] snapshot_poll_interval``.
    """

    def __init__(
        self,
        *,
        table: str,
        lake_conn_id: str = DEFAULT_CONNECTION,
        branch: str = "main",
        since: str | None = None,
        consumer: str | None = None,
        min_added_rows: int = 0,
        poll_interval: float | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's has no annotations
        self.table = table
        self.lake_conn_id = lake_conn_id
        self.branch = branch
        self.since = since
        self.consumer = consumer
        self.min_added_rows = min_added_rows
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments."""
        names = ("table", "lake_conn_id", "branch", "since", "consumer", "min_added_rows", "poll_interval")
        return f"{_PATH}.LakeSnapshotTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncGenerator[TriggerEvent, None]:
        """Yield one event."""
        try:
            new_snapshot = await self._wait_for_new_snapshot()
        except Exception as error:  # noqa: BLE001  the waiting task is to fail with it, not the triggerer
            yield _event({"status": "error", "error": type(error).__name__, "message": str(error)})
        else:
            yield _event({"status": "success", "payload": new_snapshot.to_payload(self.table, self.branch)})

    async def _wait_for_new_snapshot(self) -> NewSnapshot:
        since = Since.parse(self.since) if self.since is not None else Since(consumer=self.consumer)
        threshold = EventThreshold(min_added_rows=self.min_added_rows)
        pause = default_poll_interval() if self.poll_interval is None else self.poll_interval
        poller = SnapshotPoller(table=self.table, lake_conn_id=self.lake_conn_id, branch=self.branch, log=self.log)
        while True:
            answer = decide(await poller.look_until_answered(may_pass), since, threshold=threshold)
            if isinstance(answer, NewSnapshot):
                return answer
            await asyncio.sleep(pause)


class LakeSnapshotEventTrigger(BaseEventTrigger):
    """Make an asset event of every change of a table's rows, for as long as a DAG is scheduled on the asset.

    The payload has the keys of Airflow's own Iceberg trigger (``table, branch, snapshot_id, previous_snapshot_id``)
    and more. An event is made at least once: its watermark is written after Airflow stored it, so a triggerer that is
    killed between the two repeats the event when it is back.

    :param table: ``namespace.table``.
    :param asset_name: name of the asset this watches for; Airflow merges triggers of equal arguments into one row, and
        a row shared by two assets has no watermark.
    :param lake_conn_id: connection of type ``iceberg``.
    :param branch: branch to watch.
    :param poll_interval: seconds; None means ``[lake] snapshot_poll_interval``.
    :param min_added_rows: commits are collected until they added this many rows. A rollback counts at any size.
    :param min_interval: least seconds between two events; what is committed meanwhile is in the next one.
    """

    def __init__(
        self,
        *,
        table: str,
        asset_name: str,
        lake_conn_id: str = DEFAULT_CONNECTION,
        branch: str = "main",
        poll_interval: float | None = None,
        min_added_rows: int = 0,
        min_interval: float = 0.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's has no annotations
        self.table = table
        self.asset_name = asset_name
        self.lake_conn_id = lake_conn_id
        self.branch = branch
        self.poll_interval = poll_interval
        self.min_added_rows = min_added_rows
        self.min_interval = min_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments, by which Airflow tells trigger rows apart."""
        names = ("table", "asset_name", "lake_conn_id", "branch", "poll_interval", "min_added_rows", "min_interval")
        return f"{_PATH}.LakeSnapshotEventTrigger", {name: getattr(self, name) for name in names}

    @property
    def watermark_key(self) -> str:
        """Key in the asset's state; an asset may be watched on two branches."""
        return f"lake.snapshot/{self.lake_conn_id}/{self.table}/{self.branch}"

    async def run(self) -> AsyncGenerator[TriggerEvent, None]:
        """Yield an event for each change, without end."""
        pause = default_poll_interval() if self.poll_interval is None else self.poll_interval
        threshold = EventThreshold(
            min_added_rows=self.min_added_rows, min_interval=timedelta(seconds=self.min_interval)
        )
        poller = SnapshotPoller(table=self.table, lake_conn_id=self.lake_conn_id, branch=self.branch, log=self.log)
        store = WatermarkStore(self.asset_state_store, self.watermark_key, self.log)
        mark = await store.read()
        judge = partial(decide, threshold=threshold)
        while True:
            # Whatever fails is waited out: a watcher that raises is started again every second, for ever.
            head = await poller.look_until_answered(lambda _: True)
            now = datetime.now(UTC)
            answer = judge(head, Since(snapshot_id=mark.snapshot_id), last_event_at=mark.event_at, now=now)
            if isinstance(answer, NewSnapshot):
                mark = Watermark(answer.snapshot_id, now)
                yield _event(answer.to_payload(self.table, self.branch))
                store.write_later(mark, after_event=True)
            elif answer.seen not in (None, mark.snapshot_id):
                mark = replace(mark, snapshot_id=answer.seen)
                store.write_later(mark, after_event=False)
            await store.rest(pause)


def _event(payload: dict[str, Any]) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]  # Airflow's has no annotations
