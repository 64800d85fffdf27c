"""A driver is killed while its Python workers write new files of a compaction, and a later run goes on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionRunner
from airflow_lake_provider.contracts.reports.job import CompactionReport, OrphanFilesReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from tests.soak.driver import Driver, DriverDiedError
from tests.soak.fault_checks import Checks
from tests.soak.fault_kills import removal_of_left_overs
from tests.soak.lake import CATALOG, NAMESPACE, Lake

TABLE = f"{NAMESPACE}.orders"
ROWS, PARTITIONS = 20_000, 8
# With the task's attempt and the number of the file in the split; files of Spark have neither.
BY_ARROW = "*-*-00000.parquet"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.at(tmp_path / "lake")


def make_table(driver: Driver) -> None:
    driver.sql(f"CREATE NAMESPACE {NAMESPACE}")
    driver.sql(
        f"CREATE TABLE {TABLE} (id BIGINT NOT NULL, name STRING, n INT) USING iceberg PARTITIONED BY"
        f" (bucket({PARTITIONS}, id)) TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read',"
        " 'write.distribution-mode'='none')"
    )
    rows = f"SELECT id, concat('n', id) name, cast(id * 3 AS INT) n FROM range(0, {ROWS}, 1, 2)"
    driver.sql(f"INSERT INTO {TABLE} {rows}")
    driver.sql(f"DELETE FROM {TABLE} WHERE id % 7 = 2")


def compaction(try_number: int) -> CompactionSpec:
    run = RunIdentity.of("killed", "run", "task", "-1", try_number=try_number)
    level, runner = CompactionLevel.FULL, CompactionRunner.ARROW
    return CompactionSpec(catalog=CATALOG, table=TABLE, run=run, level=level, runner=runner)


def files_by_arrow(lake: Lake, before: set[Path]) -> set[Path]:
    return set((lake.home / "warehouse").rglob(BY_ARROW)) - before


def killed_at_the_first_file(driver: Driver, lake: Lake) -> int:
    """Kill a driver when a Python worker has begun with a file, and return its exit code."""
    before = files_by_arrow(lake, set())
    driver.start(compaction(1))
    deadline = time.monotonic() + 120
    while not files_by_arrow(lake, before):
        assert time.monotonic() < deadline, "no worker has written a file"
        time.sleep(0.002)
    os.killpg(driver.process.pid, signal.SIGKILL)
    with pytest.raises(DriverDiedError):
        driver.answer()
    return driver.process.wait(10)


def test_after_a_kill_amid_new_files_no_row_is_lost_and_the_files_are_orphans_of_a_later_run(lake: Lake) -> None:
    with Driver(lake, "killed") as killed, Driver(lake, "later") as later:
        make_table(killed)
        expected: dict[int, Any] = {id_: (f"n{id_}", id_ * 3) for id_ in range(ROWS) if id_ % 7 != 2}
        checks = Checks(lake)
        head = lake.heads(TABLE)[-1]

        assert killed_at_the_first_file(killed, lake) == -signal.SIGKILL

        assert lake.heads(TABLE)[-1] == head
        assert checks.look(TABLE).rows == expected
        report = later.run(compaction(2))
        assert isinstance(report, CompactionReport), report
        assert (report.outcome, report.groups_by_arrow) == (Outcome.DONE, PARTITIONS)
        seen = checks.look(TABLE)
        assert seen.rows == expected
        left = {path for path in seen.unreached if Path(path).match(BY_ARROW)}
        assert left
        removed = later.run(removal_of_left_overs(TABLE, seen.there))
        assert isinstance(removed, OrphanFilesReport), removed
        seen = checks.look(TABLE)
        assert seen.rows == expected
        assert not left & seen.there
