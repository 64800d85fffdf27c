"""Choose the implementation of a table format by its name."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.job_spec import JobSpec
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.base import (
    KeyedTable,
    MaintainedTable,
    MatchedTable,
    SourceTable,
    VersionedTable,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.versioned_table import IcebergVersionedTable
from airflow_lake_provider.spark_jobs.formats.iceberg.incremental.source_table import IcebergSourceTable
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.maintained_table import IcebergMaintainedTable
from airflow_lake_provider.spark_jobs.formats.iceberg.row_changes.matched_table import IcebergMatchedTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table import filter_pushdown
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.keyed_table import IcebergKeyedTable

KNOWN_FORMATS = ("iceberg",)


def keyed_table(spark: SparkSession, spec: JobSpec, name: TableName | None = None) -> KeyedTable:
    """Return a table of the spec's catalog for writing by key.

    :param name: another table than the spec's own.
    :raises UnsupportedError: for a format this version does not know.
    """
    _refuse_unknown(spec)
    return IcebergKeyedTable(IcebergTable(spark, spec.catalog, name or spec.name))


def source_table(spark: SparkSession, spec: JobSpec, name: TableName) -> SourceTable:
    """Return a table of the spec's catalog for reading its changes."""
    _refuse_unknown(spec)
    return source_in_catalog(spark, spec.catalog, name)


def source_in_catalog(spark: SparkSession, catalog: str, name: TableName) -> SourceTable:
    """Return a table of a catalog for reading its changes, where there is no spec."""
    return IcebergSourceTable(IcebergTable(spark, catalog, name))


def maintained_table(spark: SparkSession, spec: JobSpec) -> MaintainedTable:
    """Return the spec's table for maintenance."""
    _refuse_unknown(spec)
    return IcebergMaintainedTable(IcebergTable(spark, spec.catalog, spec.name))


def properties_of(spark: SparkSession, spec: JobSpec) -> dict[str, str]:
    """Return the properties of the spec's table, read now."""
    return IcebergTable(spark, spec.catalog, spec.name).refresh().properties()


def open_catalog(spark: SparkSession, spec: JobSpec) -> Any:
    """Open the spec's catalog in a session, and return what ``close()`` ends the connections of."""
    _refuse_unknown(spec)
    return IcebergTable(spark, spec.catalog, spec.name).java_catalog


def matched_table(spark: SparkSession, spec: JobSpec) -> MatchedTable:
    """Return the spec's table for changes of the rows that match."""
    _refuse_unknown(spec)
    return IcebergMatchedTable(IcebergTable(spark, spec.catalog, spec.name))


def versioned_table(spark: SparkSession, spec: JobSpec) -> VersionedTable:
    """Return the spec's table for changes of its metadata."""
    _refuse_unknown(spec)
    return IcebergVersionedTable(IcebergTable(spark, spec.catalog, spec.name))


def rows_for_queries(spark: SparkSession, name: TableName, rows: DataFrame, snapshot: str) -> DataFrame:
    """Return rows of a table of which a query finds what its predicates are true for.

    :param rows: read from ``snapshot`` of the table in the session's current catalog.
    """
    table = IcebergTable(spark, spark.catalog.currentCatalog(), name)
    return filter_pushdown.rows_for_queries(table, rows, int(snapshot))


def refuse_unreadable(spark: SparkSession, name: TableName) -> None:
    """Refuse a table of the session's current catalog that Spark cannot read.

    :raises UnsupportedError: naming the columns.
    """
    IcebergTable(spark, spark.catalog.currentCatalog(), name).refresh_readable()


def _refuse_unknown(spec: JobSpec) -> None:
    if spec.table_format not in KNOWN_FORMATS:
        raise UnsupportedError(
            f"table format {spec.table_format!r} is not known; this version knows {', '.join(KNOWN_FORMATS)}"
        )
