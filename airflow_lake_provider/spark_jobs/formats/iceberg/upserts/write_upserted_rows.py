"""Write the rows that an upsert leaves as data files, without a commit: merged values, under the row ids they had."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField

from airflow_lake_provider.spark_jobs.batch.row_merge import RowMerge
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import ROW_ID, WINS, ResolvedRows
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.write_data_files import LAST_UPDATED, write_staged
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import PlannedUpsert, row_merge
from airflow_lake_provider.spark_jobs.session.pinned_settings import without_adaptive_execution
from airflow_lake_provider.spark_jobs.sql.nested_types import nullable

# Spark's own limit of 10 MB is for tables whose size it guesses; the rows here are counted, some 40 bytes each.
_MOST_BROADCAST = 1_000_000


def write_upserted_rows(table: IcebergTable, commit: PlannedUpsert, resolved: ResolvedRows) -> list[Any]:
    """Stage the rows that the batch leaves; a row that replaces another keeps its row id.

    :return: ``org.apache.iceberg.DataFile`` objects; none when the batch only deletes.
    """
    rows = rows_of_batch(table, commit, resolved)
    with without_adaptive_execution(table.spark) if _shuffles_nothing(table, commit, resolved) else nullcontext():
        return write_staged(table, rows)


def _shuffles_nothing(table: IcebergTable, commit: PlannedUpsert, resolved: ResolvedRows) -> bool:
    """Tell whether neither the join with the rows found nor the writer shuffles: then one plan is enough.

    Of a plan that does, adaptive execution merges the partitions, each of which would become a data file.
    """
    is_written_as_it_is = not table.facts.shape.partition_fields() and not table.java.sortOrder().isSorted()
    is_broadcast = resolved.row_count <= _MOST_BROADCAST and not row_merge(table, commit).reads
    return is_written_as_it_is and is_broadcast and not resolved.place.may_repeat


def rows_of_batch(table: IcebergTable, commit: PlannedUpsert, resolved: ResolvedRows) -> DataFrame:
    """Return the rows that the batch leaves, with the columns that :func:`write_staged` takes."""
    merge = row_merge(table, commit)
    existing = _needed(resolved, merge)
    rows = commit.rows
    is_held, stays = sf.lit(False), sf.expr(merge.adds)
    if existing is not None:
        rows = rows.join(existing, on=list(commit.keys), how="left")
        is_held = sf.col(WINS).isNotNull()
        replaces = sf.col(WINS) & ~sf.expr(merge.removes or "false")
        stays = sf.when(is_held, replaces).otherwise(stays)
    columns = [_value(merge, field, is_held if existing is not None else None) for field in table.schema()]
    if table.format_version >= 3:
        row_id = sf.col(ROW_ID) if ROW_ID in rows.columns else sf.lit(None).cast("bigint").alias(ROW_ID)
        # The writer fills the other with the commit's own sequence number.
        columns += [row_id, sf.lit(None).cast("bigint").alias(LAST_UPDATED)]
    return rows.filter(stays).select(*columns)


def _needed(resolved: ResolvedRows, merge: RowMerge) -> DataFrame | None:
    """Return what is to be joined of the rows found; None when what is written does not depend on them."""
    existing = resolved.rows
    if existing is None or (merge.ignores_existing_row and ROW_ID not in existing.columns):
        return None
    if merge.reads:
        return existing
    # A table may hold a key twice: one row takes their place, unless each has values to keep.
    existing = existing.dropDuplicates(list(merge.keys)) if resolved.place.may_repeat else existing
    return sf.broadcast(existing) if resolved.row_count <= _MOST_BROADCAST else existing


def _value(merge: RowMerge, field: StructField, is_held: Column | None) -> Column:
    new = sf.expr(merge.added(field.name))
    if is_held is not None:
        new = sf.when(is_held, sf.expr(merge.value(field.name))).otherwise(new)
    # The writer sees to what is required: a cast of a struct refuses what may be NULL, whether or not it is.
    return new.cast(nullable(field.dataType)).alias(field.name)
