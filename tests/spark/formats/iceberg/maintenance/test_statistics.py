"""Statistics as PyIceberg and Iceberg's readers find them, beside writers that commit meanwhile."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.spark_jobs.actions.maintain_table import compute_statistics
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.maintained_table import MaintainedTable, ProgressThatRuns
from tests.spark.maintenance_flow import statistics, with_four_regions


@pytest.mark.parametrize("version", [1, 2])
def test_a_commit_that_is_made_meanwhile_is_no_conflict(spark: SparkSession, version: int) -> None:
    table = with_four_regions(MaintainedTable(spark, version=version, partitioned=True))
    head, writer = table.head(), table.other_session()

    def write() -> None:
        writer.sql(f"INSERT INTO {table.name} VALUES (999L, 'north', 1L)")

    report = compute_statistics(spark, statistics(table), ProgressThatRuns("table statistics", write))

    assert (report.outcome, report.of_snapshot) == (Outcome.DONE, head)
    metadata = table.outside().metadata
    (of_table,), (of_partitions,) = metadata.statistics, metadata.partition_statistics
    assert {str(of_table.snapshot_id), str(of_partitions.snapshot_id)} == {head}
    assert (of_table.statistics_path, of_partitions.statistics_path) == (report.table_file, report.partition_file)
    assert report.distinct_counts == {"id": 400, "region": 4, "amount": 400}
    rows = pq.read_table(Path(of_partitions.statistics_path.removeprefix("file:"))).to_pylist()
    counted = {row["partition"]["region"]: row["data_record_count"] for row in rows}
    assert counted == dict.fromkeys(("north", "south", "east", "west"), 100)


def test_a_table_without_partitions_has_no_statistics_of_them(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    assert compute_statistics(spark, statistics(table), Progress()).outcome is Outcome.NOTHING_DUE
    table.append(0, 3)
    report = compute_statistics(spark, statistics(table, columns=["id"]), Progress())
    assert (report.distinct_counts, report.partition_file) == ({"id": 3}, None)
    assert table.on_worker().plan_statistics(statistics(table, columns=["id"])).outcome is Outcome.NOTHING_DUE


def test_a_column_that_spark_does_not_read_is_left_out_and_in_nobodys_way(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS (_deleted BOOLEAN)")
    spark.sql(f"INSERT INTO {table.name} VALUES (1, 'a', 10, true)")
    report = compute_statistics(spark, statistics(table), Progress())
    assert (report.outcome, report.distinct_counts) == (Outcome.DONE, {"id": 1, "region": 1, "amount": 1})
    assert "no distinct values of ['_deleted'] were counted" in report.warnings[0]
    assert table.on_worker().plan_statistics(statistics(table)).outcome is Outcome.NOTHING_DUE


def test_columns_that_somebody_asks_for_later_are_counted_beside_those_of_before(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    for column, counts in (("id", {"id": 3}), ("region", {"id": 3, "region": 1})):
        asked = statistics(table, columns=[column])
        assert table.on_worker().plan_statistics(asked).outcome is Outcome.PLANNED
        report = compute_statistics(spark, asked, Progress())
        assert (report.outcome, report.distinct_counts) == (Outcome.DONE, counts)
    for column in counts:
        asked = statistics(table, columns=[column])
        assert table.on_worker().plan_statistics(asked).outcome is Outcome.NOTHING_DUE
        assert compute_statistics(spark, asked, Progress()).outcome is Outcome.NOTHING_DUE
    (blobs,) = (each.blob_metadata for each in table.outside().metadata.statistics)
    assert sorted(id_ for blob in blobs for id_ in blob.fields) == [1, 2]


def test_a_table_of_which_nothing_can_be_counted_is_planned_for_as_it_is_computed(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS (tags ARRAY<INT>, `a.b` INT)")
    spark.sql(f"ALTER TABLE {table.name} DROP COLUMNS (id, region, amount)")
    spark.sql(f"INSERT INTO {table.name} VALUES (array(1), 1)")
    assert compute_statistics(spark, statistics(table), Progress()).outcome is Outcome.NOTHING_DUE
    assert table.on_worker().plan_statistics(statistics(table)).outcome is Outcome.NOTHING_DUE


def test_a_column_is_counted_by_the_name_that_the_snapshot_has_or_is_named_as_left_out(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS (`a.b` INT, `c``d` INT, place STRUCT<zip: INT>)")
    spark.sql(f"INSERT INTO {table.name} VALUES (1, 'n', 5, 1, 1, named_struct('zip', 7)), (2, 'n', 5, 1, 1, NULL)")
    spark.sql(f"ALTER TABLE {table.name} RENAME COLUMN amount TO total")
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMN later INT")
    table.spark.catalog.refreshTable(table.name)
    asked = ["total", "place.zip", "a.b", "later"]
    report = compute_statistics(spark, statistics(table, columns=asked), Progress())
    assert report.distinct_counts == {"total": 1, "place.zip": 1}
    (warning,) = report.warnings
    assert "['a.b', 'later']" in warning


def test_all_columns_are_those_that_can_be_counted(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS (`a.b` INT, tags ARRAY<INT>)")
    spark.sql(f"INSERT INTO {table.name} VALUES (1, 'n', 5, 1, array(1)), (2, 'n', 5, 1, NULL)")
    report = compute_statistics(spark, statistics(table), Progress())
    assert report.outcome is Outcome.DONE
    assert report.distinct_counts == {"id": 2, "region": 1, "amount": 1}
    assert "['a.b']" in report.warnings[0]


@pytest.mark.parametrize("field", ["region", "bucket(3, region)"])
@pytest.mark.parametrize("has_other", [False, True])
def test_partitions_by_a_column_that_was_dropped_are_not_counted(
    spark: SparkSession, field: str, has_other: bool
) -> None:
    table = MaintainedTable(spark)
    spark.sql(f"ALTER TABLE {table.name} ADD PARTITION FIELD {field} AS former")
    table.append(0, 3)
    spark.sql(f"ALTER TABLE {table.name} DROP PARTITION FIELD former")
    if has_other:
        spark.sql(f"ALTER TABLE {table.name} ADD PARTITION FIELD truncate(10, id) AS tens")
    spark.sql(f"ALTER TABLE {table.name} DROP COLUMN region")
    spark.sql(f"INSERT INTO {table.name} VALUES (10, 5), (11, 5)")
    asked = statistics(table)
    lacking = "the table and its partitions" if has_other else "the table"
    assert table.on_worker().plan_statistics(asked).reason == f"main's head lacks statistics of {lacking}"

    report = compute_statistics(spark, asked, Progress())

    assert (report.outcome, report.distinct_counts) == (Outcome.DONE, {"id": 5, "amount": 4})
    assert (report.partition_file is not None) is has_other
    if report.partition_file is not None:
        rows = pq.read_table(Path(report.partition_file.removeprefix("file:"))).to_pylist()
        assert {row["partition"]["tens"]: row["data_record_count"] for row in rows} == {None: 3, 10: 2}
    assert table.on_worker().plan_statistics(asked).outcome is Outcome.NOTHING_DUE
