"""An expiry that meets other commits between the look at its files and its commit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import SnapshotExpirySpec
from airflow_lake_provider.iceberg.snapshot_retention import RetentionRequest, request_for
from airflow_lake_provider.spark_jobs.actions.maintain_table import expire_snapshots
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import snapshot_expiry
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, guava
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.maintained_table import CATALOG, RUN, MaintainedTable, ProgressThatRuns
from tests.spark.maintenance_flow import expiry as expiry_of
from tests.spark.maintenance_flow import snapshots as snapshots_in_order


def prepared(table: MaintainedTable) -> tuple[IcebergTable, Any, set[int]]:
    """Plan the expiry of all but the head, as of now."""
    handle = table.handle.refresh()
    expiry = snapshot_expiry._by_age(handle, asked(handle), ())
    return handle, expiry, snapshot_expiry._expired(table.handle, expiry)


def asked(handle: IcebergTable) -> RetentionRequest:
    now = datetime.now(UTC) + timedelta(minutes=1)
    spec = SnapshotExpirySpec(
        catalog=CATALOG, table=str(handle.name), run=RUN, expire_before=now, expire_stage_branches_before=now
    )
    return request_for(spec, handle.properties(), now)


def snapshots(table: MaintainedTable) -> set[int]:
    return {snapshot.snapshot_id for snapshot in table.outside().metadata.snapshots}


@pytest.fixture
def orders(spark: SparkSession) -> MaintainedTable:
    table = MaintainedTable(spark)
    for place in range(3):
        table.append(place * 10, 10)
    return table


def test_snapshots_that_others_commit_meanwhile_stay_and_the_planned_ones_go(orders: MaintainedTable) -> None:
    handle, expiry, planned = prepared(orders)
    orders.append(30, 10)
    orders.delete([1])
    before = snapshots(orders)

    assert snapshot_expiry._commit(handle, expiry, asked(handle), ())

    assert len(planned) == 2
    assert snapshots(orders) == before - planned
    assert orders.rows_read() == orders.rows


def test_nothing_goes_where_a_tag_comes_to_a_planned_snapshot_meanwhile(orders: MaintainedTable) -> None:
    handle, expiry, planned = prepared(orders)
    orders.spark.sql(f"ALTER TABLE {orders.name} CREATE TAG kept AS OF VERSION {min(planned)}")
    before = snapshots(orders)

    assert not snapshot_expiry._commit(handle, expiry, asked(handle), ())

    assert snapshots(orders) == before


def test_what_main_needs_after_going_back_meanwhile_stays(orders: MaintainedTable) -> None:
    for place in range(3, 10):
        orders.append(place * 10, 10)
    ids = snapshots_in_order(orders)

    def go_back() -> None:
        session = orders.other_session()
        session.sql(f"CALL system.rollback_to_snapshot('{orders.name}', {ids[6]})").collect()

    report = expire_snapshots(
        orders.spark, expiry_of(orders, retain_last=4), ProgressThatRuns(phase="commit", call=go_back)
    )

    assert report.outcome is Outcome.DONE
    # The last four of main as it is now. What it went back from is named by no branch.
    assert snapshots_in_order(orders) == ids[3:7]
    assert set(report.snapshots_expired) == {*ids[:3], *ids[7:]}


def test_an_expiry_that_meets_another_one_tells_of_no_broken_table(orders: MaintainedTable) -> None:
    orders.delete([1])
    before = snapshots_in_order(orders)

    def expire_as_well() -> None:
        expire_snapshots(orders.other_session(), expiry_of(orders), Progress())

    report = expire_snapshots(orders.spark, expiry_of(orders), ProgressThatRuns("find files", expire_as_well))

    assert report.outcome is Outcome.CONFLICT
    assert "another expiry has forgotten snapshots" in report.reason
    assert snapshots_in_order(orders) == before[-1:]
    assert orders.rows_read() == orders.rows


def test_a_commit_that_went_through_although_it_was_refused_counts_as_made(orders: MaintainedTable) -> None:
    handle, expiry, planned = prepared(orders)
    handle.java.operations().commit(expiry.startMetadata(), expiry.currentMetadata())

    assert snapshot_expiry._commit(handle, expiry, asked(handle), ())

    assert snapshots(orders).isdisjoint(planned)


def test_files_that_a_commit_names_again_meanwhile_are_not_deleted(orders: MaintainedTable) -> None:
    """apache/iceberg#17708: a clean-up after a commit went by metadata that a catalog had cached."""
    handle = orders.handle.refresh()
    known, files = handle.java.operations().current(), orders.live_files()
    tasks = JavaItems(orders.spark, guava(orders.spark).collect.Lists.newArrayList(handle.java.newScan().planFiles()))
    orders.spark.sql(f"DELETE FROM {orders.name} WHERE id >= 0")
    append = handle.refresh().java.newAppend()
    for task in tasks:
        append.appendFile(task.file())
    append.commit()

    assert set(files) <= snapshot_expiry._named_meanwhile(handle, known)
