"""Queue watched tables by the moment of their next look, each with the triggers that wait for it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_lake_provider.tables.detect_new_snapshot import TableHead

if TYPE_CHECKING:
    from airflow_lake_provider.tables.base import MetadataVersion
    from airflow_lake_provider.triggers.poll_threads import ChangedTable


# An interval of 0 would be a loop without a pause.
_SHORTEST_INTERVAL = 0.01


@dataclass(eq=False)
class WatchedTable:
    """A table and the triggers that watch it.

    :param phase: place of its looks within its interval, from 0 to 1: looks at many tables spread over the interval.
    :param looked_at: when the catalog last answered a look; at first, when the table was added.
    :param seen: version of its metadata then.
    :param missing: the table or a branch did not exist then.
    :param error: of a look since then.
    :param failed_at: when such a look began, the newest one.
    """

    name: str
    phase: float
    looked_at: float
    subscriptions: list[Subscription] = field(default_factory=list)
    seen: MetadataVersion | None = None
    missing: str | None = None
    error: Exception | None = None
    failed_at: float = math.inf
    looking: bool = False
    entry: int = -1

    @property
    def branches(self) -> tuple[str, ...]:
        """Branches that are watched, without repeats."""
        return tuple(dict.fromkeys(subscription.branch for subscription in self.subscriptions))

    @property
    def interval(self) -> float:
        """Seconds between two looks: the shortest that a subscription asks for."""
        return max(_SHORTEST_INTERVAL, min(s.interval for s in self.subscriptions))

    @property
    def is_served(self) -> bool:
        """True where every subscription has had a head."""
        return all(subscription.has_head for subscription in self.subscriptions)

    def next_slot(self, now: float) -> float:
        """Return the first moment of its phase after ``now``; two of them are never further apart than the interval."""
        interval = self.interval
        return (math.floor(now / interval - self.phase) + 1 + self.phase) * interval

    def answered(self, changed: ChangedTable | None, now: float) -> None:
        """Hand heads over; None where nothing changed."""
        self._answered(now)
        if changed is None:
            return
        self.seen = changed.version
        self.missing = None
        for subscription in self.subscriptions:
            if subscription.branch in changed.heads:
                self._hand_over(subscription, changed.heads[subscription.branch])

    def not_found(self, now: float) -> None:
        """Tell that the table does not exist: it has no head."""
        self._answered(now)
        self.seen = None
        self.missing = f"table {self.name}"
        for subscription in self.subscriptions:
            subscription.put(TableHead(head=None))

    def _answered(self, now: float) -> None:
        self.looked_at = now
        self.error = None
        self.failed_at = math.inf

    def failed(self, error: Exception) -> None:
        """Hand the error of a look over."""
        self.error = error
        for subscription in self.subscriptions:
            subscription.put(error)

    def _hand_over(self, subscription: Subscription, head: TableHead) -> None:
        if head.head is None and (head.snapshots or subscription.branch != "main"):
            self.missing = f"branch {subscription.branch!r} of table {self.name}"
        subscription.put(head)


class TableQueue:
    """Watched tables by name, and those that wait for a look in its order."""

    def __init__(self) -> None:
        self.watched: dict[str, WatchedTable] = {}
        self._heap: list[tuple[float, int, WatchedTable]] = []
        self._entries = itertools.count()

    def add(self, name: str, subscription: Subscription, now: float, phase: float) -> None:
        """Add a subscription; its table is due at once, and loaded whole."""
        table = self.watched.get(name)
        if table is None:
            table = self.watched[name] = WatchedTable(name, phase, looked_at=now)
        table.subscriptions.append(subscription)
        table.seen = None
        if not table.looking:
            self.push(table, now)

    def remove(self, name: str, subscription: Subscription) -> None:
        """Remove a subscription, and its table with the last one."""
        table = self.watched.get(name)
        if table is None or subscription not in table.subscriptions:
            return
        table.subscriptions.remove(subscription)
        if not table.subscriptions:
            del self.watched[name]

    def push(self, table: WatchedTable, due: float) -> None:
        """Let a table wait for a look, in place of one that it waits for already."""
        table.entry = next(self._entries)
        heapq.heappush(self._heap, (due, table.entry, table))

    def shortest_interval(self) -> float:
        """Return the shortest interval of the watched tables, in seconds; without any, an endless one."""
        return min((table.interval for table in self.watched.values()), default=math.inf)

    def next_due(self) -> float | None:
        """Return the moment of the next look; None where no table waits."""
        while self._heap and not self._is_valid(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> WatchedTable | None:
        """Return the table that waited longest for its look; None where none is due."""
        due = self.next_due()
        if due is None or due > now:
            return None
        table = heapq.heappop(self._heap)[2]
        table.entry = -1
        return table

    def _is_valid(self, item: tuple[float, int, WatchedTable]) -> bool:
        _, entry, table = item
        return table.entry == entry and self.watched.get(table.name) is table


class Subscription:
    """Hold the newest head until the trigger takes it."""

    def __init__(self, branch: str, interval: float) -> None:
        self.branch = branch
        self.interval = interval
        self.has_head = False
        self._newest: TableHead | Exception | None = None
        self._arrived = asyncio.Event()

    async def next(self, within: float | None = None) -> TableHead | None:
        """Return the newest head that was not returned before; None where there is none within that many seconds.

        Only heads of changed metadata arrive, and the newest takes the place of those before it.

        :raises Exception: of a look that failed since the last call.
        """
        try:
            async with asyncio.timeout(within):
                await self._arrived.wait()
        except TimeoutError:
            return None
        self._arrived.clear()
        newest, self._newest = self._newest, None
        if isinstance(newest, Exception):
            raise newest
        return newest

    def put(self, newest: TableHead | Exception) -> None:
        """Hand over what a look found; a head that waits is not replaced by an error."""
        if isinstance(newest, TableHead):
            self.has_head = True
        elif isinstance(self._newest, TableHead):
            return
        self._newest = newest
        self._arrived.set()
