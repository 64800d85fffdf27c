"""Triggers that see new snapshots of a lake table: one for a deferred task, one for an AssetWatcher."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from airflow_lake_provider.contracts.errors import BrokenMetadataError, LakeProviderError
from airflow_lake_provider.tables.detect_new_snapshot import (
    EventThreshold,
    NewSnapshot,
    NoNewSnapshot,
    SkipReason,
    TableHead,
    decide,
)
from airflow_lake_provider.tables.watermark import Since, Watermark
from airflow_lake_provider.triggers.catalog_poller import subscribed
from airflow_lake_provider.triggers.table_queue import Subscription
from airflow_lake_provider.triggers.watch_settings import DEFAULT_CONNECTION, default_poll_interval, seconds_of
from airflow_lake_provider.triggers.watcher_conflicts import watched_once
from airflow_lake_provider.triggers.watermark_store import AssetState, StoredEvent, WatermarkStore

if TYPE_CHECKING:
    from airflow.triggers.shared_stream import SharedStreamProducer


_PATH = "airflow_lake_provider.triggers.lake_snapshot"


class LakeSnapshotTrigger(BaseTrigger):
    """Wait for a new snapshot of one table and end: what a deferred LakeSnapshotSensor waits on.

    Its event is ``{"status": "success", "payload": {...}}``, ``{"status": "timeout"}``, or ``{"status": "error",
    "error": <class in contracts.errors or other>, "message": ...}`` for an error that waiting does not mend.

    :param table: ``namespace.table``.
    :param lake_conn_id: connection of type ``iceberg``.
    :param branch: branch to look at.
    :param since: snapshot id, ``snapshot:<id>`` where ids are no numbers, or ISO-8601 time with a zone, after which
        commits count; None takes ``consumer``.
    :param consumer: consumer whose cursor on the table counts; neither means any snapshot.
    :param min_added_rows: commits are collected until they added this many rows.
    :param poll_interval: seconds, timedelta or ISO-8601 text; None means ``[lake] snapshot_poll_interval``.
    :param deadline: seconds since 1970 at which waiting ends; None leaves that to Airflow, whose ``dag.test()`` knows
        no time limit of a deferral.
    :raises InvalidSpecError: the interval is none.
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
        poll_interval: timedelta | float | str | None = None,
        deadline: float | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's has no annotations
        self.table = table
        self.lake_conn_id = lake_conn_id
        self.branch = branch
        self.since = since
        self.consumer = consumer
        self.min_added_rows = min_added_rows
        # One poller looks for all triggers of a catalog, and would fail by what it cannot compare.
        self.poll_interval = None if poll_interval is None else seconds_of(poll_interval, "poll_interval")
        self.deadline = deadline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments."""
        names = ("table", "lake_conn_id", "branch", "since", "consumer", "min_added_rows", "poll_interval", "deadline")
        return f"{_PATH}.LakeSnapshotTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncGenerator[TriggerEvent, None]:
        """Yield one event."""
        left = None if self.deadline is None else self.deadline - time.time()
        try:
            async with asyncio.timeout(left) as limit:
                new_snapshot = await self._wait_for_new_snapshot()
        except Exception as error:  # noqa: BLE001  the waiting task is to fail with it, not the triggerer
            error_event = {"status": "error", "error": type(error).__name__, "message": str(error)}
            yield _event({"status": "timeout"} if limit.expired() else error_event)
        else:
            yield _event({"status": "success", "payload": new_snapshot.to_payload(self.table, self.branch)})

    async def _wait_for_new_snapshot(self) -> NewSnapshot:
        since = Since.parse(self.since) if self.since is not None else Since(consumer=self.consumer)
        threshold = EventThreshold(min_added_rows=self.min_added_rows)
        with subscribed(self.lake_conn_id, self.table, self.branch, _interval(self.poll_interval)) as subscription:
            while True:
                head = await self._next_head(subscription)
                answer = await decide_aside(head, since, threshold=threshold)
                if isinstance(answer, NewSnapshot):
                    return answer

    async def _next_head(self, subscription: Subscription) -> TableHead:
        is_logged = False
        while True:
            try:
                head = await subscription.next()
            except Exception as error:
                if not _may_pass(error):
                    raise
                if not is_logged:
                    self.log.warning("%s: cannot look at the table and will keep trying: %s", self.table, error)
                is_logged = True
            else:
                if head is not None:
                    return head


class LakeSnapshotEventTrigger(BaseEventTrigger):
    """Make an asset event of every change of a table's rows, for as long as a DAG is scheduled on the asset.

    The payload has the keys of Airflow's own Iceberg trigger (``table, branch, snapshot_id, previous_snapshot_id``) and
    more. An event is made at least once: its watermark is written after Airflow stored it. A triggerer that is killed
    between the two repeats the event when it is back.

    :param table: ``namespace.table``.
    :param asset_name: name of the asset this watches for. Airflow merges triggers of equal arguments into one row, and
        a row shared by two assets has no watermark.
    :param lake_conn_id: connection of type ``iceberg``.
    :param branch: branch to watch.
    :param poll_interval: seconds, timedelta or ISO-8601 text; None means ``[lake] snapshot_poll_interval``.
    :param min_added_rows: commits are collected until they added this many rows. A rollback counts at any size.
    :param min_interval: least time between two events, likewise given; what is committed meanwhile is in the next one.
    :raises InvalidSpecError: an interval is none.
    """

    def __init__(
        self,
        *,
        table: str,
        asset_name: str,
        lake_conn_id: str = DEFAULT_CONNECTION,
        branch: str = "main",
        poll_interval: timedelta | float | str | None = None,
        min_added_rows: int = 0,
        min_interval: timedelta | float | str = 0.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's has no annotations
        self.table = table
        self.asset_name = asset_name
        self.lake_conn_id = lake_conn_id
        self.branch = branch
        self.poll_interval = None if poll_interval is None else seconds_of(poll_interval, "poll_interval")
        self.min_added_rows = min_added_rows
        self.min_interval = seconds_of(min_interval, "min_interval")

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments, by which Airflow tells trigger rows apart."""
        names = ("table", "asset_name", "lake_conn_id", "branch", "poll_interval", "min_added_rows", "min_interval")
        return f"{_PATH}.LakeSnapshotEventTrigger", {name: getattr(self, name) for name in names}

    @property
    def watermark_key(self) -> str:
        """Key in the asset's state; an asset may be watched on two branches."""
        return f"lake.snapshot/{self.lake_conn_id}/{self.table}/{self.branch}"

    def shared_stream_key(self) -> str:
        """Return a key that no other watcher has: the stream is there to hear which events were stored."""
        return json.dumps(self.serialize()[1], sort_keys=True)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """Return the source of the events of the watcher with these arguments."""
        # Newer than the oldest Airflow whose workers can import this module.
        from airflow_lake_provider.triggers.watermark_store import WatcherStream

        return WatcherStream(cls(**kwargs).events)

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncGenerator[TriggerEvent, None]:
        """Yield the events of the stream; this is what a triggerer runs."""
        from airflow_lake_provider.triggers.watermark_store import StateRequest

        with watched_once(self.asset_name, self.serialize()[1]):
            async for item in shared_stream:
                if isinstance(item, StateRequest):
                    item.answer(self.asset_state_store)
                else:
                    yield _event(item)

    async def run(self) -> AsyncGenerator[TriggerEvent, None]:
        """Yield an event for each change, where nobody tells when it was stored: it counts as stored at once."""
        async with aclosing(self.events(self.asset_state_store)) as events:
            async for payload, stored in events:
                yield _event(payload)
                stored.confirm()

    async def events(self, state: AssetState | None) -> AsyncGenerator[tuple[dict[str, Any], StoredEvent], None]:
        """Yield the payload of each event, without end, with what is to be told when Airflow stored it.

        :param state: of the asset; keeps the watermark.
        """
        threshold = EventThreshold(
            min_added_rows=self.min_added_rows, min_interval=timedelta(seconds=self.min_interval)
        )
        with (
            closing(WatermarkStore(state, self.watermark_key, self.log)) as store,
            subscribed(self.lake_conn_id, self.table, self.branch, _interval(self.poll_interval)) as subscription,
        ):
            async for answer, mark in _judge(subscription, await store.read(), threshold):
                if isinstance(answer, NewSnapshot):
                    stored = StoredEvent()
                    store.write_later(mark, stored)
                    yield answer.to_payload(self.table, self.branch), stored
                else:
                    store.write_later(mark, None)


