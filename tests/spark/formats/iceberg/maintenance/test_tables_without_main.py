"""Tables with snapshots but no main: replaced by one without rows, or written on a branch first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.maintenance.health import health_of
from airflow_lake_provider.maintenance.planner import plan_of
from airflow_lake_provider.maintenance.policy import limits_of
from tests.spark.maintained_table import MaintainedTable
from tests.spark.maintenance_flow import expire, remove_orphans, snapshots, with_three_appends
from tests.spark.orphaned_files import files_of, made_old, orphan

ALL_ASKED = {
    "expiry": {"min_snapshots": 1},
    "orphans": {"mode": "delete"},
    "tags": {"daily": 7},
    "statistics": {"every": "P1D"},
    "row_expiry": {"column": "at", "keep": "P1D"},
}


def replaced(spark: SparkSession) -> MaintainedTable:
    table = with_three_appends(MaintainedTable(spark))
    spark.sql(f"REPLACE TABLE {table.name} (id BIGINT, region STRING, amount BIGINT) USING iceberg")
    table.rows = {}
    return table


def on_a_branch(spark: SparkSession) -> MaintainedTable:
    table = MaintainedTable(spark, properties={"write.wap.enabled": "true"})
    spark.conf.set("spark.wap.branch", "audit")
    try:
        with_three_appends(table)
        spark.sql(f"INSERT OVERWRITE {table.name} SELECT 50L, 'north', 500L")
    finally:
        spark.conf.unset("spark.wap.branch")
    table.rows = {}
    return table


@pytest.mark.parametrize(("make", "kept"), [(replaced, 0), (on_a_branch, 1)])
def test_a_table_without_main_is_expired_and_cleared_of_orphans(
    make: Callable[[SparkSession], MaintainedTable], kept: int, spark: SparkSession
) -> None:
    table = make(spark)
    before = snapshots(table)
    assert "main" not in table.outside().metadata.refs
    now, policy = datetime.now(UTC) + timedelta(days=9), MaintenancePolicy.from_mapping(ALL_ASKED, "policy")
    health = health_of(table.on_worker(), now, limits_of(policy))
    assert health.snapshots is not None
    assert health.snapshots.expirable == len(before) - kept
    plan = plan_of(health, policy, now)
    assert [each.action for each in plan.actions] == ["snapshot-expiry", "remove-orphans"]

    report = expire(table)

    assert (report.outcome, len(report.snapshots_expired)) == (Outcome.DONE, len(before) - kept)
    assert (report.data_files_deleted, len(table.files_on_disk())) == (3, kept)
    assert snapshots(table) == before[len(before) - kept :]

    made_old(table)
    left = files_of(table)
    lost = orphan(table, "data/00000-1-aa-0-00001.parquet")
    removed = remove_orphans(table)
    assert (removed.outcome, lost.exists()) == (Outcome.DONE, False)
    assert left - files_of(table) == set()
    assert table.rows_read() == {}
    if kept:
        branch = spark.sql(f"SELECT * FROM {table.name} VERSION AS OF 'audit'").collect()
        assert [tuple(row) for row in branch] == [(50, "north", 500)]
