"""Requirements of a strategy on a table, for one that exists and for one that is about to be created."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.table_facts import TableShape
from airflow_lake_provider.iceberg.table_obstacles import strategy_obstacles
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import (
    COPY_ON_WRITE,
    EQUALITY,
    POSITIONS,
    missing_internals,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.partition_values import is_supported

_INTERNALS = {
    UpsertStrategy.POSITIONS: POSITIONS,
    UpsertStrategy.COPY_ON_WRITE: COPY_ON_WRITE,
    UpsertStrategy.EQUALITY: EQUALITY,
}


def lacking_internals(spark: SparkSession, strategy: UpsertStrategy) -> str | None:
    """Return which classes of the runtime a strategy misses, as a clause."""
    missing = missing_internals(spark, _INTERNALS.get(strategy, ()))
    return f"this Iceberg runtime lacks {', '.join(missing)}" if missing else None


def unfit_for(table: IcebergTable, strategy: UpsertStrategy, keys: Sequence[str]) -> str | None:
    """Return why a table is never changed by a strategy; None where it may be."""
    return unfit_shape(table.facts.shape, table.java.spec(), strategy, keys)


def unfit_shape(shape: TableShape, spec: Any, strategy: UpsertStrategy, keys: Sequence[str]) -> str | None:
    """Return why a table of this shape, which may not be there yet, is never changed by a strategy.

    :param spec: its ``org.apache.iceberg.PartitionSpec``: only the driver knows which values it can compute.
    """
    obstacle = next(strategy_obstacles(shape, strategy, keys), None)
    return obstacle or (_unknown_transforms(spec) if strategy is UpsertStrategy.EQUALITY else None)


def _unknown_transforms(spec: Any) -> str | None:
    results = spec.partitionType()
    unknown = [f for f in spec.fields() if not is_supported(f, results.field(f.fieldId()).type())]
    return f"partition fields {', '.join(str(f) for f in unknown)} cannot be computed here" if unknown else None
