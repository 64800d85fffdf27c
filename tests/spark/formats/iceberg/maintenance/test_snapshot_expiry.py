from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import MissingTableError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import SnapshotExpirySpec
from airflow_lake_provider.spark_jobs.actions.maintain_table import expire_snapshots
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from airflow_lake_provider.tables.iceberg.maintenance_plans import plan_expiry
from tests.spark.equality_delete import delete_by_equality
from tests.spark.maintained_table import CATALOG, RUN, MaintainedTable
from tests.spark.maintenance_flow import LONG_AGO, expire, expiry, snapshots, with_three_appends


def three_appends(spark: SparkSession) -> MaintainedTable:
    return with_three_appends(MaintainedTable(spark))


def test_retain_last_keeps_that_many_ancestors_of_main(spark: SparkSession) -> None:
    table = three_appends(spark)
    old = snapshots(table)
    planned = plan_expiry(LoadedIcebergTable(table.outside()), expiry(table, retain_last=2))

    report = expire(table, retain_last=2)

    assert report.snapshots_expired == planned.snapshots_expired == (old[0],)
    assert snapshots(table) == old[1:]


def test_young_snapshots_stay_and_no_spark_job_runs(spark: SparkSession) -> None:
    table = three_appends(spark)
    old = snapshots(table)
    spark.sparkContext.setJobGroup("young", "young")

    report = expire(table, expire_before=LONG_AGO)

    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("young")
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
    assert report.outcome is Outcome.NOTHING_DUE
    assert report.snapshots_expired == ()
    assert snapshots(table) == old
    assert list(jobs) == []
    assert (
        plan_expiry(LoadedIcebergTable(table.outside()), expiry(table, expire_before=LONG_AGO)).outcome
        is Outcome.NOTHING_DUE
    )


def test_tags_and_branches_keep_their_snapshots_and_are_named(spark: SparkSession) -> None:
    table = three_appends(spark)
    old = snapshots(table)
    spark.sql(f"ALTER TABLE {table.name} CREATE TAG `lake.consumer.revenue` AS OF VERSION {old[0]}")
    spark.sql(f"ALTER TABLE {table.name} CREATE BRANCH audit AS OF VERSION {old[1]}")
    table.append(30, 10)
    planned = plan_expiry(LoadedIcebergTable(table.outside()), expiry(table))

    report = expire(table)

    head = snapshots(table)[-1]
    kept = {old[0]: "lake.consumer.revenue", old[1]: "audit", head: "main"}
    assert report.kept_by_refs == planned.kept_by_refs == kept
    assert report.snapshots_expired == planned.snapshots_expired == (old[2],)
    at_tag = spark.sql(f"SELECT count(*) FROM {table.name} VERSION AS OF 'lake.consumer.revenue'").collect()
    assert at_tag[0][0] == 10
    assert table.rows_read() == table.rows


def test_the_retention_that_a_branch_has_of_its_own_goes_before_retain_last(spark: SparkSession) -> None:
    table = three_appends(spark)
    old = snapshots(table)
    spark.sql(
        f"ALTER TABLE {table.name} CREATE BRANCH audit AS OF VERSION {old[1]} WITH SNAPSHOT RETENTION 2 SNAPSHOTS"
    )
    planned = plan_expiry(LoadedIcebergTable(table.outside()), expiry(table))

    report = expire(table)

    assert report.snapshots_expired == planned.snapshots_expired == ()
    assert report.outcome is planned.outcome is Outcome.NOTHING_DUE
    assert set(report.kept_by_refs) == set(old)


FLINK = {"flink.job-id": "j", "flink.operator-id": "o", "flink.max-committed-checkpoint-id": "3"}
SINK = {"kafka.connect.offsets.control.connect-orders": '{"0":7}'}


@pytest.mark.parametrize(
    ("summary", "retention"),
    [(FLINK, {}), (FLINK, {"age": 1}), (FLINK, {"age": 1, "least": 1}), (SINK, {"least": 1})],
    ids=str,
)
def test_what_a_writer_finds_its_last_commit_by_stays_whatever_main_keeps_of_its_own(
    spark: SparkSession, summary: dict[str, str], retention: dict[str, int]
) -> None:
    table = MaintainedTable(spark)
    table.append(0, 10)
    writer = spark.range(50, 51).selectExpr("id", "'flink' region", "id * 10 amount").writeTo(table.name)
    for name, value in summary.items():
        writer = writer.option(f"snapshot-property.{name}", value)
    writer.append()
    table.rows |= {50: ("flink", 500)}
    table.append(10, 10)
    table.append(20, 10)
    manage = table.handle.java.manageSnapshots()
    if "age" in retention:
        manage = manage.setMaxSnapshotAgeMs("main", retention["age"])
    if "least" in retention:
        manage = manage.setMinSnapshotsToKeep("main", retention["least"])
    manage.commit()
    old, own = snapshots(table), table.outside().metadata.refs["main"]
    planned = plan_expiry(LoadedIcebergTable(table.outside()), expiry(table))

    report = expire(table)

    assert report.snapshots_expired == planned.snapshots_expired == (old[0],)
    flink, sinks = ("j", None) if summary is FLINK else (None, "'control.connect-orders'")
    assert report.kept_for_flink == planned.kept_for_flink == (dict.fromkeys(old[1:3], flink) if flink else {})
    assert report.kept_for_sinks == planned.kept_for_sinks == (dict.fromkeys(old[1:3], sinks) if sinks else {})
    assert snapshots(table) == old[1:]
    assert table.outside().metadata.refs["main"] == own
    assert table.rows_read() == table.rows
    assert expire(table).outcome is Outcome.NOTHING_DUE

    gone = expire(table, expire_flink_jobs_before=datetime.now(UTC))
    assert (gone.snapshots_expired, gone.kept_for_flink) == (tuple(old[1:3]), {})


