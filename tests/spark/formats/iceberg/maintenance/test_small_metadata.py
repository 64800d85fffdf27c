"""Manifests of a small table are read and merged in the driver, with what Spark jobs would come to."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import reachable_files
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import rewrite_manifests as merges
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.rewrite_data_files import newest_job
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.hostile_tables import add_data_file
from tests.spark.maintained_table import MaintainedTable, names_of_files
from tests.spark.maintenance_flow import compact as compact_table
from tests.spark.maintenance_flow import expire, rewrite_manifests, with_four_regions

LIMITS = {"small": {}, "many files": {"MOST_FILES": 0}, "many bytes": {"MOST_BYTES": 0}}


def named(table: MaintainedTable) -> set[str]:
    return names_of_files(table.outside())


def on_disk(table: MaintainedTable) -> set[str]:
    metadata_file = table.outside().metadata_location.removeprefix("file://").removeprefix("file:")
    folders = {path.parent for path in table.files_on_disk()} | {Path(metadata_file).parent}
    return {path.name for each in folders for path in each.iterdir() if path.suffix in (".parquet", ".puffin", ".avro")}


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_an_expiry_deletes_what_no_snapshot_names_wherever_its_manifests_are_read(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(reachable_files, name, value)
    table = MaintainedTable(spark, version=2)
    table.append(0, 5)
    table.append(5, 5)
    table.delete([1, 2])
    spark.sql(f"INSERT OVERWRITE {table.name} SELECT 50L, 'north', 500L")
    table.rows = {50: ("north", 500)}
    table.append(60, 5)

    last_job = newest_job(spark)
    report = expire(table)
    has_run_jobs = newest_job(spark) > last_job

    assert (report.outcome, report.data_files_deleted, report.delete_files_deleted) == (Outcome.DONE, 2, 1)
    assert on_disk(table) == named(table)
    assert table.rows_read() == table.rows
    assert has_run_jobs is bool(limits)


@pytest.mark.parametrize("limits", [{}, {"MOST_FILES": 0}], ids=["driver", "executors"])
@pytest.mark.parametrize("store", ["hdfs://name-node:8020", "abfss://files@account.dfs.core.windows.net"])
def test_a_live_file_that_expired_snapshots_name_without_its_store_stays(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int], store: str
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(reachable_files, name, value)
    table = MaintainedTable(spark, version=2)
    table.append(0, 5)
    (file,) = table.files_on_disk()
    # As ``add_files`` brings back what a deletion has left, by the name that the location has since.
    spark.sql(f"DELETE FROM {table.name}")
    add_data_file(table, f"{store}{file}")

    assert expire(table).outcome is Outcome.DONE
    assert file.exists()


@pytest.mark.parametrize("limits", [{}, {"MOST_FILES": 1}, {"MOST_BYTES": 1}], ids=LIMITS)
def test_merged_manifests_keep_files_and_rows_with_their_ids(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(merges, name, value)
    table = with_four_regions(MaintainedTable(spark, partitioned=True))
    files, lineage = sorted(table.live_files()), table.lineage()

    last_job = newest_job(spark)
    report = rewrite_manifests(table)
    has_run_jobs = newest_job(spark) > last_job

    assert (report.outcome, report.manifests_added, len(report.committed)) == (Outcome.DONE, 1, 1)
    assert report.manifests_rewritten == 8
    assert (sorted(table.live_files()), table.lineage()) == (files, lineage)
    assert {record["id"] for record in table.records()} == set(table.rows)
    assert has_run_jobs is bool(limits)


def test_what_fills_no_file_is_one_commit_and_more_are_several(spark: SparkSession) -> None:
    commits = []
    for target in (None, 3000):
        table = with_four_regions(MaintainedTable(spark, partitioned=True))
        options = {"target_file_size": target} if target else {}
        report = compact_table(table, Progress(), rewrite_manifests=False, min_input_files=2, **options)
        assert (report.outcome, report.groups_rewritten, report.attempts) == (Outcome.DONE, 4, 1)
        assert table.rows_read() == table.rows
        commits.append(len(report.committed))
    assert commits == [1, 4]
