"""Chosen files are read by as many Spark tasks as a scan of the whole table would have."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.formats.iceberg.incremental.row_versions import live_files
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import FileScan
from tests.spark.formats.iceberg.incremental.changes_history import ChangesHistory


@pytest.mark.parametrize(("target", "tasks"), [(None, 4), (8 << 20, 8)], ids=["of 16 MB", "as the table says"])
def test_chosen_files_are_shared_among_the_cores(spark: SparkSession, target: int | None, tasks: int) -> None:
    history = ChangesHistory(spark)
    if target is not None:
        history.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('read.split.target-size'='{target}')")
    # Each counts as 4 MB, the price of opening it.
    head = history.run("INSERT INTO {t} SELECT /*+ REPARTITION(16) */ id, 'a' FROM range(64)")
    table = history.handle()
    files = live_files(table, int(head))
    assert len(files) == 16
    scan = FileScan(spark, table.java, [file.task for file in files])
    try:
        assert scan.dataframe.rdd.getNumPartitions() == tasks
        assert scan.dataframe.count() == 64
    finally:
        scan.close()
