"""Faults between the start of a compaction by Arrow and the answer to its commit lose no row and no live file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionRunner
from airflow_lake_provider.contracts.errors import JobFailedError
from airflow_lake_provider.contracts.reports.job import CompactionReport, Outcome
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from tests.soak.fault_checks import Checks
from tests.soak.faulty_session import FOREVER, Fault, FaultySession
from tests.soak.lake import NAMESPACE, Lake
from tests.soak.maintained_fault_tables import BUCKETS, Compactions
from tests.spark.formats.iceberg.maintenance.test_arrow_beside_writers import BY_ARROW, interrupted
from tests.spark.maintained_table import MaintainedTable
from tests.spark.maintenance_flow import compact, with_six_files_and_deletes

# What is below the target size is one commit where another attempt may follow.
BY_GROUPS: dict[str, Any] = {"target_file_size": 1_000}


@pytest.fixture
def faulty(spark: SparkSession, tmp_path: Path) -> Iterator[tuple[Lake, FaultySession]]:
    """A catalog whose answers can be lost."""
    lake = Lake.at(tmp_path / "lake")
    with FaultySession.over(lake, spark) as session:
        session.sql(f"CREATE NAMESPACE {NAMESPACE}")
        yield lake, session


@pytest.mark.parametrize(
    "arguments", [{}, BY_GROUPS, {"partial_progress": False}], ids=["one commit", "by groups", "no partial progress"]
)
def test_a_commit_onto_a_newer_head_whose_answer_is_lost_may_have_been_made_so_that_no_file_of_it_goes(
    faulty: tuple[Lake, FaultySession], arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, session = faulty
    given = {"runner": CompactionRunner.ARROW, **arguments}
    name, level = f"{NAMESPACE}.orders", CompactionLevel.FULL
    table = Compactions(lake, name, session.sql, Random(7), partition=BUCKETS, level=level, arguments=given)
    step, checks = table.step(), Checks(lake)
    interrupted(monkeypatch, lambda: table._delete(sorted(table.model)[::3]))

    # The first commit is the writer's, who deletes rows of both partitions.
    ran = session.run(step.tried(1), Fault("commit", 2, FOREVER, "after away"))

    assert isinstance(ran.answer, JobFailure), ran.answer
    assert ran.answer.to_error().retry_may_help
    seen = checks.look(table.table)
    assert seen.rows == table.model
    retry = session.run(step.tried(2)).answer
    assert isinstance(retry, CompactionReport), retry
    assert retry.outcome in (Outcome.DONE, Outcome.NOTHING_DUE)
    assert checks.look(table.table).rows == table.model


def test_a_group_that_is_committed_keeps_its_files_though_main_is_rolled_back_before_the_next_one_fails(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark, partitioned=True))
    head, committed = table.head(), []

    def roll_back_and_fail() -> None:
        committed.append(table.head())
        session = table.other_session()
        session.sql(f"ALTER TABLE {table.name} CREATE BRANCH kept AS OF VERSION {committed[0]}")
        session.sql(f"CALL system.rollback_to_snapshot('{table.name}', {head})")
        raise AssertionError("the driver fails")

    interrupted(monkeypatch, lambda: None, roll_back_and_fail)
    with pytest.raises(AssertionError, match="the writer failed"):
        compact(table, **BY_ARROW, **BY_GROUPS)

    assert committed != [head]
    kept = table.outside().scan(snapshot_id=int(committed[0])).to_arrow().to_pylist()
    assert {row["id"]: (row["region"], row["amount"]) for row in kept} == table.rows == table.rows_read()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("ADD COLUMN more VARIANT", "column more is of type variant"),
        ("SET TBLPROPERTIES ('write.parquet.compression-codec' = 'lz4')", "compression-codec' is lz4"),
        ("SET TBLPROPERTIES ('write.format.default' = 'orc')", "new files are orc"),
    ],
    ids=["type", "codec", "format"],
)
def test_what_a_writer_makes_of_the_table_is_followed_by_the_next_attempt(
    spark: SparkSession, change: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark))

    def write() -> None:
        session = table.other_session()
        some = f"table => '{table.name}', where => 'id < 200', options => map('rewrite-all', 'true')"
        session.sql(f"CALL system.rewrite_data_files({some})")
        session.sql(f"ALTER TABLE {table.name} {change}")

    interrupted(monkeypatch, write)
    report = compact(table, **BY_ARROW)

    assert (report.outcome, report.attempts, report.groups_by_arrow) == (Outcome.DONE, 2, 0)
    assert [reason in left for left in report.left_to_spark] == [True]
    spark.sql(f"REFRESH TABLE {table.name}")
    read = spark.sql(f"SELECT id, region, amount FROM {table.name}").collect()
    assert {row.id: (row.region, row.amount) for row in read} == table.rows


@pytest.mark.parametrize("partial_progress", [True, False])
def test_a_table_that_is_dropped_meanwhile_is_the_reason_that_is_told(
    spark: SparkSession, partial_progress: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark))
    interrupted(monkeypatch, lambda: table.other_session().sql(f"DROP TABLE {table.name}"))

    with pytest.raises(JobFailedError, match="compaction failed: NoSuchTableException"):
        compact(table, partial_progress=partial_progress, **BY_ARROW)
