"""Load a table by its name, and nothing else that Spark takes the name for."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import MissingTableError
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, jvm_of, load_class
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, java_names

_NO_SUCH_PART = ("IllegalArgumentException", "ValidationException")
# What Spark takes a last part for, where the table before it has no such thing.
_PART = re.compile(r"changes|(at_timestamp|snapshot_id)_\d+|(branch|tag)_.+", re.IGNORECASE)


def load_table(spark: SparkSession, catalog: str, name: TableName) -> Any:
    """Return the ``org.apache.iceberg.Table`` of a name.

    :raises MissingTableError: the catalog does not have it.
    """
    spark3 = jvm_of(spark).org.apache.iceberg.spark.Spark3Util
    is_longer = len(name.namespace) > 1
    try:
        java = spark3.loadIcebergTable(java_session(spark), name.quoted(catalog))
    except SPARK_ERRORS as error:
        kind = java_names(error)[0]
        is_of_a_part = is_longer and _PART.fullmatch(name.table) is not None and kind in _NO_SUCH_PART
        if is_of_a_part or kind in ("NoSuchTableException", "NoSuchNamespaceException"):
            raise MissingTableError(f"{name}: no such table in catalog {catalog}") from error
        raise
    if is_longer and not _is_itself(spark, java, name):
        raise MissingTableError(
            f"{name}: no such table in catalog {catalog}; Spark reads {name.table} there as metadata, a branch, a tag "
            f"or a snapshot of the table {'.'.join(name.namespace)}"
        )
    return java


def _is_itself(spark: SparkSession, java: Any, name: TableName) -> bool:
    """Tell whether a table is the one of a name, and none that the name begins with."""
    is_table = load_class(spark, "org.apache.iceberg.HasTableOperations").isInstance(java)
    return bool(is_table) and str(java.name()).endswith(f".{name}")
