"""Faults within jobs: a phase raises, a call of a file fails, an answer of the catalog is lost, a driver is killed.

Each table has steps of one action. In a step some tries meet a fault, and the last one does not. After each the table
is read by PyIceberg: its rows are those of a dict before the step or after it, and after the last try the latter. No
file that a retained snapshot reaches is gone, no run is applied twice, and no left-over is of a kind that
``docs/reference/errors.md`` does not name. At the end of a table's life Iceberg's ``remove_orphan_files`` leaves
nothing that no snapshot reaches.

Where calls fail is drawn from those that a run without a fault has counted. A fault counts where a call has failed.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.soak.bounded import Hang
from tests.soak.fault_checks import Checks, Seen, difference, is_hidden
from tests.soak.fault_kills import kill_drivers
from tests.soak.fault_kinds import KINDS, made
from tests.soak.fault_tables import FaultTable, Step
from tests.soak.faulty_session import FOREVER, PHASES, Fault, FaultySession, Ran
from tests.soak.faulty_workers import WAYS as WAYS_OF_A_SPLIT
from tests.soak.lake import NAMESPACE, Lake
from tests.soak.tiny_batches import planned_for_tiny_batches
from tests.spark.conftest import start_session

FAULTS_OF_A_TABLE = 15
# Shares of what is drawn; a kind of call that a run has not is left out.
_SHARES = {
    "phase begins": 4,
    "phase ends": 2,
    "create": 3,
    "write": 3,
    "close": 3,
    "open": 4,
    "delete": 2,
    "commit": 8,
    "ask": 1,
    "split": 6,
}
_WAYS = {
    "phase begins": ("error", "death"),
    # After a phase nothing of the package can raise, but the process may end.
    "phase ends": ("death",),
    "commit": tuple(f"{when} {what}" for when in ("before", "after") for what in ("sql", "unknown", "again", "away")),
    "split": WAYS_OF_A_SPLIT,
}
# Actions that read their input while they write, and those whose commits are Iceberg's own.
_IN_ONE_PASS = ("append", "overwrite-partitions")
_OF_ICEBERG = ("compaction", "rewrite-manifests", "compute-statistics")
# An opening is tried again for a minute where it goes on failing.
_GO_ON = {"create", "write", "close", "delete", "split"}
# A new file of Arrow: the group's identifier, the task's attempt and the number of the file.
_BY_ARROW = re.compile(r"/\d{5}-[0-9a-f-]{36}-\d+-\d{5}\.parquet$")


@dataclass
class FaultSoak:
    """Plays tables until enough faults were met.

    :param per_table: faults that a table meets.
    """

    session: FaultySession
    lake: Lake
    seed: str
    per_table: int = FAULTS_OF_A_TABLE
    by_kind: Counter[str] = field(default_factory=Counter)
    by_action: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    failed: dict[int, str] = field(default_factory=dict)

    @property
    def faults(self) -> int:
        """Number of faults that were met."""
        return self.by_kind.total()

    def play(self, numbers: Sequence[int], faults: int) -> None:
        """Play tables until they have met enough faults, or all are played."""
        self.session.sql(f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")
        logging.disable(logging.CRITICAL)
        try:
            for number in numbers:
                if self.faults >= faults:
                    break
                self._table(number)
        finally:
            logging.disable(logging.NOTSET)

    def _table(self, number: int) -> None:
        before, started = self.faults, time.monotonic()
        kind = list(KINDS)[number % len(KINDS)]
        life = TableLife(self, kind, f"t{number}", Random(f"{self.seed} {number}"))
        try:
            life.play()
        # Each table stands for itself: the others are played all the same.
        except (Exception, Hang) as error:  # noqa: BLE001
            self.failed[number] = f"{kind}: {error!s:.2000}; tries: {'; '.join(life.tries[-6:])}"
            print(f"FAILED --only {number}: {self.failed[number]}", flush=True)
        took = time.monotonic() - started
        print(f"table {number}, {kind}: {self.faults - before} faults in {took:.1f} s", flush=True)


@dataclass
class TableLife:
    """One table from its first step to its last.

    :param tries: what was done, for a person who repeats it.
    :param begun: its tables before the step.
    :param seen: its tables after the last try.
    """

    soak: FaultSoak
    kind: str
    name: str
    random: Random
    calls: dict[bool, Counter[str]] = field(default_factory=dict)
    tries: list[str] = field(default_factory=list)
    begun: list[Seen] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    def play(self) -> None:
        """Play steps until the table has met enough faults.

        :raises AssertionError: something does not hold.
        """
        session, lake = self.soak.session, self.soak.lake
        self.checks = Checks(lake)
        table = made(self.kind, lake, self.name, session.sql, self.random)
        if table.begins_empty and self.random.random() < 0.4:
            twin = made(self.kind, lake, f"{self.name}_twin", session.sql, self.random)
            self.seen = self.begun = [Seen({})]
            self._last(twin, twin.step(), 1, is_first=True)
        met, until = self.soak.faults, self.soak.faults + self.soak.per_table
        while self.soak.faults < until and table.steps < 4 * self.soak.per_table:
            is_first = table.begins_empty and table.steps == 0
            step, number = table.step(), 1
            self.seen = self.begun = self._look(table)
            for number in range(1, self.random.choice((3, 4, 5))):
                if is_first not in self.calls or self._met(table, step, number, self.calls[is_first]):
                    break
            else:
                number += 1
            self._last(table, step, number, is_first=is_first)
        assert self.soak.faults > met, "no fault was met"
        self._swept(table)

    def _last(self, table: FaultTable, step: Step, number: int, *, is_first: bool) -> None:
        """Try without a fault, which has to succeed."""
        ran = self.soak.session.run(step.tried(number))
        self.tries.append(f"step {table.steps}, try {number}: {_shown(ran)}")
        # A run that finds its commit made has few.
        self.calls[is_first] = max(self.calls.get(is_first, ran.calls), ran.calls, key=Counter.total)
        assert isinstance(ran.answer, JobReport), f"the last try failed: {_shown(ran)}"
        seen = self.checks.look(table.table)
        assert seen.rows == step.after, f"after the last try: {difference(seen.rows, step.after)}"
        branches = {ref for ref in seen.refs if ref.startswith("lake_")}
        assert not branches, f"branches are left: {branches}"
        table.verify(is_done=True)
        if step.spec.action == "snapshot-expiry":
            left = (self.begun[0].reached - seen.reached) & seen.there
            assert not {file for file in left if not file.endswith(".metadata.json")}, f"not deleted: {sorted(left)}"
        table.model = step.after

    def _met(self, table: FaultTable, step: Step, number: int, calls: Counter[str]) -> bool:
        """Try with a fault; return True where the step is done."""
        fault, before = draw_fault(self.random, calls), self.seen
        self.tries.append(f"step {table.steps}, try {number} with {fault}: no end")
        ran = self.soak.session.run(step.tried(number), fault)
        self.tries[-1] = f"step {table.steps}, try {number} with {fault}, raised {ran.raised}: {_shown(ran)}"
        after = self.seen = self._look(table)
        if ran.raised:
            self.soak.by_kind[fault.kind] += 1
            self.soak.by_action[self.kind] += 1
            self.soak.ends[_end(ran)] += 1
        rows = after[0].rows
        table.verify()
        if isinstance(ran.answer, JobReport):
            assert rows == step.after, f"it reported {ran.answer.outcome}: {difference(rows, step.after)}"
        elif isinstance(ran.answer, JobFailure):
            assert ran.answer.to_error().retry_may_help, f"not to be retried: {_shown(ran)}"
        assert rows in (before[0].rows, step.after), f"neither before nor after: {difference(rows, step.after)}"
        for old, new in zip(before, after, strict=True):
            left = left_over(old, new, fault, ran, step.spec)
            assert not left, f"left by {_shown(ran)}: {left}"
        return isinstance(ran.answer, JobReport)

    def _look(self, table: FaultTable) -> list[Seen]:
        return [self.checks.look(name) for name in table.tables]

    def _swept(self, table: FaultTable) -> None:
        for name in table.tables:
            self.soak.session.remove_orphans(name)
            seen = self.checks.look(name)
            left = {file for file in seen.unreached if not is_hidden(file)}
            assert not left, f"{name}: remove_orphan_files leaves {sorted(left)}"
        assert self.checks.look(table.table).rows == table.model


def draw_fault(random: Random, calls: Counter[str]) -> Fault:
    """Draw a fault of those calls that a run without one has made."""
    kinds = [kind for kind in _SHARES if calls[kind]]
    (kind,) = random.choices(kinds, [_SHARES[kind] for kind in kinds])
    first = random.randint(1, calls[kind])
    way = random.choice(_WAYS.get(kind, ("",)))
    goes_on = way.endswith("away") or (kind in _GO_ON and random.random() < 0.25)
    return Fault(kind, first, FOREVER if goes_on else first, way)


def left_over(before: Seen, after: Seen, fault: Fault, ran: Ran, spec: JobSpec) -> list[str]:
    """Return files that a failed try has left, and that ``docs/reference/errors.md`` says are deleted."""
    new = after.unreached - before.there
    # Arrow's files go, whatever fails but the catalog and the process.
    by_arrow = sorted(filter(_BY_ARROW.search, new))
    if by_arrow and fault.kind in ("create", "write", "close", "open", "split"):
        return by_arrow
    # A phase of ours fails nowhere but here.
    may_leave = ran.answer is None or fault.last == FOREVER or fault.kind in ("delete", *PHASES)
    # Commits of Iceberg's own, which deletes nothing after most errors; and files on their way to the quarantine.
    may_leave = may_leave or spec.action in (*_OF_ICEBERG, "remove-orphans")
    may_leave = may_leave or getattr(spec, "strategy", None) == UpsertStrategy.MERGE
    if may_leave or (isinstance(ran.answer, JobFailure) and ran.answer.error == "UnknownOutcomeError"):
        return []
    failed = {path.removeprefix("file:") for path in ran.raised}
    kept = [r"\.metadata\.json$"]
    if any("/metadata/" in path for path in failed):
        # Iceberg forgets the manifests before the one that it could not write.
        kept.append(r"/metadata/[0-9a-f-]{36}-m\d+\.avro$")
    elif any("/data/" in path or (spec.action in _IN_ONE_PASS and "/inbox/" in path) for path in failed):
        # Of tasks that ran beside the one that failed; these read their input while they write.
        kept.append(r"/data/.*\d{5}-\d+-[^/]*\.parquet$")
    return sorted(file for file in new - failed if not any(re.search(pattern, file) for pattern in kept))


def _end(ran: Ran) -> str:
    if ran.answer is None:
        return "died"
    return ran.answer.error if isinstance(ran.answer, JobFailure) else ran.answer.outcome.value


def _shown(ran: Ran) -> str:
    message = f" {ran.answer.message:.300}" if isinstance(ran.answer, JobFailure) else ""
    return f"{_end(ran)}{message}"


def main() -> int:
    """Play until enough faults were met and drivers killed, and print the result as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--faults", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--kinds", nargs="*", default=[*KINDS], choices=KINDS, help="tables whose drivers are killed")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of tables to play again, without kills")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lake_faults_") as folder:
        lake, spark = Lake.at(Path(folder) / "lake"), start_session(Path(folder) / "session")
        spark.sparkContext.setLogLevel("OFF")
        with FaultySession.over(lake, spark) as session, planned_for_tiny_batches(session.spark):
            soak = FaultSoak(session, lake, options.seed)
            soak.play(options.only or range(options.faults), options.faults)
        spark.stop()
        kills = 0 if options.only is not None else options.kills
        killed, failed_kills = kill_drivers(Lake.at(Path(folder) / "killed"), options.seed, kills, options.kinds)
    result = {
        "soak": "faults",
        "seed": options.seed,
        "faults": soak.faults,
        "by_kind": dict(soak.by_kind),
        "by_action": dict(soak.by_action),
        "ends": dict(soak.ends),
        "kills": dict(killed),
        "seconds": round(time.monotonic() - started),
        "failed_tables": soak.failed,
        "failed_kills": failed_kills,
    }
    print(json.dumps(result), flush=True)
    enough = options.only is not None or (soak.faults >= options.faults and killed.total() >= kills)
    return int(bool(soak.failed or failed_kills) or not enough)


if __name__ == "__main__":
    raise SystemExit(main())