def test_an_expiry_after_which_a_flink_job_could_not_upsert_is_refused_by_the_driver_too(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 10)
    table.append(10, 10)
    delete_by_equality(spark, table.handle.java, [1], job_id="j", operator_id="o", max_committed_checkpoint_id="3")

    with pytest.raises(UnsupportedError, match=r"Flink job j \(last commit less than an hour ago\) commits upserts"):
        expire(table)
    assert len(snapshots(table)) == 3
    report = expire(table, allow_other_writers=True)
    assert "Flink job j" in report.warnings[0]
    assert len(report.snapshots_expired) == 2


def test_a_left_over_stage_branch_goes_with_its_snapshots_and_a_live_one_stays(spark: SparkSession) -> None:
    table = three_appends(spark)
    spark.sql(f"ALTER TABLE {table.name} CREATE BRANCH lake_stage_old")
    spark.sql(f"INSERT INTO {table.name}.branch_lake_stage_old VALUES (77, 'north', 1)")
    left_over = table.handle.refresh().head("lake_stage_old")
    table.append(30, 10)
    limit = datetime.now(UTC)
    table.append(40, 10)
    spark.sql(f"ALTER TABLE {table.name} CREATE BRANCH lake_stage_live")
    planned = plan_expiry(LoadedIcebergTable(table.outside()), expiry(table, expire_stage_branches_before=limit))

    report = expire(table, expire_stage_branches_before=limit)

    assert report.outcome is Outcome.DONE
    assert report.stage_branches_removed == planned.stage_branches_removed == ("lake_stage_old",)
    assert str(left_over) in report.snapshots_expired
    assert report.snapshots_expired == planned.snapshots_expired
    assert set(table.outside().metadata.refs) == {"main", "lake_stage_live"}
    assert table.rows_read() == table.rows


def test_a_table_whose_files_belong_to_others_is_skipped(spark: SparkSession) -> None:
    table = three_appends(spark)
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('gc.enabled'='false')")

    done, planned = expire(table), plan_expiry(LoadedIcebergTable(table.outside()), expiry(table))

    assert (done.outcome, planned.outcome) == (Outcome.SKIPPED, Outcome.SKIPPED)
    assert done.reason == planned.reason
    assert "gc.enabled is false" in done.reason
    assert len(snapshots(table)) == 3


def test_a_missing_table_is_named(spark: SparkSession) -> None:
    spec = SnapshotExpirySpec(
        catalog=CATALOG,
        table="maintained.nowhere",
        run=RUN,
        expire_before=LONG_AGO,
        expire_stage_branches_before=LONG_AGO,
    )

    with pytest.raises(MissingTableError, match=r"maintained\.nowhere"):
        expire_snapshots(spark, spec, Progress())


LEAST, AGE, REF_AGE = (
    "history.expire.min-snapshots-to-keep",
    "history.expire.max-snapshot-age-ms",
    "history.expire.max-ref-age-ms",
)


def empty_appends(spark: SparkSession, properties: dict[str, str]) -> MaintainedTable:
    """Make a table with six snapshots of main, and a branch and a tag on the second."""
    table = MaintainedTable(spark)
    said = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    if said:
        spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ({said})")
    util = spark._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]  # JVM attribute
    java = util.loadIcebergTable(spark._jsparkSession, f"{CATALOG}.{table.name}")
    for _ in range(6):
        java.newFastAppend().commit()
    second = list(java.snapshots())[1].snapshotId()
    java.manageSnapshots().createBranch("b", second).createTag("t", second).commit()
    return table


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {LEAST: "3"},
        {AGE: "1"},
        {LEAST: "2", AGE: "1"},
        {LEAST: "5", AGE: "1"},
        {LEAST: "9", AGE: "1"},
        {AGE: "1", REF_AGE: "1"},
        {LEAST: "2", AGE: "1", REF_AGE: "1"},
    ],
)
def test_an_expiry_that_names_no_value_keeps_what_iceberg_keeps_of_a_twin(
    spark: SparkSession, properties: dict[str, str]
) -> None:
    ours, twin = empty_appends(spark, properties), empty_appends(spark, properties)
    asked = {
        "expire_before": None,
        "asked_at": datetime.now(UTC) + timedelta(seconds=1),
        "minimum_age": timedelta(0),
    }
    planned = plan_expiry(LoadedIcebergTable(ours.outside()), expiry(ours, **asked))
    report = expire(ours, **asked)
    time.sleep(0.01)
    spark.sql(f"CALL system.expire_snapshots(table => '{twin.name}')")
    assert len(snapshots(ours)) == len(snapshots(twin))
    assert sorted(ours.outside().metadata.refs) == sorted(twin.outside().metadata.refs)
    assert set(report.snapshots_expired) == set(planned.snapshots_expired)
    for name in properties:
        assert name in report.reason or name == REF_AGE
