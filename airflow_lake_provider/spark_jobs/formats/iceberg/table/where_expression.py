"""Predicates as Iceberg expressions, by Spark's own analyser."""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from airflow_lake_provider.spark_jobs.sql.parsed_tree import silenced
from airflow_lake_provider.spark_jobs.sql.predicate import check_predicate


def to_expression(table: IcebergTable, where: str | None, *, is_secret: bool = False, otherwise: str = "") -> Any:
    """Return an ``org.apache.iceberg.expressions.Expression`` of an author's ``where``; always true without one.

    :param is_secret: keep the text out of messages.
    :param otherwise: how to have it taken nevertheless; end of the message.
    :raises InvalidSpecError: it is more than comparisons of columns with constants, or no expression of Iceberg's; of
        the former nothing was analysed.
    """
    if where is None:
        return always_true(table)
    schema = table.spark.table(table.sql_name).schema
    check_predicate(table.spark, where, schema, str(table.name), is_secret=is_secret, otherwise=otherwise)
    try:
        with silenced():
            return converted(table, where)
    except SPARK_ERRORS as error:
        why = f", its text is withheld ({type(error).__name__})" if is_secret else f": {str(error).splitlines()[0]}"
        shown = "" if is_secret else f"={where!r}"
        raise InvalidSpecError(
            f"{table.name}: where{shown} does not convert to an Iceberg expression{why}. Compare columns with "
            f"constants by =, <, >, IN, IS NULL or LIKE 'x%', joined by AND, OR and NOT{otherwise}"
        ) from (None if is_secret else error)


def converted(table: IcebergTable, predicate: str) -> Any:
    """Return the expression of a predicate that this package made, or has checked.

    :raises JavaError: Iceberg has no expression for it.
    :raises PySparkException: Spark cannot analyse it.
    """
    converter = jvm_of(table.spark).org.apache.spark.sql.execution.datasources.SparkExpressionConverter
    resolved = converter.collectResolvedSparkExpression(java_session(table.spark), table.sql_name, predicate)
    return converter.convertToIcebergExpression(resolved)


def always_true(table: IcebergTable) -> Any:
    """Return the expression that every row satisfies."""
    return table.iceberg.expressions.Expressions.alwaysTrue()
