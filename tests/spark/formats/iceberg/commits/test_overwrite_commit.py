"""A commit that takes partitions away, on a table whose files it would cut."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.commits import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import (
    PartitionOverwrite,
    commit_row_delta,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


def test_a_filter_that_cuts_a_file_is_no_conflict_that_a_retry_could_win(spark: SparkSession) -> None:
    name = f"overwritten.t_{uuid.uuid4().hex[:8]}"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake_default.overwritten")
    spark.sql(f"CREATE TABLE lake_default.{name} USING iceberg AS SELECT id FROM range(0, 4, 1, 1)")
    table = IcebergTable(spark, "lake_default", TableName.parse(name))
    jvm: Any = spark._jvm
    where = jvm.org.apache.iceberg.expressions.Expressions.equal("id", jvm.java.lang.Long.valueOf(3))
    commit = DataCommit(action="overwrite-partitions", run_key="k", base=table.base_of(None))
    with pytest.raises(UnsupportedError, match=r"would take single rows of a file: .*some, but not all.*allow_rows"):
        commit_row_delta(table, commit, PartitionOverwrite(rows=(), spec_id=0, where=where), {})
    assert sorted(row["id"] for row in spark.table(f"lake_default.{name}").collect()) == [0, 1, 2, 3]
