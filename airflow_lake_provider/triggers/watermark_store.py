"""Keeps a watcher's watermark in Airflow's asset state store, never ahead of the events that Airflow has stored."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.tables.watermark import Watermark

# An event that Airflow drops, because its watcher is about to end, looks like a stored one. The watcher is told to end
# within one more round of the triggerer, of about a second.
DELAY_SECONDS = 5.0
# Between two tries to write a watermark: each doubles the pause, up to the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0


class AssetState(Protocol):
    """Methods that are used of Airflow's ``AssetStateStoreAccessors``."""

    def get(self, key: str) -> object:
        """Return the value, or None."""

    def set(self, key: str, value: str) -> object:
        """Write the value."""


class Log(Protocol):
    """Methods that are used of the logger of a trigger or a sensor, whose types differ."""

    def info(self, event: str, /, *args: Any) -> Any:
        """Say what goes on."""

    def warning(self, event: str, /, *args: Any) -> Any:
        """Say what somebody should look at."""


class StoredEvent:
    """Hold when Airflow stored an event."""

    def __init__(self) -> None:
        self._stored: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def confirm(self) -> None:
        """Note that the event is stored."""
        if not self._stored.done():
            self._stored.set_result(asyncio.get_running_loop().time())

    async def wait(self, delay: float) -> None:
        """Wait until that many seconds after the event was stored."""
        stored_at = await asyncio.shield(self._stored)
        await asyncio.sleep(max(0.0, stored_at + delay - asyncio.get_running_loop().time()))


class WatermarkStore:
    """Read the watermark once, and write it a while after the event it belongs to was stored.

    :param state: None where Airflow gave the trigger no store: nothing survives a restart then.
    :param key: of the watermark in the asset's state.
    :param delay: seconds between a stored event and its watermark.
    :param pause: seconds after a first try to write it.
    """

    def __init__(
        self,
        state: AssetState | None,
        key: str,
        log: Log,
        *,
        delay: float = DELAY_SECONDS,
        pause: float = _FIRST_PAUSE,
    ) -> None:
        self._state = state
        self._key = key
        self._log = log
        self._delay = delay
        self._pause = pause
        self._pending: deque[tuple[Watermark, StoredEvent | None]] = deque()
        self._writer: asyncio.Task[None] | None = None

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

    def write_later(self, watermark: Watermark, event: StoredEvent | None) -> None:
        """Queue a watermark; they are written in this order, and none after :meth:`close`.

        :param event: that it belongs to; None for a watermark that moves without an event.
        """
        if self._state is None:
            return
        self._pending.append((watermark, event))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_pending())

    def close(self) -> None:
        """Forget what is not written: the watcher that comes next repeats those events."""
        if self._writer is not None:
            self._writer.cancel()

    async def _write_pending(self) -> None:
        while self._pending:
            watermark, event = self._pending[0]
            if event is not None:
                await event.wait(self._delay)
            await self._write(watermark)
            self._pending.popleft()
        self._writer = None

    async def _write(self, watermark: Watermark) -> None:
        """Write a watermark, again until Airflow has taken it: without it, the next triggerer repeats the event."""
        pause = self._pause
        while self._state is not None:
            try:
                await asyncio.to_thread(self._state.set, self._key, watermark.to_text())
            # Whatever it is, a watcher that raises would be started anew each second.
            except Exception as error:  # noqa: BLE001
                self._log.warning(
                    "The watermark %s was not stored, and will be in %g s: %s", watermark.to_text(), pause, error
                )
            else:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


Events = AsyncGenerator[tuple[dict[str, Any], StoredEvent], None]


class StateRequest:
    """Ask the trigger for what Airflow gave it, and its source lacks: the asset's state."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[AssetState | None] = asyncio.get_running_loop().create_future()

    def answer(self, state: AssetState | None) -> None:
        """Hand the asset's state over."""
        if not self._answer.done():
            self._answer.set_result(state)

    async def wait(self) -> AssetState | None:
        """Return the asset's state when it was handed over."""
        return await self._answer


class WatcherStream(SharedStreamProducer):
    """Yield the events of one watcher, and confirm those that Airflow stored.

    :param events: makes the watcher's events, given the asset's state.
    """

    def __init__(self, events: Callable[[AssetState | None], Events]) -> None:
        self._events = events

    async def open_stream(self) -> AsyncGenerator[tuple[Any, StoredEvent | None], None]:
        """Yield a request for the asset's state, and then payloads."""
        request = StateRequest()
        yield request, None
        async with aclosing(self._events(await request.wait())) as events:
            async for payload, event in events:
                yield payload, event

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Confirm events; one that Airflow failed to store is made again by the watcher that comes next."""
        for item in batch:
            if item.broker_payload is not None and item.outcome.is_clean:
                item.broker_payload.confirm()
