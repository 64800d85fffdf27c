"""To find deletes on no data file costs as many commands to the JVM for many files as for one."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.delete_files import dangling_deletes
from tests.spark.equality_delete import delete_by_equality
from tests.spark.jvm_commands import commands
from tests.spark.maintained_table import MaintainedTable


def _dangling(spark: SparkSession, files: int) -> tuple[list[str], int]:
    """Return the deletes on no file of a table with others that are on all, and the commands that it took."""
    table = MaintainedTable(spark)
    (Path(urlsplit(str(table.handle.java.location())).path) / "data").mkdir(parents=True)
    delete_by_equality(spark, table.handle.java, [900])
    spark.sql(f"INSERT INTO {table.name} SELECT /*+ REPARTITION({files}) */ id, 'north', id FROM range(120)")
    for key in (1, 2):
        delete_by_equality(spark, table.handle.refresh().java, [key])
    assert len(table.live_files()) == files
    handle = table.handle.refresh()
    # What is made once for a driver.
    dangling_deletes(handle)
    with commands(spark) as sent:
        dangling = dangling_deletes(handle)
    return [str(file.location()).rpartition("/")[2] for file in dangling], len(sent)


def test_deletes_on_no_data_file_are_told_by_as_many_commands_for_many_files_as_for_one(spark: SparkSession) -> None:
    few, many = _dangling(spark, 1), _dangling(spark, 12)
    assert few[0] == many[0] == ["equality-900.parquet"]
    assert few[1] == many[1]
