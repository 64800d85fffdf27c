"""Look at all watched tables of a catalog: one poller for each catalog in a triggerer, shared by its triggers."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from airflow_lake_provider.contracts.errors import CatalogUnavailableError, InvalidConnectionError, MissingTableError
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.triggers.overdue_alarm import CHECK_SECONDS, OverdueAlarm
from airflow_lake_provider.triggers.poll_threads import PollThreads
from airflow_lake_provider.triggers.table_queue import Subscription, TableQueue, WatchedTable
from airflow_lake_provider.triggers.watch_settings import look_timeout, most_looks, overdue_intervals

if TYPE_CHECKING:
    from airflow_lake_provider.tables.base import MetadataVersion
    from airflow_lake_provider.triggers.poll_threads import ChangedTable


log = logging.getLogger(__name__)

# Looks that were given up stay in threads of their own, at most that many.
MOST_ABANDONED = 8
# A look that hangs while the catalog answers others is given up at its timeout, any other one after that many of them.
TIMEOUTS_UNTIL_ABANDONED = 10
LONGEST_PAUSE_SECONDS = 30.0


class NoAnswerError(CatalogUnavailableError):
    """A look hangs. Connections stay as they are: a second set of them would wait, too."""


class Looks(Protocol):
    """Methods that are used of ``PollThreads``."""

    def start(
        self, table: str, branches: Iterable[str], seen: MetadataVersion | None
    ) -> asyncio.Future[ChangedTable | None]:
        """Look at a table."""

    def reopen(self) -> None:
        """Read the connection anew."""


@dataclass(eq=False)
class _Look:
    table: WatchedTable
    started: float
    abandoned: asyncio.Event = field(default_factory=asyncio.Event)


class CatalogPoller:
    """Look at the watched tables of one catalog, each at a phase of its own within its interval.

    After a failed look, one look at a time probes the catalog until one is answered. A look that hangs keeps its
    connection until it ends or is given up, and its table is not looked at again before it ends.

    :param looks: looks at tables.
    :param connections: looks at once; the last one is kept to probe a catalog whose other looks hang.
    :param timeout: seconds after which a look counts as failed.
    :param phase: of a new table, from 0 to 1.
    """

    def __init__(
        self,
        looks: Looks,
        alarm: OverdueAlarm,
        *,
        connections: int,
        timeout: float,
        phase: Callable[[], float] = random.random,
    ) -> None:
        self._looks = looks
        self._alarm = alarm
        self._connections = connections
        self._timeout = timeout
        self._phase = phase
        self._tables = TableQueue()
        self._running: dict[_Look, asyncio.Task[None]] = {}
        self._abandoned = 0
        self._failures = 0
        self._answered_start = float("-inf")
        self._probe_at = float("-inf")
        self._wake = asyncio.Event()
        self._runner: asyncio.Task[None] | None = None

    def subscribe(self, table: str, branch: str, interval: float) -> Subscription:
        """Look at a table from now on, at once for the first time.

        :param table: ``namespace.table``.
        :param interval: seconds between two looks; of several for one table the shortest counts.
        :raises InvalidSpecError: the name is malformed.
        """
        subscription = Subscription(branch, interval)
        self._tables.add(str(TableName.parse(table)), subscription, self._now(), self._phase())
        if self._runner is None:
            # In a context of its own: what it logs belongs to no single trigger.
            self._runner = asyncio.create_task(self._run(), name="catalog-poller", context=contextvars.Context())
        self._wake.set()
        return subscription

    def unsubscribe(self, table: str, subscription: Subscription) -> None:
        """End a subscription; with the last one the poller stops."""
        name = str(TableName.parse(table))
        self._tables.remove(name, subscription)
        if name not in self._tables.watched:
            self._alarm.forget(name)
        if self.is_idle and self._runner is not None:
            self._runner.cancel()
            self._runner = None

    @property
    def is_idle(self) -> bool:
        """True where no table is watched."""
        return not self._tables.watched

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except Exception:
                # All watchers of the catalog hang on this loop, and nobody would start it again.
                log.exception("The poller failed, which is a fault of its own; it goes on")
                await asyncio.sleep(CHECK_SECONDS)

    async def _round(self) -> None:
        self._wake.clear()
        now = self._now()
        while self._may_begin(now) and (table := self._tables.pop_due(now)) is not None:
            self._begin(table, now)
        self._alarm.check(self._tables.watched.values(), now, hanging=self._abandoned + self._hanging(now))
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause(now)):
                await self._wake.wait()

    def _may_begin(self, now: float) -> bool:
        free = self._connections - len(self._running)
        if self._failures:
            return free > 0 and now >= max(self._probe_at, self._next_probe())
        return free > (1 if self._connections > 1 else 0)

    def _next_probe(self) -> float:
        """Return the moment from which another probe may begin beside one that is not answered yet.

        Probes of a silent catalog take all connections in turn, and each is given back at its timeout.
        """
        in_turn = self._timeout / max(1, self._connections - 1)
        wait = min(self._timeout, max(in_turn, self._tables.shortest_interval()))
        return max((look.started for look in self._running), default=float("-inf")) + wait

    def _hanging(self, now: float) -> int:
        return sum(now - look.started >= self._timeout for look in self._running)

    def _pause(self, now: float) -> float:
        due = self._tables.next_due()
        probe_at = self._probe_at if self._failures else now
        if due is None or not self._may_begin(max(now, probe_at)):
            next_probe = self._next_probe() if self._failures else now
            # Or until a look ends, which wakes.
            return min(next_probe - now, CHECK_SECONDS) if next_probe > now else CHECK_SECONDS
        return min(max(due, probe_at) - now, CHECK_SECONDS)

    def _begin(self, table: WatchedTable, now: float) -> None:
        table.looking = True
        look = _Look(table, now)
        self._running[look] = asyncio.create_task(self._look(look))

    async def _look(self, look: _Look) -> None:
        try:
            await self._looked(look)
        except Exception as error:
            # Nobody waits for this task, and nobody else would look at the table again.
            log.exception("%s: a look failed by a fault of the poller itself; the next one comes", look.table.name)
            self._running.pop(look, None)
            look.table.looking, look.table.error = False, error
            self._push(look.table, None)
            self._wake.set()

    async def _looked(self, look: _Look) -> None:
        table = look.table
        answer = self._looks.start(table.name, table.branches, table.seen)
        await asyncio.wait({answer}, timeout=self._timeout)
        if not answer.done():
            self._failed(look, NoAnswerError(f"{table.name}: no answer within {self._timeout:g} s"))
            self._wake.set()
            await self._wait_or_abandon(look, answer)
        del self._running[look]
        table.looking = False
        self._wake.set()
        if answer.done():
            self._finish(look, answer)
            return
        # Another look at this table would hang beside the first one.
        self._abandoned += 1
        answer.add_done_callback(lambda _: self._end_abandoned(table, answer))

    async def _wait_or_abandon(self, look: _Look, answer: asyncio.Future[ChangedTable | None]) -> None:
        given_up = asyncio.ensure_future(look.abandoned.wait())
        either: set[asyncio.Future[Any]] = {answer, given_up}
        try:
            longest = self._timeout * TIMEOUTS_UNTIL_ABANDONED
            await asyncio.wait(either, timeout=longest, return_when=asyncio.FIRST_COMPLETED)
        finally:
            given_up.cancel()
        while not answer.done() and self._abandoned >= MOST_ABANDONED:
            await asyncio.wait({answer}, timeout=self._timeout)

    def _end_abandoned(self, table: WatchedTable, answer: asyncio.Future[ChangedTable | None]) -> None:
        self._abandoned -= 1
        if not answer.cancelled():
            answer.exception()  # without this, asyncio reports that nobody looked
        if not table.looking:
            self._push(table, self._now())

    def _finish(self, look: _Look, answer: asyncio.Future[ChangedTable | None]) -> None:
        table, now = look.table, self._now()
        error = answer.exception()
        if error is None:
            table.answered(answer.result(), now)
        elif isinstance(error, MissingTableError):
            table.not_found(now)
        else:
            is_of_catalog = self._failed(look, error if isinstance(error, Exception) else RuntimeError(repr(error)))
            self._push(table, now if is_of_catalog else None)
            return
        self._answered(look)
        if table.is_served:
            self._push(table, None)
        else:  # a subscription came while the look ran
            table.seen = None
            self._push(table, now)

    def _push(self, table: WatchedTable, due: float | None) -> None:
        """Let a table wait for its next look, until the next slot where ``due`` is None."""
        if self._tables.watched.get(table.name) is table:
            self._tables.push(table, table.next_slot(self._now()) if due is None else due)
            self._wake.set()

    def _answered(self, look: _Look) -> None:
        self._alarm.say_answered(look.table, self._failures)
        self._failures = 0
        self._answered_start = max(self._answered_start, look.started)
        now = self._now()
        for other in self._running:
            if other.started <= look.started and now - other.started >= self._timeout:
                other.abandoned.set()

    def _failed(self, look: _Look, error: Exception) -> bool:
        """Take note of an error, and tell whether it says something of the whole catalog.

        Some catalogs answer 500 for a table that they have lost. Where the catalog has answered for another table
        since, the error is the table's own.
        """
        is_of_catalog = (
            isinstance(error, (CatalogUnavailableError, InvalidConnectionError))
            and look.started >= self._answered_start
            and look.table.failed_at >= self._answered_start
        )
        look.table.failed_at = look.started
        if is_of_catalog:
            self._failures += 1
            pause = 0.0 if self._failures == 1 else 2.0 ** min(self._failures - 2, 10)
            # A catalog that answers again is noticed within the interval of its tables.
            self._probe_at = self._now() + min(pause, LONGEST_PAUSE_SECONDS, self._tables.shortest_interval())
            if self._failures > 1 and not isinstance(error, NoAnswerError):
                self._looks.reopen()
        self._alarm.say_failed(look.table, error, of_catalog=is_of_catalog)
        # A connection that is wrong is wrong for all tables, and deferred tasks are to fail now.
        is_of_all = is_of_catalog and isinstance(error, InvalidConnectionError)
        for table in list(self._tables.watched.values()) if is_of_all else [look.table]:
            table.failed(error)
        return is_of_catalog

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


# Triggers of one process run in one loop; a test has one of its own.
_pollers: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Shared]] = WeakKeyDictionary()


class _Shared:
    """The poller of a catalog, and the threads that it looks with."""

    def __init__(self, lake_conn_id: str) -> None:
        self.looks = PollThreads(lake_conn_id)
        self.poller = CatalogPoller(
            self.looks,
            OverdueAlarm(lake_conn_id, overdue_intervals()),
            connections=most_looks(),
            timeout=look_timeout(),
        )


@contextmanager
def subscribed(lake_conn_id: str, table: str, branch: str, interval: float) -> Iterator[Subscription]:
    """Subscribe to a table's heads with the poller of its catalog.

    The last one to leave closes the catalog. The poller stays: looks that hang go on counting.

    :param interval: seconds between two looks.
    :raises InvalidSpecError: for a malformed name, and for a setting that is not above 0.
    """
    of_loop = _pollers.setdefault(asyncio.get_running_loop(), {})
    shared = of_loop.get(lake_conn_id)
    if shared is None:
        shared = of_loop[lake_conn_id] = _Shared(lake_conn_id)
    subscription = shared.poller.subscribe(table, branch, interval)
    try:
        yield subscription
    finally:
        shared.poller.unsubscribe(table, subscription)
        if shared.poller.is_idle:
            shared.looks.close()
