"""Drivers that are killed with ``SIGKILL`` while they work, and the next driver, which retries.

Each action is killed before and after each of its phases in turn. At last a removal of orphan files by this package
leaves of each table what its metadata reaches, and nothing else but what is hidden.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.contracts.specs.maintenance import OrphanFilesSpec, RemovalMode
from tests.soak.driver import Driver, DriverDiedError
from tests.soak.fault_checks import Checks, difference, is_hidden
from tests.soak.fault_kinds import KINDS, made
from tests.soak.fault_tables import FaultTable, Step
from tests.soak.faulty_session import KILL_FILE
from tests.soak.lake import CATALOG, NAMESPACE, Lake
from tests.soak.maintained_fault_tables import LONG_AGO

_LONGEST_DELAY = 0.4
_MOST_SURVIVALS = 4


@dataclass
class Kills:
    """Kills one driver after another; the next one retries the job, and dies in another job.

    :param kinds: of the tables, which are killed in turn.
    :param moments: events that each kind is still to be killed at.
    """

    lake: Lake
    random: Random
    kinds: Sequence[str]
    killed: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    tables: dict[str, FaultTable] = field(default_factory=dict)
    phases: dict[str, int] = field(default_factory=dict)
    moments: dict[str, list[int]] = field(default_factory=dict)
    started: int = 0
    spare: Driver | None = None

    def __post_init__(self) -> None:
        self.checks = Checks(self.lake)

    def play(self, kills: int) -> None:
        """Kill drivers in jobs of every kind, one after another."""
        with ExitStack() as drivers:
            self._drivers, self._kills = drivers, kills
            self.driver, self.spare = self._start(), self._start()
            self.driver.sql(f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")
            for number in range(kills):
                kind, before = self.kinds[number % len(self.kinds)], time.monotonic()
                try:
                    told = self._in_a_job(kind)
                # The next kill has a driver and a table of its own.
                except (AssertionError, DriverDiedError) as error:
                    told = f"FAILED: {error!s:.2000}"
                    self.failed.append(f"kill {number}, {kind}: {told}")
                    self.tables.pop(kind, None)
                    self._next_driver()
                print(f"kill {number}, {kind}, {time.monotonic() - before:.1f} s: {told}", flush=True)
            for kind, table in self.tables.items():
                try:
                    self._swept(table)
                except (AssertionError, DriverDiedError) as error:
                    self.failed.append(f"{kind}, swept: {error!s:.2000}")

    def _sql(self, statement: str) -> None:
        self.driver.sql(statement)

    def _start(self) -> Driver:
        self.started += 1
        name = f"driver {self.started}"
        environment = {KILL_FILE: str(self._kill_file(name))}
        return self._drivers.enter_context(
            Driver(self.lake, name, "tests.soak.faulty_session:serve_until_killed", **environment)
        )

    def _kill_file(self, name: str) -> Path:
        return self.lake.home / f"{name}.kill"

    def _next_driver(self) -> None:
        self.driver.kill()
        # It has started while the one before it worked; where none is killed any more, nobody waits for the next.
        self.driver = self.spare or self._start()
        self.spare = self._start() if self.started <= self._kills else None

    def _in_a_job(self, kind: str) -> str:
        """Kill a driver in a job, and let the next one retry it."""
        if kind not in self.tables:
            name = f"t{self.started}"
            table = made(kind, self.lake, name, self._sql, self.random)
            report = self._applied(table, table.step(), 1)
            self.tables[kind], self.phases[kind] = table, max(1, len(report.seconds))
            self.moments[kind] = []
        table = self.tables[kind]
        for _ in range(_MOST_SURVIVALS):
            step = table.step()
            before = self.checks.look(table.table)
            event = self._moment(kind)
            seconds = self.random.choice((0.0, self.random.uniform(0, _LONGEST_DELAY)))
            where = f"{seconds:.3f} s after event {event}"
            if not self._dies(step, event, seconds):
                self._holds(table, step)
                continue
            self.killed[kind] += 1
            seen = self.checks.look(table.table)
            wrong = f"killed {where}: neither before nor after: {difference(seen.rows, step.after)}"
            assert seen.rows in (before.rows, step.after), wrong
            table.verify()
            is_applied = seen.rows == step.after != before.rows
            self._next_driver()
            report = self._applied(table, step, 2)
            return f"killed {where}{', applied before' if is_applied else ''}; the retry: {report.outcome.value}"
        raise AssertionError(f"{_MOST_SURVIVALS} jobs ended before their kill")

    def _moment(self, kind: str) -> int:
        """Return the number of a beginning or an end of a phase that was not drawn since all were."""
        if not self.moments[kind]:
            events = range(1, 2 * self.phases[kind] + 1)
            self.moments[kind] = self.random.sample(events, len(events))
        return self.moments[kind].pop()

    def _dies(self, step: Step, event: int, seconds: float) -> bool:
        file = self._kill_file(self.driver.log.stem)
        file.write_text(f"{event} {seconds}")
        try:
            answer = self.driver.run(step.tried(1))
        except DriverDiedError:
            code = self.driver.process.wait()
            assert code == -signal.SIGKILL, f"the driver ended with {code}"
            return True
        assert isinstance(answer, JobReport), answer.message
        # A kill may still be on its way.
        self._next_driver()
        return False

    def _applied(self, table: FaultTable, step: Step, number: int) -> JobReport:
        answer = self.driver.run(step.tried(number))
        assert not isinstance(answer, JobFailure), f"try {number}: {answer.error} {answer.message}"
        self._holds(table, step)
        return answer

    def _holds(self, table: FaultTable, step: Step) -> None:
        for name in table.tables[1:]:
            self.checks.look(name)
        seen = self.checks.look(table.table)
        assert seen.rows == step.after, difference(seen.rows, step.after)
        branches = {ref for ref in seen.refs if ref.startswith("lake_")}
        assert not branches, f"branches are left: {branches}"
        table.verify(is_done=True)
        table.model = step.after

    def _swept(self, table: FaultTable) -> None:
        """Let a later run remove what kills have left."""
        for name in table.tables:
            before = self.checks.look(name)
            answer = self.driver.run(removal_of_left_overs(name, before.there))
            assert isinstance(answer, JobReport), f"{answer.error} {answer.message}"
            seen = self.checks.look(name)
            left = {file for file in seen.unreached if not is_hidden(file)}
            assert not left, f"{name}: a later removal of orphan files leaves {sorted(left)}"
            assert seen.rows == before.rows, difference(seen.rows, before.rows)


def kill_drivers(
    lake: Lake, seed: str, kills: int, kinds: Sequence[str] = tuple(KINDS)
) -> tuple[Counter[str], list[str]]:
    """Kill drivers; return how many by action, and what did not hold.

    :param seed: says also in which order the kinds come.
    """
    random = Random(f"{seed} kills")
    played = Kills(lake, random, random.sample(kinds, len(kinds)))
    if kills:
        played.play(kills)
    return played.killed, played.failed


def removal_of_left_overs(table: str, files: Iterable[str]) -> OrphanFilesSpec:
    """Return the removal of all that no metadata of a table names.

    :param files: of the table; they are made old enough.
    """
    for file in files:
        os.utime(file, (LONG_AGO, LONG_AGO))
    return OrphanFilesSpec(
        catalog=CATALOG,
        table=table,
        run=RunIdentity.of("faults", f"{table} swept", "task", "-1"),
        mode=RemovalMode.DELETE,
        max_share=1.0,
        asked_at=datetime.now(UTC),
        tables_checked=1,
    )
