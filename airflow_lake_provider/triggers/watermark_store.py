"""Keeps a watcher's watermark in Airflow's asset state store, never ahead of the events."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Protocol

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.new_snapshot import Watermark
from airflow_lake_provider.triggers.snapshot_poller import Log

# An event leaves the trigger into memory; the triggerer stores it within its next two rounds of a second each.
DELAY_SECONDS = 5.0


class AssetState(Protocol):
    """Methods that are used of Airflow's ``AssetStateStoreAccessors``."""

    def get(self, key: str) -> object:
        """Return the value, or None."""

    def set(self, key: str, value: str) -> object:
        """Write the value."""


class WatermarkStore:
    """Read the watermark once, and write it a while after the event it belongs to.

    :param state: None where Airflow gave the trigger no store: nothing survives a restart then.
    :param key: of the watermark in the asset's state.
    :param delay: seconds between an event and its watermark.
    """

    def __init__(self, state: AssetState | None, key: str, log: Log, *, delay: float = DELAY_SECONDS) -> None:
        self._state = state
        self._key = key
        self._log = log
        self._delay = delay
        self._pending: deque[tuple[float, Watermark]] = deque()

    async def read(self) -> Watermark:
        """Return the stored watermark, or an empty one."""
        if self._state is None:
            return Watermark()
        try:
            text = await asyncio.to_thread(self._state.get, self._key)
        except ValueError as error:
            # Airflow's store serves one asset and refuses when a trigger row is shared by several.
            self._log.warning("No watermark is kept, so a restart may repeat the last event: %s", error)
            self._state = None
            return Watermark()
        try:
            return Watermark.parse(str(text)) if text is not None else Watermark()
        except InvalidSpecError as error:
            self._log.warning("Starting as on a first look, what is stored under %r is not ours: %s", self._key, error)
            return Watermark()

    def write_later(self, watermark: Watermark, *, after_event: bool) -> None:
        """Queue a watermark; they are written in this order.

        :param after_event: an event was just made, so wait until Airflow has stored it.
        """
        due = time.monotonic() + (self._delay if after_event else 0.0)
        latest = self._pending[-1][0] if self._pending else due
        self._pending.append((max(due, latest), watermark))

    async def rest(self, seconds: float) -> None:
        """Sleep, and write what falls due meanwhile."""
        end = time.monotonic() + seconds
        while self._pending and self._pending[0][0] <= end:
            due, watermark = self._pending[0]
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self._write(watermark)
            self._pending.popleft()
        await asyncio.sleep(max(0.0, end - time.monotonic()))

    async def _write(self, watermark: Watermark) -> None:
        if self._state is None:
            return
        try:
            await asyncio.to_thread(self._state.set, self._key, watermark.to_text())
        except Exception as error:  # noqa: BLE001  any failure costs a repeated event, raising would cost the watcher
            self._log.warning("The watermark %s was not stored: %s", watermark.to_text(), error)
