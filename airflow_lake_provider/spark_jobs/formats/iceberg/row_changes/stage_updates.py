"""The rows that an update leaves, as data files written by Iceberg's own Spark writer, without a commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.found_rows import ROW_ID, ResolvedRows
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.staged_files import LAST_UPDATED, write_staged
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.schema_differences import (
    DifferenceKind,
    schema_differences,
)
from airflow_lake_provider.spark_jobs.sql.columns import quoted
from airflow_lake_provider.spark_jobs.sql.nested_types import fitted_value, is_nested, nullable


def stage_updates(table: IcebergTable, matched: ResolvedRows, assignments: Mapping[str, str]) -> list[Any]:
    """Stage the rows with their new values; each keeps its row id.

    :return: ``org.apache.iceberg.DataFile`` objects.
    :raises InvalidSpecError: a column is not there, or identifies rows.
    :raises BadInputError: a required column would become NULL.
    """
    return [] if matched.rows is None else write_staged(table, updated_rows(table, matched.rows, assignments))


def updated_rows(table: IcebergTable, rows: DataFrame, assignments: Mapping[str, str]) -> DataFrame:
    """Return the rows with their new values, with the columns that :func:`write_staged` takes.

    :raises InvalidSpecError: a column is not there, or identifies rows.
    """
    schema = table.spark.table(table.sql_name).schema
    given = {name.lower(): expression for name, expression in assignments.items()}
    _refuse_columns(table, schema, given)
    columns = [
        _assigned(table, rows, field, given[field.name.lower()]) if field.name.lower() in given else quoted(field.name)
        for field in schema
    ]
    if ROW_ID in rows.columns:
        # The writer fills it with the commit's own sequence number.
        columns += [sf.col(ROW_ID), sf.lit(None).cast("bigint").alias(LAST_UPDATED)]
    return rows.select(*columns)


def _assigned(table: IcebergTable, rows: DataFrame, field: StructField, expression: str) -> Column:
    """Return the value of an assignment; fields of a struct are matched by name, where a cast goes by their place."""
    value = sf.expr(expression)
    if is_nested(field.dataType):
        given = rows.select(value.alias("value")).schema[0].dataType
        found = list(schema_differences(field.dataType, given, (field.name,)))
        unlike = [each.name for each in found if each.kind in (DifferenceKind.ADDED, DifferenceKind.MISSING)]
        if unlike:
            raise InvalidSpecError(
                f"{table.name}: the value assigned to {field.name} is {given.simpleString()}, and differs from the "
                f"column's {field.dataType.simpleString()} in the fields {unlike}; give each field of the column"
            )
        value = sf.expr(fitted_value(f"({expression})", given, field.dataType, lambda _: "NULL"))
    return value.cast(nullable(field.dataType)).alias(field.name)


def _refuse_columns(table: IcebergTable, schema: StructType, given: Mapping[str, str]) -> None:
    unknown = sorted(given.keys() - {field.name.lower() for field in schema})
    if unknown:
        raise InvalidSpecError(
            f"{table.name}: assignments name columns that the table lacks: {unknown}; it has {schema.names}"
        )
    identifying = sorted(given.keys() & {str(name).lower() for name in table.java.schema().identifierFieldNames()})
    if identifying:
        raise InvalidSpecError(
            f"{table.name}: assignments may not change the identifier columns {identifying}: two rows could get one "
            "key. Delete the rows and insert them under their new keys"
        )
