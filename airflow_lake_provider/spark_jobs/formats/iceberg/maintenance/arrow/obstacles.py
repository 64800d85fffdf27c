"""Reasons why a table, or a group of its files, is left to Spark's own rewrite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionStrategy
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_columns import arrow_schema
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import ARROW_REWRITE, missing_internals
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.parquet_layout import ParquetLayout
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.row_order import sort_columns
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.table_definition import build_sort_order
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS

# Settings of the session that stand above the table's properties.
_OVERRIDES = "spark.sql.iceberg."
_WRITER_SETTINGS = ("compression-codec", "compression-level", "shred-variants", "format-default")


def table_obstacle(table: IcebergTable, spec: CompactionSpec) -> str | None:
    """Return why no group of a table is rewritten by Arrow; None where it may be."""
    return next(_obstacles(table, spec), None)


def row_order(table: IcebergTable, spec: CompactionSpec) -> dict[str, Any]:
    """Return the order of rows in new files, as Iceberg's JSON has it, with the id of the table's order alike.

    Without a sort, Spark's own rewrite sorts each new file by the order of the table.

    :raises JavaError: ``sort_by`` is no order of the table's columns.
    """
    given = spec.sort_by if spec.strategy is CompactionStrategy.SORT else ()
    order = build_sort_order(table.spark, table.java.schema(), given) if given else table.java.sortOrder()
    of_table = table.iceberg.util.SortOrderUtil.findTableSortOrder(table.java, order)
    return {**json.loads(table.iceberg.SortOrderParser.toJson(order)), "order-id": int(of_table.orderId())}


def _obstacles(table: IcebergTable, spec: CompactionSpec) -> Iterator[str]:
    if spec.strategy.is_by_curve:
        yield f"strategy {spec.strategy.value!r} orders rows"
    if missing := missing_internals(table.spark, ARROW_REWRITE):
        yield f"this Iceberg has no {missing[0]}"
    properties = table.properties()
    if properties.get("write.format.default", "parquet").lower() != "parquet":
        yield f"new files are {properties['write.format.default']}"
    if encrypted := next((name for name in properties if name.startswith("encryption.")), None):
        yield f"property {encrypted!r} encrypts files"
    for name in _WRITER_SETTINGS:
        if table.spark.conf.get(_OVERRIDES + name, None) is not None:
            yield f"the session sets {_OVERRIDES}{name}"
    try:
        ParquetLayout.of(properties)
        schema = json.loads(table.iceberg.SchemaParser.toJson(table.java.schema()))
        sort_columns(row_order(table, spec), arrow_schema(schema, has_row_lineage=table.format_version >= 3))
    except UnsupportedError as error:
        yield str(error)
    except SPARK_ERRORS:
        # The action refuses it, and says why.
        yield "sort_by is no order of the table's columns"
