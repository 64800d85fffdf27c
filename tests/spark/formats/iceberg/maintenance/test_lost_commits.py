"""A compaction that loses a commit does that part again, and nothing that it has done already.

One that loses the answer to a commit that was made destroys nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionRunner
from airflow_lake_provider.contracts.reports.job import CompactionReport, Outcome
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.soak.faulty_session import FOREVER, Fault, FaultySession
from tests.soak.lake import Lake
from tests.spark.actions_of_several_commits import (
    ACTIONS,
    deletes_of_before,
    small_files,
    with_deletes,
    with_deletes_left,
)
from tests.spark.faulty_catalog import FaultyCatalog
from tests.spark.maintained_table import MaintainedTable, ProgressThatRuns
from tests.spark.maintenance_flow import with_four_regions


def compact(table: MaintainedTable, progress: Progress | None = None, **arguments: Any) -> CompactionReport:
    given = {"level": CompactionLevel.FULL, "max_commits": 10, **arguments}
    return compact_table(table.spark, table.compaction(**given), progress or Progress())


def four_partitions(spark: SparkSession) -> MaintainedTable:
    return with_four_regions(MaintainedTable(spark, partitioned=True))


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
    by_spark = {"runner": CompactionRunner.SPARK}
    report = compact(table, ProgressThatRuns("rewrite", lambda: table.delete([150], other)), **by_spark)
    assert (report.outcome, report.attempts, report.groups_rewritten) == (Outcome.DONE, 2, 4)
    assert table.rows_read() == table.rows
    assert "a writer committed first" in capsys.readouterr().out


# Iceberg merges the manifests of a commit from 100 on.
MERGED = {"commit.manifest.min-count-to-merge": "2"}
MINOR = {"level": CompactionLevel.MINOR}
# What makes the table, what is asked of the compaction, and which of its commits is lost.
COMMITS: dict[str, tuple[Any, dict[str, Any], dict[str, Any], int]] = {
    "data files": (small_files, {"properties": MERGED}, {}, 1),
    "data files, in one commit": (small_files, {"properties": MERGED}, {"partial_progress": False}, 1),
    "data files, in partial commits": (small_files, {"properties": MERGED, "partitioned": True}, {}, 2),
    "outdated deletes": (with_deletes_left, {"version": 2, "partitioned": True}, MINOR, 2),
    "position deletes": (with_deletes, {"version": 2, "properties": MERGED}, {"level": CompactionLevel.MAJOR}, 2),
    "position deletes to vectors": (deletes_of_before, {"version": 2, "properties": MERGED}, MINOR, 1),
    "manifests": (small_files, {}, {}, 2),
    "manifests of version 1": (small_files, {"version": 1}, {}, 2),
    "manifests of deletes": (with_deletes, {"version": 2}, {"level": CompactionLevel.MAJOR}, 2),
}


@pytest.fixture(scope="module")
def faulty(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FaultySession, Lake]]:
    lake = Lake.at(tmp_path_factory.mktemp("lost_answers") / "lake")
    spark.sparkContext.setLogLevel("OFF")
    try:
        with FaultySession.over(lake, spark) as session:
            yield session, lake
    finally:
        spark.sparkContext.setLogLevel("ERROR")


@pytest.mark.parametrize("commit", COMMITS.values(), ids=COMMITS)
def test_a_commit_that_is_sent_twice_as_its_first_answer_was_lost_is_made_and_its_files_are_kept(
    faulty: tuple[FaultySession, Lake], commit: Any
) -> None:
    """apache/iceberg#13352, #12818, #6391, #13443, #15511; ClickHouse/ClickHouse#112081, #115390.

    A commit was made and its answer lost. The second one met the first, and files of the first were removed.
    """
    session, lake = faulty
    prepare, made, asked, point = commit
    table = MaintainedTable(session.spark, **made)
    prepare(table)
    spec = table.compaction(max_attempts=1, min_input_files=2, **asked)
    ran = session.run(spec, Fault("commit", point, point, "after again"))
    assert ran.raised
    assert isinstance(ran.answer, CompactionReport), ran.answer
    assert (ran.answer.outcome, ran.answer.warnings) == (Outcome.DONE, ())
    assert lake.rows(table.name) == table.rows
    again = session.run(spec).answer
    assert isinstance(again, CompactionReport)
    assert again.outcome is Outcome.NOTHING_DUE


@pytest.mark.parametrize("way", ["after unknown"])
@pytest.mark.parametrize("commit", [1, 2], ids=["data files", "manifests"])
@pytest.mark.parametrize("runner", [CompactionRunner.ARROW, CompactionRunner.SPARK])
def test_a_commit_whose_answer_is_lost_is_found_in_the_table_and_its_groups_are_counted(
    faulty: tuple[FaultySession, Lake], runner: CompactionRunner, commit: int, way: str
) -> None:
    session, lake = faulty
    table = MaintainedTable(session.spark)
    small_files(table)
    spec = table.compaction(max_attempts=3, min_input_files=2, runner=runner)
    ran = session.run(spec, Fault("commit", commit, commit, way))
    assert ran.raised
    assert isinstance(ran.answer, CompactionReport), ran.answer
    assert (ran.answer.outcome, ran.answer.attempts, ran.answer.failures) == (Outcome.DONE, 1, ())
    assert (ran.answer.groups_rewritten, ran.answer.failed_groups) == (1, 0)
    assert lake.rows(table.name) == table.rows
    again = session.run(spec).answer
    assert isinstance(again, CompactionReport)
    assert again.outcome is Outcome.NOTHING_DUE


@pytest.mark.parametrize("commit", [1, 2], ids=["data files", "manifests"])
def test_a_commit_whose_fate_the_catalog_does_not_tell_keeps_its_files(
    faulty: tuple[FaultySession, Lake], commit: int
) -> None:
    """apache/iceberg#2932, #2621, #2317, #2328, #3733, #4686, #4687, #4800, #11576.

    A commit whose state was unknown had its files removed, by rewrites, writes and transactions.
    """
    session, lake = faulty
    table = MaintainedTable(session.spark)
    small_files(table)
    spec = table.compaction(max_attempts=1, min_input_files=2, partial_progress=False)
    ran = session.run(spec, Fault("commit", commit, FOREVER, "after away"))
    assert isinstance(ran.answer, JobFailure)
    assert ran.answer.to_error().retry_may_help
    assert lake.rows(table.name) == table.rows


@pytest.mark.parametrize("name", ["merge", "upsert of a branch"])
def test_a_merge_that_is_sent_twice_leaves_no_snapshot_that_an_expiry_cannot_read(
    faulty: tuple[FaultySession, Lake], tmp_path: Path, name: str
) -> None:
    session, lake = faulty
    action = ACTIONS[name][0](session.spark, tmp_path)
    session.faults.arm("commit", 2, 2, "after again")
    report = action.run()
    assert "raised" in session.faults.disarm()
    assert report.outcome is Outcome.APPLIED
    table = lake.catalog().load_table(action.tables[0])
    assert all(snapshot.manifests(table.io) for snapshot in table.metadata.snapshots)
    assert not [ref for ref in table.metadata.refs if ref.startswith("lake_")]
