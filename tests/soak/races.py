"""Upserts of overlapping keys in two drivers at once, with compaction or expiry in a third, against a serial order.

After each round main's history, taken from the metadata files, says in which order the accepted batches were committed.
They are applied to a dict in that order, and the table has to equal it row by row, as PyIceberg reads it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.contracts.specs.job import JobSpec
from tests.soak.batches import Batch, Inbox, Model
from tests.soak.driver import Driver
from tests.soak.lake import NAMESPACE, Head, Lake
from tests.soak.race_rounds import Asked, draw_maintenance, draw_upserts

ROUNDS_PER_TABLE = 25
_PARTITIONS: tuple[tuple[str, ...], ...] = ((), ("bucket(3, id)",), ("name",))
_MAINTENANCE_ENDS = {Outcome.DONE, Outcome.NOTHING_DUE, Outcome.CONFLICT}
# What an upsert may end with beside applied; each is a batch that has no snapshot.
_UPSERT_ENDS = {Outcome.ALREADY_APPLIED, Outcome.NOTHING_NEW}


@dataclass
class Race:
    """One table and the drivers that race on it.

    :param drivers: two that upsert; a third maintains, or the second does instead of upserting.
    """

    lake: Lake
    table: str
    layout: TableLayout
    drivers: Sequence[Driver]
    counts: Counter[str]
    model: Model = field(default_factory=dict)
    history: list[Head] = field(default_factory=list)
    inboxes: dict[str, Inbox] = field(default_factory=dict)

    def play(self, random: Random, number: int) -> None:
        """Run one round and compare.

        :raises AssertionError: the table is not what a serial order leaves.
        """
        upserts = draw_upserts(self, random, number)
        maintenance = draw_maintenance(self, random, number)
        if maintenance is not None and len(self.drivers) == len(upserts):
            # What has arrived for the one left out is applied by its source's next batch.
            upserts = upserts[:-1]
        jobs: list[JobSpec] = [asked.spec for asked in upserts]
        if maintenance is not None:
            jobs.append(maintenance)
        for driver, job in zip(self.drivers, jobs, strict=False):
            driver.start(job)
        answers = [driver.answer() for driver, _ in zip(self.drivers, jobs, strict=False)]
        if maintenance is not None:
            self._maintained(maintenance, answers.pop())
        self._replay(self._accepted(upserts, answers))
        found = self.lake.rows(self.table) if self.history else {}
        assert found == self.model, f"{self.table}: {_difference(found, self.model)}"

    def _maintained(self, spec: JobSpec, answer: JobReport | JobFailure) -> None:
        if isinstance(answer, JobFailure):
            assert answer.error == "CommitConflictError", answer.traceback
            self.counts[f"{spec.action} refused"] += 1
            return
        assert answer.outcome in _MAINTENANCE_ENDS, answer
        self.counts[f"{spec.action} {answer.outcome.value}"] += 1

    def _accepted(self, upserts: list[Asked], answers: Sequence[JobReport | JobFailure]) -> dict[str, Batch]:
        """Return the accepted batches by their snapshot."""
        accepted: dict[str, Batch] = {}
        applied: set[str] = set()
        for asked, answer in zip(upserts, answers, strict=True):
            if isinstance(answer, JobFailure):
                assert answer.error == "CommitConflictError", answer.traceback
                self.counts["refused"] += 1
                continue
            self.counts[answer.outcome.value] += 1
            assert answer.outcome in {Outcome.APPLIED, *_UPSERT_ENDS}, answer
            if answer.outcome is Outcome.APPLIED:
                (snapshot,) = answer.committed
                accepted[snapshot] = asked.batch
                applied.add(asked.inbox)
        for name in applied:
            self.inboxes[name].waiting.clear()
        return accepted

    def _replay(self, accepted: dict[str, Batch]) -> None:
        """Apply the accepted batches in the order of main's history, in which each is once and no other is."""
        if not self.history and not accepted:
            return
        heads = self.lake.heads(self.table)
        known = heads.index(self.history[-1]) + 1 if self.history else 0
        committed = heads[known:]
        for before, head in zip([*self.history[-1:], *committed], committed[0 if self.history else 1 :], strict=False):
            assert head.parent == before.snapshot, f"{head} is not on {before}"
        written = [head.snapshot for head in committed if head.operation != "replace"]
        assert sorted(written) == sorted(accepted), f"{self.table}: accepted {sorted(accepted)}, on main {committed}"
        for snapshot in written:
            accepted[snapshot].apply_to(self.model)
        self.history += committed
        keys = [head.run_key for head in self.history if head.operation != "replace"]
        assert len(keys) == len(set(keys)), f"{self.table}: a run key is there twice in {keys}"


def _difference(found: dict[int, tuple[object, ...]], model: Model) -> str:
    keys = sorted(key for key in found.keys() | model.keys() if found.get(key) != model.get(key))
    return "; ".join(f"key {key} is {found.get(key)}, a serial order leaves {model.get(key)}" for key in keys)


def race(lake: Lake, drivers: Sequence[Driver], rounds: int, seed: int, per_table: int = ROUNDS_PER_TABLE) -> str:
    """Play all rounds and return one line that says what happened.

    :param drivers: two that upsert; a third maintains, or the second does instead of upserting.
    :param per_table: rounds on one table; the next has another layout.
    """
    counts: Counter[str] = Counter()
    started = time.monotonic()
    drivers[0].sql(f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")
    current: Race | None = None
    for number in range(rounds):
        if current is None or number % per_table == 0:
            current = Race(lake, f"{NAMESPACE}.t{number}", _layout(seed, number // per_table), drivers, counts)
        began = time.monotonic()
        current.play(Random(f"{seed} {number}"), number)
        print(f"round {number}: {time.monotonic() - began:.1f} s, {len(current.model)} rows", flush=True)
    counts["commits tried again"] = sum(driver.said(r"\] commit \d+ of ") for driver in drivers)
    counts["batches decided again"] = sum(driver.said(r"\] attempt \d+ of ") for driver in drivers)
    said = ", ".join(f"{value} {name}" for name, value in sorted(counts.items()))
    took = time.monotonic() - started
    return f"races: seed {seed}, {rounds} rounds in {took:.0f} s, every key equals a serial order: {said}"


def _layout(seed: int, number: int) -> TableLayout:
    version = "32"[(seed + number) % 2]
    partition = _PARTITIONS[(seed + number // 2) % len(_PARTITIONS)]
    return TableLayout(partition_by=partition, properties={"format-version": version})


def main() -> None:
    """Race and print the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_drivers:
        lake = Lake.at(Path(folder) / "lake")
        names = ("upserts 1", "upserts 2", "maintenance")
        drivers = [open_drivers.enter_context(Driver(lake, name)) for name in names]
        print(race(lake, drivers, options.rounds, options.seed))


if __name__ == "__main__":
    main()
