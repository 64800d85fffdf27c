"""Compaction of a table whose head counts its totals from zero, so that its summary leaves out files and deletes."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import convert_equality_deletes as conversion
from tests.spark.equality_delete import delete_by_equality
from tests.spark.maintained_table import MaintainedTable
from tests.spark.maintenance_flow import compact, expire


def append_through_a_branch(spark: SparkSession, table: MaintainedTable) -> None:
    """Move main on to a branch that Spark has made with a commit: its totals begin at zero."""
    spark.conf.set("spark.wap.branch", "audit")
    try:
        table.append(900, 10)
    finally:
        spark.conf.unset("spark.wap.branch")
    spark.sql(f"CALL system.fast_forward('{table.name}', 'main', 'audit')")


def counted_from_zero(spark: SparkSession, version: int, *, is_old: bool) -> MaintainedTable:
    """Return a table whose main was moved on to a branch that Spark made with the commit.

    :param is_old: the commit that began at zero is expired.
    """
    table = MaintainedTable(spark, version=version, properties={"write.wap.enabled": "true"})
    for place in range(6):
        table.append(place * 100, 100)
    table.delete([1, 101])
    for key in (2, 202):
        delete_by_equality(spark, table.handle.java, [key])
        del table.rows[key]
    append_through_a_branch(spark, table)
    table.drop_branch("audit")
    table.append(950, 10)
    if is_old:
        expire(table)
    return table


def counts(table: MaintainedTable) -> dict[str, str]:
    head = table.on_worker().facts.newest()
    assert head is not None
    return {name: value for name, value in head.summary.items() if name.startswith("total-")}


@pytest.mark.parametrize("is_old", [False, True], ids=["kept", "expired"])
@pytest.mark.parametrize("version", [2, 3])
def test_deletes_that_the_totals_leave_out_are_compacted_away(spark: SparkSession, version: int, is_old: bool) -> None:
    table = counted_from_zero(spark, version, is_old=is_old)
    assert counts(table)["total-delete-files"] == "0"
    assert len(table.live_files(content=1)) + len(table.live_files(content=2)) > 2
    rows = table.rows_read()
    assert rows == table.rows

    plan = table.on_worker().plan_compaction(table.compaction())
    report = compact(table)

    assert (plan.outcome, plan.level) == (Outcome.PLANNED, CompactionLevel.MAJOR.value)
    assert (report.outcome, report.level) == (Outcome.DONE, CompactionLevel.MAJOR.value)
    assert table.rows_read() == rows
    assert (table.live_files(content=1), table.live_files(content=2)) == ([], [])


def test_equality_deletes_that_the_totals_leave_out_become_positions(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = counted_from_zero(spark, 2, is_old=False)
    monkeypatch.setattr(conversion, "MANY_EQUALITY_DELETES", 2)
    report = compact(table, level=CompactionLevel.MAJOR)
    assert report.equality_deletes_converted == 2
    assert table.rows_read() == table.rows


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_without_deletes_is_no_major_one_where_totals_leave_out_files(
    spark: SparkSession, version: int
) -> None:
    table = MaintainedTable(spark, version=version, properties={"write.wap.enabled": "true"})
    for place in range(6):
        table.append(place * 100, 100)
    append_through_a_branch(spark, table)
    assert counts(table)["total-data-files"] == "1"
    report = compact(table)
    assert (report.outcome, report.level, report.files_rewritten) == (Outcome.DONE, CompactionLevel.MINOR.value, 7)
    assert table.rows_read() == table.rows
