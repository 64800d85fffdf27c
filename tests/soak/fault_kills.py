"""Drivers that are killed with ``SIGKILL`` while they work, and the next driver, which retries."""

from __future__ import annotations

import signal
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from tests.soak.driver import Driver, DriverDiedError
from tests.soak.fault_checks import Checks, difference
from tests.soak.fault_tables import KINDS, FaultTable, Step, made
from tests.soak.faulty_session import KILL_FILE
from tests.soak.lake import NAMESPACE, Lake

_LONGEST_DELAY = 0.4
_MOST_SURVIVALS = 4


@dataclass
class Kills:
    """Kills one driver after another; the next one retries the job, and dies in another job."""

    lake: Lake
    random: Random
    killed: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    tables: dict[str, FaultTable] = field(default_factory=dict)
    phases: dict[str, int] = field(default_factory=dict)
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
                kind, before = list(KINDS)[number % len(KINDS)], time.monotonic()
                try:
                    told = self._in_a_job(kind)
                # The next kill has a driver and a table of its own.
                except (AssertionError, DriverDiedError) as error:
                    told = f"FAILED: {error!s:.2000}"
                    self.failed.append(f"kill {number}, {kind}: {told}")
                    self.tables.pop(kind, None)
                    self._next_driver()
                print(f"kill {number}, {kind}, {time.monotonic() - before:.1f} s: {told}", flush=True)

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
        table = self.tables[kind]
        for _ in range(_MOST_SURVIVALS):
            step = table.step()
            before = self.checks.look(table.table)
            event = self.random.randint(1, 2 * self.phases[kind])
            seconds = self.random.choice((0.0, self.random.uniform(0, _LONGEST_DELAY)))
            where = f"{seconds:.3f} s after event {event}"
            if not self._dies(step, event, seconds):
                self._holds(table, step)
                continue
            self.killed[kind] += 1
            seen = self.checks.look(table.table)
            wrong = f"killed {where}: neither before nor after: {difference(seen.rows, step.after)}"
            assert seen.rows in (before.rows, step.after), wrong
            is_applied = seen.rows == step.after != before.rows
            self._next_driver()
            report = self._applied(table, step, 2)
            return f"killed {where}{', applied before' if is_applied else ''}; the retry: {report.outcome.value}"
        raise AssertionError(f"{_MOST_SURVIVALS} jobs ended before their kill")

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
        table.model = step.after


def kill_drivers(lake: Lake, seed: str, kills: int) -> tuple[Counter[str], list[str]]:
    """Kill drivers; return how many by action, and what did not hold."""
    played = Kills(lake, Random(f"{seed} kills"))
    if kills:
        played.play(kills)
    return played.killed, played.failed
