"""Resolve the keys of a batch to positions in a table; only key columns of files that may hold one are read.

Resolving costs the batch and one pruned read of the key columns (decision 11; Airbyte, OLake and Kafka Connect do
the same on one node). ``MERGE INTO`` shuffles and sorts every row of the target.
"""

from __future__ import annotations

from collections.abc import Set

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegralType

from airflow_lake_provider.spark_jobs.batch.change_batch import MARKERS
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import (
    WINS,
    ResolvedRows,
    collect_positions,
    place_columns,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import live_tasks, rows_of_files
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_pruning import key_pruning
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import OLD, PlannedUpsert, row_merge
from airflow_lake_provider.spark_jobs.session.pinned_settings import without_adaptive_execution
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted, quoted_name


def resolve_rows(table: IcebergTable, commit: PlannedUpsert) -> ResolvedRows:
    """Find the rows with a key of the batch at ``commit.base``."""
    candidates = commit.planned_candidates(table)
    if candidates is None:
        return ResolvedRows()
    if not candidates.rows_by_file:
        return ResolvedRows(pruning=candidates.pruning)
    located, places = commit.located, place_columns(table.format_version)
    # A commit that is made of them is never rebased, so that they are those of its base.
    if located is not None and commit.reads_table and set(places) <= set(located.columns):
        return _resolved(table, commit, located, candidates.pruning)
    # Of the files as they were planned: Spark would read the manifests once more.
    with rows_of_files(table, candidates.tasks) as table_rows:
        if table_rows is None:
            table_rows = candidates.of(table.rows_of_base(int(candidates.snapshot)))
        elif not _is_joined_by_number(commit):
            table_rows = candidates.of(table_rows)
        return _resolved(table, commit, table_rows, candidates.pruning)


def _is_joined_by_number(commit: PlannedUpsert) -> bool:
    """Tell whether Spark's join compares one whole number, which takes about as long as a filter by its ranges.

    Without the filter, whose numbers stand in the code that Spark generates, every batch runs the same code: nothing
    is compiled for the second one. Text keys take several times as long to join as to filter.
    """
    return len(commit.keys) == 1 and isinstance(commit.batch_keys.types[commit.keys[0]], IntegralType)


def resolve_appended_rows(table: IcebergTable, commit: PlannedUpsert, start: int, end: int) -> ResolvedRows:
    """Find them in the files that appends have added since ``start``, and read no others.

    :param start: exclusive; every snapshot from there to ``end`` is an append.
    """
    table.prepare_to_read(end)
    reader = table.spark.read.option("start-snapshot-id", str(start)).option("end-snapshot-id", str(end))
    predicates, pruning = key_pruning(table, commit.batch_keys, "t", by_bucket=False)
    table_rows = reader.table(table.sql_name).alias("t")
    for predicate in predicates:
        table_rows = table_rows.filter(sf.expr(predicate))
    return _resolved(table, commit, table_rows, pruning)


def resolve_rows_of_files(table: IcebergTable, commit: PlannedUpsert, paths: Set[str]) -> ResolvedRows | None:
    """Find them in some data files, and read no others.

    :param paths: those that are not live at ``commit.base`` have no rows there.
    :return: None where rows of chosen files cannot be told their position.
    """
    if not paths:
        return ResolvedRows()
    predicates, pruning = key_pruning(table, commit.batch_keys, quoted_name(table.name.table), by_bucket=False)
    tasks = live_tasks(table, int(commit.base or 0), paths, " AND ".join(predicates))
    if not tasks:
        return ResolvedRows(pruning=pruning)
    with rows_of_files(table, tasks) as table_rows:
        return None if table_rows is None else _resolved(table, commit, table_rows, pruning)


def _resolved(table: IcebergTable, commit: PlannedUpsert, table_rows: DataFrame, pruning: str) -> ResolvedRows:
    merge = row_merge(table, commit)
    keys = [quoted(key) for key in commit.keys]
    old = [quoted(name).alias(OLD + name.lower()) for name in merge.reads]
    changes = commit.rows.select(*keys, *(quoted(name) for name in deciding_columns(commit)))
    rows = table_rows.select(*keys, *place_columns(table.format_version), *old).join(
        sf.broadcast(changes), on=list(commit.keys)
    )
    # Lazy: the job that collects the positions also fills it.
    rows = rows.withColumn(WINS, sf.expr(merge.wins or "true"))
    with without_adaptive_execution(table.spark):
        rows = rows.localCheckpoint(eager=False)
    place = collect_positions(rows, commit.batch_keys.count, commit.keys)
    return ResolvedRows(rows=rows.drop("_pos", *deciding_columns(commit)), place=place, pruning=pruning)


def deciding_columns(commit: PlannedUpsert) -> list[str]:
    """Return the columns of the batch, beside the keys, that decide whether its row changes the table's."""
    order = commit.order_by if commit.merge_engine.ignore_stale else ()
    markers = [name for name in MARKERS if name in commit.rows.columns]
    keys = {key.lower() for key in commit.keys}
    return [*markers, *(name for name in order if name.lower() not in keys)]
