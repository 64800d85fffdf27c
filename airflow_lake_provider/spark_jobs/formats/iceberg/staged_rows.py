"""The rows that an upsert leaves, as data files written by Iceberg's own Spark writer, without a commit."""

from __future__ import annotations

import uuid
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.table_layout import MissingColumns
from airflow_lake_provider.spark_jobs.change_batch import DELETED
from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.internals import spark_table_cache
from airflow_lake_provider.spark_jobs.formats.iceberg.resolved_rows import ROW_ID, ResolvedRows
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable
from airflow_lake_provider.spark_jobs.latest_changes import quoted

_LAST_UPDATED = "_last_updated_sequence_number"
# Spark's own limit of 10 MB is for tables whose size it guesses; the rows here are counted, some 40 bytes each.
_MOST_BROADCAST = 1_000_000


def kept_columns(table: IcebergTable, commit: KeyedCommit) -> list[str]:
    """Return the columns of the table whose old values a row keeps that the batch replaces."""
    if commit.missing_columns is not MissingColumns.KEEP:
        return []
    given = {name.lower() for name in commit.rows.columns}
    return [name for name in table.spark.table(table.sql_name).columns if name.lower() not in given]


def stage_rows(table: IcebergTable, commit: KeyedCommit, resolved: ResolvedRows) -> list[Any]:
    """Stage the rows of the batch that are not deletes; a row that replaces another keeps its row id.

    :return: ``org.apache.iceberg.DataFile`` objects; none when the batch only deletes.
    """
    rows = _joined(commit, resolved, kept_columns(table, commit))
    given = {name.lower(): name for name in rows.columns}
    columns = [
        quoted(given[field.name.lower()]).cast(field.dataType).alias(field.name)
        if field.name.lower() in given
        else sf.lit(None).cast(field.dataType).alias(field.name)
        for field in table.spark.table(table.sql_name).schema
    ]
    if table.format_version >= 3:
        # The writer fills it with the commit's own sequence number.
        columns += [sf.col(ROW_ID), sf.lit(None).cast("bigint").alias(_LAST_UPDATED)]
    return _stage(table, rows.select(*columns))


def _joined(commit: KeyedCommit, resolved: ResolvedRows, kept: list[str]) -> DataFrame:
    rows = commit.rows.filter(~sf.col(DELETED)).drop(DELETED)
    if resolved.rows is None:
        return rows.withColumn(ROW_ID, sf.lit(None).cast("bigint"))
    # A table may hold a key twice: one row takes their place, unless each has values to keep.
    old = resolved.rows if kept else resolved.rows.dropDuplicates(list(commit.keys))
    if old.columns == list(commit.keys):
        return rows
    if resolved.updated + resolved.deleted <= _MOST_BROADCAST and not kept:
        old = sf.broadcast(old)
    return rows.join(old, on=list(commit.keys), how="left")


def _stage(table: IcebergTable, rows: DataFrame) -> list[Any]:
    jvm: Any = table.spark._jvm
    name = f"lake_stage_{uuid.uuid4().hex}"
    cache = spark_table_cache(table.spark)
    coordinator = jvm.org.apache.iceberg.spark.FileRewriteCoordinator.get()
    cache.add(name, table.java)
    try:
        # The writer of Iceberg's rewrites: distribution, sort order, file size and format are the table's.
        rows.write.format("iceberg").mode("append").option("rewritten-file-scan-task-set-id", name).save(name)
        return list(coordinator.fetchNewFiles(table.java, name))
    finally:
        coordinator.clearRewrite(table.java, name)
        cache.remove(name)
