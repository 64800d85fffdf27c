"""File groups are rewritten in waves: what a writer has doomed meanwhile is not rewritten in vain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionRunner
from airflow_lake_provider.contracts.reports.job import Outcome
from tests.spark.maintained_table import MaintainedTable, ProgressThatRuns
from tests.spark.maintenance_flow import compact

FULL = CompactionLevel.FULL
# With another attempt left, little data is first tried in one commit.
AT_ONCE: dict[str, Any] = {"level": FULL, "max_attempts": 1}


@pytest.fixture
def table(spark: SparkSession) -> MaintainedTable:
    """Twelve partitions of two files: two waves of six groups, and of three commits each."""
    table = MaintainedTable(spark, partitioned=True)
    for first in (0, 120):
        ids = spark.range(first, first + 120, numPartitions=1)
        region = sf.concat(sf.lit("r"), sf.col("id") % 12)
        ids.select("id", region.alias("region"), (sf.col("id") * 10).alias("amount")).writeTo(table.name).append()
        table.rows.update({id_: (f"r{id_ % 12}", id_ * 10) for id_ in range(first, first + 120)})
    assert len(table.live_files()) == 24
    return table


def test_no_wave_takes_up_what_the_one_before_has_written(table: MaintainedTable) -> None:
    report = compact(table, **AT_ONCE)
    assert (report.outcome, report.groups_rewritten) == (Outcome.DONE, 12)
    assert (report.files_rewritten, report.files_added) == (24, 12)
    assert report.bytes_rewritten > 0
    assert table.rows_read() == table.rows


@pytest.mark.parametrize("attempts", [1, 3])
def test_only_the_groups_of_one_wave_are_rewritten_in_vain_where_a_writer_comes_first(
    table: MaintainedTable, attempts: int
) -> None:
    """Decision 51: Iceberg's action rewrites all groups that are doomed, too."""
    other = table.other_session()
    one_of_each = ProgressThatRuns("rewrite", lambda: table.delete(list(range(12)), other))

    report = compact(table, one_of_each, level=FULL, runner=CompactionRunner.SPARK, max_attempts=attempts)

    expected = (Outcome.CONFLICT, 6, 6) if attempts == 1 else (Outcome.DONE, 12, 0)
    assert (report.outcome, report.groups_rewritten, report.failed_groups) == expected
    assert table.rows_read() == table.rows
    named = {Path(path.removeprefix("file:")) for path in table.outside().inspect.all_files()["file_path"].to_pylist()}
    assert table.files_on_disk() <= named


def test_groups_whose_files_a_writer_has_removed_are_neither_rewritten_nor_missed(table: MaintainedTable) -> None:
    other = table.other_session()

    def empty() -> None:
        other.sql(f"DELETE FROM {table.name}")
        table.rows.clear()

    report = compact(table, ProgressThatRuns("rewrite", empty), **AT_ONCE)

    assert (report.outcome, report.attempts, report.groups_rewritten) == (Outcome.NOTHING_DUE, 1, 0)
    assert report.failed_groups == 0
    assert table.rows_read() == {}


def test_a_group_that_cannot_be_read_stops_no_other_wave(table: MaintainedTable) -> None:
    broken = Path(table.live_files()[0].removeprefix("file:"))
    broken.rename(broken.with_suffix(".aside"))

    report = compact(table, **AT_ONCE)

    assert (report.outcome, report.groups_rewritten, report.failed_groups) == (Outcome.DONE, 11, 1)
    assert len(report.failures) == 1