async def _judge(
    subscription: Subscription, mark: Watermark, threshold: EventThreshold
) -> AsyncGenerator[tuple[NewSnapshot | NoNewSnapshot, Watermark], None]:
    """Yield each answer that moves the watermark, with the watermark after it."""
    head: TableHead | None = None
    while True:
        # Only a threshold of time is passed without another commit. Looks that fail do not begin the wait anew.
        wait = None if head is None else _until(mark, threshold, datetime.now(UTC))
        try:
            head = await subscription.next(within=wait) or head
        except Exception:  # noqa: BLE001, S112  the poller says so, and a watcher that raises is started each second
            continue
        if head is None:
            continue
        now = datetime.now(UTC)
        since = Since(snapshot_id=mark.snapshot_id)
        try:
            answer = await decide_aside(head, since, threshold=threshold, last_event_at=mark.event_at, now=now)
        except BrokenMetadataError:
            head = None  # the next look says so
            continue
        is_too_soon = isinstance(answer, NoNewSnapshot) and answer.reason is SkipReason.TOO_SOON
        head = head if is_too_soon else None
        if isinstance(answer, NewSnapshot):
            mark = Watermark(answer.snapshot_id, now)
            yield answer, mark
        elif answer.seen not in (None, mark.snapshot_id):
            mark = replace(mark, snapshot_id=answer.seen)
            yield answer, mark


def _until(mark: Watermark, threshold: EventThreshold, now: datetime) -> float:
    past = now - (mark.event_at or now)
    return max(0.0, (threshold.min_interval - past).total_seconds())


def _interval(seconds: float | None) -> float:
    return default_poll_interval() if seconds is None else seconds


def _may_pass(error: BaseException) -> bool:
    """Return whether the same look may succeed later."""
    if isinstance(error, LakeProviderError):
        return error.retry_may_help
    return isinstance(error, OSError)


def _event(payload: dict[str, Any]) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]  # Airflow's has no annotations


# A decision about that many takes a millisecond at most, less than a thread is worth.
_MOST_AT_ONCE = 150


async def decide_aside(head: TableHead, since: Since, **arguments: Any) -> NewSnapshot | NoNewSnapshot:
    """Return what :func:`decide` returns, without keeping the event loop.

    :param arguments: of ``decide``.
    :raises BrokenMetadataError: the history goes in a circle.
    """
    if len(head.snapshots) <= _MOST_AT_ONCE:
        return decide(head, since, **arguments)
    return await asyncio.to_thread(decide, head, since, **arguments)
