"""Kill drivers at a random moment of a job of several tables, and retry: nothing twice, nothing missing.

Each table sums the rows of a key, so that a batch applied twice is seen in its numbers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.author.merge_engines import Aggregation
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.specs.spec_codec import Job
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from tests.soak.driver import Driver, DriverDiedError
from tests.soak.lake import CATALOG, NAMESPACE, Lake

ROUNDS = 30
_TABLES = ("a", "b", "c", "d")
_KEYS = 40
_ROWS = 25
# Seconds of a job of four small upserts and a compaction on one core; kills come anywhere in them.
_LONGEST = 8.0


@dataclass
class JobsSoak:
    """The lake, the rows that should be there, and what was seen.

    :param sums: by table and key.
    :param killed: drivers that had not ended their job.
    """

    lake: Lake
    seed: int
    sums: dict[str, Counter[int]] = field(default_factory=lambda: {table: Counter() for table in _TABLES})
    outcomes: Counter[str] = field(default_factory=Counter)
    killed: int = 0

    def run(self, rounds: int) -> None:
        """Play rounds, each with a kill and a retry in another driver, until as many drivers died amid their job."""
        draw = random.Random(self.seed)
        driver = Driver(self.lake, "driver-0")
        driver.sql(f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")
        for number in itertools.count():
            if self.killed == rounds:
                break
            self._arrive(number, draw)
            driver.start(self._job(number, 1))
            time.sleep(draw.uniform(0, _LONGEST))
            self.killed += not driver.has_answered
            driver.kill()
            driver = Driver(self.lake, f"driver-{number + 1}")
            driver.start(self._job(number, 2))
            self._check(number, driver.answers())
        driver.kill()

    def _arrive(self, number: int, draw: random.Random) -> None:
        for table in _TABLES:
            rows = [{"id": draw.randrange(_KEYS), "n": draw.randrange(1, 100)} for _ in range(_ROWS)]
            folder = self.lake.home / "inbox" / table
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            for row in rows:
                self.sums[table][row["id"]] += row["n"]

    def _job(self, number: int, try_number: int) -> Job:
        tasks: dict[str, JobSpec] = {
            table: UpsertSpec(
                catalog=CATALOG,
                table=f"{NAMESPACE}.{table}",
                run=RunIdentity.of("jobs", str(number), table, try_number=try_number),
                source=Files(
                    f"{self.lake.home}/inbox/{table}/*.jsonl", format="json", schema="id BIGINT, n BIGINT", name=table
                ),
                keys=("id",),
                merge_engine=Aggregation({"n": "sum"}),
            )
            for table in _TABLES
        }
        run = RunIdentity.of("jobs", str(number), "compaction", try_number=try_number)
        tasks["compaction"] = CompactionSpec(
            catalog=CATALOG, table=f"{NAMESPACE}.a", run=run, level=CompactionLevel.FULL
        )
        return Job(tasks, parallelism=2)

    def _check(self, number: int, reports: dict[str, JobReport | JobFailure]) -> None:
        failed = {name: report for name, report in reports.items() if isinstance(report, JobFailure)}
        assert not failed, f"round {number} of seed {self.seed}: {failed}"
        for name in _TABLES:
            report = reports[name]
            assert isinstance(report, JobReport)
            self.outcomes[report.outcome.value] += 1
            assert report.outcome in (Outcome.APPLIED, Outcome.ALREADY_APPLIED), f"round {number}: {report}"
        catalog = self.lake.catalog()
        for name, expected in self.sums.items():
            rows = catalog.load_table(f"{NAMESPACE}.{name}").scan().to_arrow().to_pylist()
            found = {row["id"]: row["n"] for row in rows}
            assert len(found) == len(rows), f"round {number} of seed {self.seed}: {name} has a key twice"
            assert found == dict(expected), f"round {number} of seed {self.seed}: {name} has other sums"


def soak(home: Path, seed: int, rounds: int = ROUNDS) -> dict[str, object]:
    """Play the rounds in a folder, and return what was seen."""
    started = time.monotonic()
    played = JobsSoak(Lake.at(home / "lake"), seed)
    try:
        played.run(rounds)
    except DriverDiedError as error:
        raise SystemExit(f"seed {seed}: {error}") from error
    seconds = round(time.monotonic() - started)
    return {"soak": "jobs", "seed": seed, "killed": played.killed, **played.outcomes, "seconds": seconds}


def main() -> None:
    """Play one seed and print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(soak(Path(folder), options.seed, options.rounds)))


if __name__ == "__main__":
    main()
