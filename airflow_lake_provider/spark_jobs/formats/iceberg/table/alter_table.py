"""Statements that alter a table, which another driver may have altered first."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import conflict_message, root_message
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS


def alter_table(table: IcebergTable, changes: Sequence[str]) -> None:
    """Run each change as a commit of its own.

    :param changes: what follows ``ALTER TABLE name``.
    :raises CommitConflictError: another driver was quicker, perhaps with the same change, so that the table has to be
        looked at again.
    """
    before = _columns(table) if changes else ""
    for change in changes:
        try:
            table.spark.sql(f"ALTER TABLE {table.sql_name} {change}")
        except SPARK_ERRORS as error:
            if conflict_message(error) is None and _columns(table) == before:
                raise
            raise CommitConflictError(
                f"{table.name}: {change} was refused, another job altered the table meanwhile: {root_message(error)}"
            ) from error
        before = _columns(table)
    table.refresh()


def _columns(table: IcebergTable) -> str:
    return str(table.iceberg.SchemaParser.toJson(table.refresh().java.schema()))
