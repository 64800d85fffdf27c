"""A catalog that commits, fails and hangs at given moments of a loop's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from airflow_lake_provider.contracts.errors import CatalogUnavailableError, MissingTableError
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.tables.base import MetadataVersion
from airflow_lake_provider.tables.detect_new_snapshot import TableHead
from airflow_lake_provider.triggers.poll_threads import ChangedTable

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class SimulatedCatalog:
    """Looks at tables in memory.

    :param commits: of each table, the moments of its commits; the n-th makes snapshot n. A table is there from the
        beginning, unless it is not named.
    :param outages: pairs of begin and end in which looks fail.
    :param hangs: pairs of begin and end; a look that begins inside is answered at the end.
    :param hanging_tables: those that hang; None for all.
    :param lost: tables for which it answers as a server that has failed.
    :param latency: seconds that an answer takes.
    """

    commits: dict[str, list[float]]
    outages: list[tuple[float, float]] = field(default_factory=list)
    hangs: list[tuple[float, float]] = field(default_factory=list)
    hanging_tables: set[str] | None = None
    lost: set[str] = field(default_factory=set)
    latency: float = 0.01
    looks: list[tuple[float, str]] = field(default_factory=list)
    running: int = 0
    most_running: int = 0
    reopened: int = 0
    loaded: int = 0
    tasks: set[asyncio.Task[ChangedTable | None]] = field(default_factory=set)

    def start(
        self, table: str, branches: Iterable[str], seen: MetadataVersion | None
    ) -> asyncio.Future[ChangedTable | None]:
        look = asyncio.create_task(self._look(table, tuple(branches), seen))
        self.tasks.add(look)
        look.add_done_callback(self.tasks.discard)
        return look

    def end_looks(self) -> None:
        """End the looks that run, as threads end with their process."""
        for look in self.tasks:
            look.cancel()

    def reopen(self) -> None:
        self.reopened += 1

    async def _look(self, table: str, branches: tuple[str, ...], seen: MetadataVersion | None) -> ChangedTable | None:
        now = asyncio.get_running_loop().time()
        self.looks.append((now, table))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            return await self._answer(table, branches, seen, now)
        finally:
            self.running -= 1

    async def _answer(
        self, table: str, branches: tuple[str, ...], seen: MetadataVersion | None, now: float
    ) -> ChangedTable | None:
        if any(begin <= now < end for begin, end in self.outages):
            raise CatalogUnavailableError("the simulated catalog is down")
        does_hang = self.hanging_tables is None or table in self.hanging_tables
        ends = [end for begin, end in self.hangs if begin <= now < end and does_hang]
        await asyncio.sleep(max(ends) - now if ends else self.latency)
        if table in self.lost:
            raise CatalogUnavailableError(f"{table}: status 500")
        if table not in self.commits:
            raise MissingTableError(table)
        version = MetadataVersion(str(sum(at <= now for at in self.commits[table])))
        if version == seen:
            return None
        self.loaded += 1
        return ChangedTable({branch: self.head(table, now) for branch in branches}, version)

    def head(self, table: str, now: float) -> TableHead:
        """Return what metadata says of main at a moment."""
        known = [at for at in self.commits[table] if at <= now]
        records = {
            str(number): Snapshot(
                id=str(number),
                parent=str(number - 1) if number > 1 else None,
                at=int((BEGIN + timedelta(seconds=at)).timestamp() * 1000),
                sequence_number=number,
                summary={"operation": "append", "added-records": "1"},
            )
            for number, at in enumerate(known, 1)
        }
        return TableHead(head=str(len(known)) if known else None, snapshots=records)
