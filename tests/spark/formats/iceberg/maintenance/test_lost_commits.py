"""A compaction that loses a commit does that part again, and nothing that it has done already."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.compaction_spec import CompactionLevel, CompactionStrategy
from airflow_lake_provider.contracts.job_report import CompactionReport, Outcome
from airflow_lake_provider.spark_jobs.actions.compact_table import compact_table
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.faulty_catalog import FaultyCatalog
from tests.spark.maintained_table import MaintainedTable, ProgressThatRuns

REGIONS = ("north", "south", "east", "west")
WAYS: dict[str, dict[str, Any]] = {
    "binpack": {},
    "sort": {"strategy": CompactionStrategy.SORT, "sort_by": ("amount",)},
    "zorder": {"strategy": CompactionStrategy.ZORDER, "sort_by": ("id", "amount")},
}


def compact(table: MaintainedTable, progress: Progress | None = None, **arguments: Any) -> CompactionReport:
    given = {"level": CompactionLevel.FULL, "max_commits": 10, **arguments}
    return compact_table(table.spark, table.compaction(**given), progress or Progress())


def four_partitions(spark: SparkSession, version: int = 3) -> MaintainedTable:
    table = MaintainedTable(spark, version=version, partitioned=True)
    for place, region in enumerate(REGIONS):
        table.append(place * 100, 50, region)
        table.append(place * 100 + 50, 50, region)
    return table


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("version", [2, 3])
def test_only_the_groups_of_a_lost_commit_are_rewritten_again(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], version: int, way: dict[str, Any]
) -> None:
    table = four_partitions(spark, version)
    with FaultyCatalog.of(spark).refusing(2, once=True):
        report = compact(table, rewrite_manifests=False, **way)
    assert (report.outcome, report.attempts) == (Outcome.DONE, 2)
    assert (report.groups_rewritten, report.files_rewritten, report.files_added) == (4, 8, 4)
    assert report.failed_groups == 0
    assert table.rows_read() == table.rows
    said = capsys.readouterr().out
    assert "no writer was in the way" in said
    assert "a writer committed first" not in said


def test_a_retry_of_a_full_compaction_goes_on_where_the_try_before_it_ended(spark: SparkSession) -> None:
    table = four_partitions(spark)
    with FaultyCatalog.of(spark).refusing(2, once=True):
        first = compact(table, max_attempts=1)
    assert (first.groups_rewritten, first.failed_groups) == (3, 1)
    retry = compact(table, max_attempts=1)
    assert (retry.outcome, retry.groups_rewritten, retry.files_rewritten) == (Outcome.DONE, 1, 2)
    assert compact(table, max_attempts=1).groups_rewritten == 0
    table.delete([1, 2])
    again = compact(table, max_attempts=1)
    assert (again.groups_rewritten, again.files_rewritten) == (1, 1)
    assert table.live_files(content=1) == []
    assert table.rows_read() == table.rows


def test_a_writer_in_between_is_told_from_commits_that_were_lost(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    table = four_partitions(spark)
    other = table.other_session()
    report = compact(table, ProgressThatRuns("rewrite", lambda: table.delete([150], other)))
    assert (report.outcome, report.attempts, report.groups_rewritten) == (Outcome.DONE, 2, 4)
    assert table.rows_read() == table.rows
    assert "a writer committed first" in capsys.readouterr().out
