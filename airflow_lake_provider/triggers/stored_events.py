"""Hear from Airflow when an event of a watcher was stored.

Airflow tells it to triggers with a shared stream: their source is told when all that was made of an item is in the
database. Each watcher has such a stream to itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from airflow_lake_provider.triggers.watermark_store import AssetState, StoredEvent

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
