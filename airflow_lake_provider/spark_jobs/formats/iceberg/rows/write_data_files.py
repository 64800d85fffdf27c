"""Write data files of a table by Iceberg's own Spark writer, without a commit."""

from __future__ import annotations

import uuid
from typing import Any

from pyspark.sql import DataFrame

from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal, internal, spark_table_cache
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.required_columns import refusing_nulls
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems

LAST_UPDATED = "_last_updated_sequence_number"


def write_staged(table: IcebergTable, rows: DataFrame) -> list[Any]:
    """Write rows as data files of the table, without a commit.

    :param rows: columns of the table and, in format version 3, of its row lineage.
    :return: ``org.apache.iceberg.DataFile`` objects.
    :raises BadInputError: a required column, or a required field inside one, is NULL.
    """
    name = f"lake_stage_{uuid.uuid4().hex}"
    cache = spark_table_cache(table.spark)
    coordinator = internal(table.spark, Internal.FILE_COORDINATOR).get()
    cache.add(name, table.java)
    try:
        # The writer of Iceberg's rewrites: distribution, sort order, file size and format are the table's.
        with refusing_nulls(table, lambda: rows):
            rows.write.format("iceberg").mode("append").option("rewritten-file-scan-task-set-id", name).save(name)
        return list(JavaItems(table.spark, coordinator.fetchNewFiles(table.java, name)))
    finally:
        coordinator.clearRewrite(table.java, name)
        cache.remove(name)
