"""Upserts, one after another, beside another writer that appends every two seconds: every batch has to commit.

The other writer is PyIceberg on a table of format version 2, and another Spark driver on one of version 3. It writes
keys of its own, in files whose ranges cover those of the batches, so that no statistics tell them apart.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.soak.batches import KEYS, Batch, Inbox, Model, random_changes
from tests.soak.driver import Driver
from tests.soak.lake import CATALOG, NAMESPACE, Lake

Append = Callable[[int], None]


@dataclass
class OtherWriter:
    """Commits again and again in a thread, until it is stopped or fails.

    :param append: given a number, counted from 1, commits once.
    :param every: seconds from the start of one to that of the next.
    """

    append: Append
    every: float
    committed: int = 0
    errors: list[Exception] = field(default_factory=list)

    def __enter__(self) -> OtherWriter:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        started = time.monotonic()
        try:
            while not self._stop.wait(max(0.0, started + self.committed * self.every - time.monotonic())):
                self.append(self.committed + 1)
                self.committed += 1
        # It is told by the thread that waits for this one.
        except Exception as error:  # noqa: BLE001
            self.errors.append(error)


def foreign_rows(number: int) -> Model:
    """Rows below and above all keys of the batches."""
    return {-number: ("foreign", number), KEYS + number: ("foreign", number)}


def append_by_pyiceberg(lake: Lake, table: str) -> Append:
    """Return what appends through PyIceberg, again while it is refused."""

    def append(number: int) -> None:
        rows = [{"id": key, "name": name, "n": n} for key, (name, n) in foreign_rows(number).items()]
        for _ in range(100):
            with suppress(CommitFailedException):
                loaded = lake.catalog().load_table(table)
                loaded.append(pa.Table.from_pylist(rows, schema=loaded.schema().as_arrow()))
                return
        raise AssertionError("the other writer was refused 100 times")

    return append


def append_by_spark(driver: Driver, table: str) -> Append:
    """Return what appends through another Spark driver."""

    def append(number: int) -> None:
        values = ", ".join(f"({key}, '{name}', {n})" for key, (name, n) in foreign_rows(number).items())
        driver.sql(f"INSERT INTO {table} VALUES {values}")

    return append


def upsert_beside(lake: Lake, driver: Driver, other: OtherWriter, table: str, version: str, seconds: float) -> str:
    """Upsert for some seconds beside another writer, compare, and return what happened in words.

    :raises AssertionError: a batch was not applied, or the table has other rows than it should.
    """
    random = Random(f"{table} {version}")
    inbox = Inbox(lake.home / "inbox" / table)
    model: Model = {}
    layout = TableLayout(properties={"format-version": version})
    _upsert(driver, table, layout, inbox, model, random, 0)
    before = _tried_again(driver)
    started, took = time.monotonic(), list[float]()
    with other:
        while time.monotonic() - started < seconds:
            began = time.monotonic()
            _upsert(driver, table, layout, inbox, model, random, len(took) + 1)
            took.append(time.monotonic() - began)
    assert not other.errors, other.errors
    assert other.committed > 0
    for number in range(1, other.committed + 1):
        model |= foreign_rows(number)
    assert lake.rows(table) == model
    commits, attempts = (after - earlier for after, earlier in zip(_tried_again(driver), before, strict=True))
    return (
        f"version {version}: all {len(took)} batches applied beside {other.committed} appends in {sum(took):.0f} s, "
        "the "
        f"slowest in {max(took):.0f} s, {commits} commits tried again, {attempts} batches decided again"
    )


def _tried_again(driver: Driver) -> tuple[int, int]:
    return driver.said(r"\] commit \d+ of "), driver.said(r"\] attempt \d+ of ")


def _upsert(
    driver: Driver, table: str, layout: TableLayout, inbox: Inbox, model: Model, random: Random, number: int
) -> None:
    changes = random_changes(random, f"batch {number}", number)
    inbox.arrive(f"{number:04}", changes)
    spec = UpsertSpec(
        catalog=CATALOG,
        table=table,
        run=RunIdentity.of("appends", str(number), "task", "-1"),
        source=inbox.source(),
        keys=("id",),
        delete_when="op = 'd'",
        schema_contract=SchemaContract(exclude_columns=("op",)),
        # The table is small, so that auto would copy it.
        strategy=UpsertStrategy.POSITIONS,
        create=layout,
    )
    report = driver.run(spec)
    assert not isinstance(report, JobFailure), report.traceback
    assert report.outcome is Outcome.APPLIED, report
    Batch(tuple(changes)).apply_to(model)


def main() -> None:
    """Append and print the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each of the two tables")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between appends")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake.at(Path(folder) / "lake")
        with Driver(lake, "upserts") as driver, Driver(lake, "appends") as appender:
            driver.sql(f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")
            tables = {version: f"{NAMESPACE}.appended_{options.seed}_v{version}" for version in "23"}
            appends = {"2": append_by_pyiceberg(lake, tables["2"]), "3": append_by_spark(appender, tables["3"])}
            said = []
            for version, table in tables.items():
                other = OtherWriter(appends[version], options.every)
                said.append(upsert_beside(lake, driver, other, table, version, options.seconds))
                print(said[-1], flush=True)
            print(f"appends: seed {options.seed}, one every {options.every:g} s; {'; '.join(said)}")


if __name__ == "__main__":
    main()
