"""Choose the implementation of a table format by its name: the one place where that is done."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.capabilities import declared_format
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.base import FormatTable, TableFormat


def format_named(name: str) -> TableFormat:
    """Return a table format.

    :raises UnsupportedError: this version does not know it.
    """
    table_format: TableFormat = resolve_name(declared_format(name).driver)()
    return table_format


def table_of(spark: SparkSession, spec: JobSpec, name: TableName | None = None) -> FormatTable:
    """Return a table of the spec's catalog, in the spec's format.

    :param name: another table than the spec's own.
    :raises UnsupportedError: the format is not known.
    """
    given = {each: getattr(spec, each) for each in spec.format_arguments if name is None}
    return format_named(spec.table_format).table(spark, spec.catalog, name or TableName.parse(spec.table), given)


def open_catalog(spark: SparkSession, spec: JobSpec) -> Any:
    """Open the spec's catalog in a session, and return what ``close()`` ends the connections of."""
    return format_named(spec.table_format).open_catalog(spark, spec.catalog)
