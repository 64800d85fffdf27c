"""Batches of change events read as the driver reads them, and applied to a plain dict."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.sources.base import ChangeBatch
from airflow_lake_provider.spark_jobs.sources.cdc.change_events import TargetState, read_change_events
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.source import DebeziumEnvelope
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from tests.spark.sources.debezium.shop_events import events_of

ITEMS = "id INT, n INT, note STRING"
Rows = dict[tuple[Any, ...], dict[str, Any]]


def read_debezium_changes(
    spark: SparkSession,
    source: Debezium,
    files: tuple[InputFile, ...],
    keys: Sequence[str],
    target: TargetState,
    **options: Any,
) -> ChangeBatch:
    """Read a batch of Debezium's events, as the source does."""
    return read_change_events(DebeziumEnvelope(spark, source, files), keys, target, **options)


def applied(rows: Rows, batch: ChangeBatch, keys: list[str]) -> Rows:
    """The table after a batch, by the plainest means: a Python dict."""
    after = dict(rows)
    for change in batch.changes.collect():
        row = {name: in_utc(value) for name, value in change.asDict().items()}
        key = tuple(row[name] for name in keys)
        if row.pop(DELETED):
            after.pop(key, None)
        else:
            after[key] = row
    return after


def in_utc(value: Any) -> Any:
    # PySpark hands timestamps out in the machine's zone and without saying so.
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def as_table(spark: SparkSession, rows: Rows, ddl: str) -> DataFrame | None:
    return spark.createDataFrame(list(rows.values()), ddl) if rows else None


def read_items(
    spark: SparkSession, path: str, rows: Rows | None = None, ddl: str = ITEMS, keys: tuple[str, ...] = ("id",)
) -> ChangeBatch:
    before = as_table(spark, rows or {}, ddl)
    return read_debezium_changes(
        spark, events_of("items", ddl), list_input_files(spark, path), keys, TargetState(None, before)
    )


def by_id(rows: dict[int, dict[str, Any]]) -> Rows:
    return {(key,): row for key, row in rows.items()}
