"""Runs over a path of a day, cleaned in between: the position stays one small property, and no file counts twice.

Every run brings a few files in a folder of its own; some runs clear an earlier one, some find a late file there. The
rows are sums, so that a file that is applied twice, or lost, shows. Every so often other people's maintenance comes:
a foreign commit, an expiry of all snapshots but one, statistics, and a removal of orphan files.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.merge_engines import Aggregation
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.reports.job import Outcome, UpsertReport
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.commits import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import commit_snapshot
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import (
    position_properties,
    read_position,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from tests.soak.tiny_batches import planned_for_tiny_batches
from tests.spark.conftest import start_session
from tests.spark.upsert_flow import SCHEMA, Flow, row

KEYS = 20
FILES_A_RUN = 2
LARGEST_GROWTH = 64 * 1024
_FIRST_DAY = date(2026, 1, 1)
_NAME = "daily"
_SUMS = Aggregation(aggregates={"n": "sum"})


@dataclass
class DailyRuns:
    """One table, its folders of days, and the sums that it has to hold."""

    flow: Flow
    random: Random
    sums: Counter[int] = field(default_factory=Counter)
    days: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def play(self, number: int, *, with_rows: bool) -> None:
        """Run a new day, and now and then an earlier one again."""
        day = str(_FIRST_DAY + timedelta(days=number))
        self.days.append(day)
        files = [f"{day}/{place}.jsonl" for place in range(FILES_A_RUN)]
        if with_rows:
            self._arrive(*files)
            report = self._run(day, f"run {number}")
            assert (report.outcome, report.batch_files) == (Outcome.APPLIED, FILES_A_RUN), report
            self.counts["days applied"] += 1
        else:
            self._arrive(*files, counted=False)
            self._commit_without_rows(day, number)
            self.counts["days committed without their rows"] += 1
        if self.random.random() < 0.1:
            earlier = self.random.choice(self.days)
            report = self._run(earlier, f"clearing {number}")
            assert report.outcome is Outcome.NOTHING_NEW, report
            self.counts["cleared"] += 1
        if self.random.random() < 0.05:
            earlier = self.random.choice(self.days)
            self._arrive(f"{earlier}/late-{number}.jsonl")
            report = self._run(earlier, f"late {number}")
            assert (report.outcome, report.batch_files) == (Outcome.APPLIED, 1), report
            self.counts["late files"] += 1

    def _arrive(self, *names: str, counted: bool = True) -> None:
        for name in names:
            (self.flow.inbox / name).parent.mkdir(parents=True, exist_ok=True)
            key, amount = self.random.randrange(KEYS), self.random.randrange(1, 100)
            self.flow.arrive(name, row(key, "x", amount))
            self.sums[key] += amount if counted else 0

    def _commit_without_rows(self, day: str, number: int) -> None:
        """Commit a day as an upsert does, from the listing to the removal of old lists; only nothing is read."""
        spark, at = self.flow.spark, datetime.now(UTC)
        table = IcebergTable(spark, "lake_default", TableName.parse(self.flow.table)).refresh()
        files = list_input_files(spark, f"{self.flow.inbox}/{day}/*.jsonl")
        before = read_position(table, _NAME)
        position = before.moved(before.files.next(files, at, None), before.shape)
        key = RunIdentity.of("soak", str(number)).run_key("", ())
        base = table.base_of(None)
        commit = DataCommit(action="upsert", run_key=key, base=base, positions={_NAME: position})
        with position_properties(table, commit) as properties:
            commit_snapshot(table, commit, properties, lambda transaction: transaction.newRowDelta())

    def _run(self, day: str, run: str) -> UpsertReport:
        source = Files(path=f"{self.flow.inbox}/{day}/*.jsonl", format="json", schema=SCHEMA, name=_NAME)
        keep = MissingColumns.KEEP
        return self.flow.apply(run, source=source, merge_engine=_SUMS, missing_columns=keep, delete_when=None)

    def check(self) -> None:
        """Compare with the sums.

        :raises AssertionError: a file was lost or counted twice, or the position leaves more than it may.
        """
        found = {key: values[1] for key, values in self.flow.rows().items() if key >= 0}
        expected = {key: amount for key, amount in self.sums.items() if amount}
        assert found == expected, f"{found} is not {expected}"
        names = [name for name in self.flow.loaded().properties if name.startswith("lake.position.")]
        assert names == [f"lake.position.{_NAME}"], names
        lists = list((self.flow.folder().parent / "metadata").glob("_lake-position-*"))
        assert len(lists) <= 2, lists

    def clean(self) -> int:
        """Do what other people's maintenance does, and return the bytes of the metadata that is left."""
        flow = self.flow
        flow.spark.sql(f"INSERT INTO {flow.table} VALUES ({-1 - self.counts['cleanings']}, 'foreign', 0)")
        past = time.time() - timedelta(days=3).total_seconds()
        for path in flow.folder().parent.rglob("*"):
            os.utime(path, (past, past))
        now = datetime.now(UTC)
        call = f"CALL system.{{}}(table => '{flow.table}'{{}})".format
        flow.spark.sql(call("expire_snapshots", f", older_than => TIMESTAMP '{now:%F %T}', retain_last => 1"))
        flow.spark.sql(call("compute_table_stats", ""))
        cut = f"TIMESTAMP '{now - timedelta(days=1, minutes=1):%F %T}'"
        flow.spark.sql(call("remove_orphan_files", f", older_than => {cut}"))
        self.counts["cleanings"] += 1
        return Path(urlsplit(flow.loaded().metadata_location).path).stat().st_size

    @property
    def position(self) -> int:
        """Characters of the position's property."""
        return len(self.flow.loaded().properties[f"lake.position.{_NAME}"])


def soak(flow: Flow, runs: int, seed: int, clean_every: int = 100, rows_every: int = 1) -> str:
    """Play all runs and return one line that says what happened.

    :param rows_every: one of so many runs applies its rows; the others commit what an upsert commits, without rows.
    :raises AssertionError: the rows are not the sums of the files, or the metadata grew by 64 KB.
    """
    daily = DailyRuns(flow, Random(seed))
    sizes: list[int] = []
    first = 0
    for number in range(runs):
        daily.play(number, with_rows=number % rows_every == 0)
        if number in (0, runs - 1) or (number + 1) % clean_every == 0:
            sizes.append(daily.clean())
            daily.check()
            first = first or daily.position
            print(f"run {number + 1}: metadata.json {sizes[-1]:,} bytes, position {daily.position:,}", flush=True)
    growth, position = max(sizes) - sizes[0], daily.position - first
    assert growth < LARGEST_GROWTH, f"metadata.json grew by {growth:,} bytes"
    said = ", ".join(f"{count:,} {what}" for what, count in daily.counts.items())
    return (
        f"positions: seed {seed}, {runs:,} runs of {FILES_A_RUN} files each in a folder of its own: metadata.json grew "
        f"by {growth:,} bytes, of which the position's property {position:,}; {said}; every sum is right"
    )


def main() -> None:
    """Run and print the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--rows-every", type=int, default=1, help="runs of which one applies its rows")
    parser.add_argument("--clean-every", type=int, default=100, help="runs between two cleanings")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = start_session(Path(folder))
        try:
            flow = Flow(spark, "soak.positions", Path(folder) / "inbox")
            with planned_for_tiny_batches(spark):
                print(soak(flow, options.runs, options.seed, options.clean_every, options.rows_every))
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
