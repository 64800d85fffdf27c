"""Tables and catalogs of strangers: drawn mutations of real metadata, and answers that a REST catalog should not give.

After each mutation, sensor, watcher, check and a draw of jobs meet the table. None may hang, run code, delete a file
that is not the table's, end with an error that is not one of the package, or leave other rows than plain Python has.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from random import Random

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from tests.soak.hostile_actions import DAMAGE, DONE, DRIVER_ACTIONS, FAULTS, WORKER_ACTIONS, Driver, Result, Worker
from tests.soak.hostile_lake import BASES, CATALOG, NAMESPACE, HostileLake
from tests.soak.hostile_metadata import draw_metadata
from tests.soak.hostile_server import CALLS, TOKEN, WAYS, HostileCatalog
from tests.soak.tiny_batches import planned_for_tiny_batches
from tests.spark.conftest import start_session

JOBS_OF_A_MUTATION = 2
SHARE_OF_REST = 0.2


def main() -> int:
    """Play mutations until all are played or the time is over, which fails; each fault is told with its number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--mutations", type=int, default=300)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of mutations to play again")
    parser.add_argument("--minutes", type=float, default=20)
    options = parser.parse_args()
    numbers = options.only or range(options.mutations)
    with tempfile.TemporaryDirectory(prefix="lake_hostile_") as folder, chdir(folder):
        # Some mutations are relative locations, and a driver writes there.
        spark = start_session(Path(folder) / "session")
        spark.sparkContext.setLogLevel("OFF")
        with planned_for_tiny_batches(spark):
            with redirect_stdout(StringIO()):
                lake = HostileLake.made(spark, Path(folder) / "lake")
            soak = Soak(lake, options.seed)
            faults = soak.play(numbers, time.monotonic() + options.minutes * 60)
        spark.stop()
    print(soak.verdict(len(numbers)), flush=True)
    return int(bool(faults) or soak.played < len(numbers))


@dataclass
class Soak:
    """The mutations of one seed, and what came of those that were played.

    :param loads_of_unreadable: jobs on metadata that Iceberg's own parser refuses: a catalog reads it again and again,
        for 90 s, so a few say enough.
    """

    lake: HostileLake
    seed: str
    loads_of_unreadable: int = 2
    played: int = 0

    def __post_init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.faulty: list[int] = []

    def play(self, numbers: Sequence[int], until: float = float("inf")) -> list[str]:
        """Play mutations, say what came of each, and return the faults."""
        faults = []
        logging.disable(logging.CRITICAL)
        try:
            with self.lake.of_airflow():
                for number in numbers:
                    if time.monotonic() > until:
                        break
                    faults += self._mutation(number)
        finally:
            logging.disable(logging.NOTSET)
        return faults

    def _mutation(self, number: int) -> list[str]:
        draw, before = Random(f"{self.seed}-{number}"), time.monotonic()
        with redirect_stdout(StringIO()):
            self.lake.restore()
            told, results = self._answers(draw, number) if draw.random() < SHARE_OF_REST else self._jobs(draw)
            results += [Result("files and code", DAMAGE, damage) for damage in self.lake.damage()]
        self.played += 1
        self.outcomes.update(result.outcome for result in results)
        found = [f"--only {number}: {told}: {result}" for result in results if result.outcome in FAULTS]
        self.faulty += [number] if found else []
        print(f"{'FAULT' if found else 'ok'} {time.monotonic() - before:.1f} s, {number}: {told}", flush=True)
        for result in results:
            print(f"    {result}", flush=True)
        return found

    def _jobs(self, draw: Random) -> tuple[str, list[Result]]:
        """Alter a table, and let workers and drivers meet it."""
        name = draw.choice(BASES)
        told = draw_metadata(draw, name, self.lake)
        jobs, level = draw.sample(DRIVER_ACTIONS, JOBS_OF_A_MUTATION), draw.choice(list(CompactionLevel))
        worker, driver = Worker(CATALOG, f"{NAMESPACE}.{name}"), Driver(self.lake, name)
        results = [worker.play(action) for action in WORKER_ACTIONS]
        # As an operator: what the worker cannot load, it submits no job for.
        if any(result.action == "check" and result.outcome != DONE for result in results):
            jobs = []
        elif not self.lake.is_read_by_java(name):
            jobs = jobs[:1] if self.loads_of_unreadable > 0 else []
            self.loads_of_unreadable -= 1
        twin = self.lake.rows("twin")
        results += [driver.play(job, level) for job in jobs]
        if self.lake.rows("twin") != twin:
            results.append(Result("table of the same files", DAMAGE, "its rows cannot be read any more"))
        return f"{name}, {told}", results

    def _answers(self, draw: Random, number: int) -> tuple[str, list[Result]]:
        """Let a catalog answer wrongly, and workers meet it."""
        way, call = draw.choice(WAYS), draw.choice(CALLS)
        told = f"REST, {way} at {call}"
        if way == "metadata":
            told = f"{told}, {draw_metadata(draw, 'v2', self.lake)}"
        try:
            metadata = self.lake.metadata("v2")
        except (OSError, ValueError):
            metadata = {}
        table = {"metadata-location": self.lake.location("v2"), "metadata": metadata}
        # A catalog that hung is known by its connection: each mutation has one of its own.
        lake_conn_id = f"hostile_rest_{number}"
        with HostileCatalog(way, call, table).served() as catalog:
            given = {"conn_type": "iceberg", "host": catalog.address, "extra": {"type": "rest", "token": TOKEN}}
            os.environ[f"AIRFLOW_CONN_{lake_conn_id.upper()}"] = json.dumps(given)
            worker = Worker(lake_conn_id, f"{NAMESPACE}.v2")
            results = [worker.play(action) for action in WORKER_ACTIONS]
            del os.environ[f"AIRFLOW_CONN_{lake_conn_id.upper()}"]
            results += [Result("catalog", DAMAGE, f"STOLEN {line}") for line in catalog.stolen if TOKEN in line]
        return told, results

    def verdict(self, asked: int) -> str:
        """Return what happened, in one line."""
        counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(self.outcomes.items()))
        told = f"seed {self.seed}: {self.played} of {asked} mutations, {len(self.faulty)} with faults {self.faulty}"
        told = f"{told}; {counts}"
        return told if self.played == asked else f"{told}; the time was over before the others, give more --minutes"


if __name__ == "__main__":
    raise SystemExit(main())
