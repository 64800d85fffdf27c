"""Predicates as Iceberg expressions, by Spark's own analyser."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
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
    except (Py4JJavaError, PySparkException) as error:
        why = f", its text is withheld ({type(error).__name__})" if is_secret else f": {str(error).splitlines()[0]}"
        shown = "" if is_secret else f"={where!r}"
        raise InvalidSpecError(
            f"{table.name}: where{shown} does not convert to an Iceberg expression{why}. Compare columns with "
            f"constants by =, <, >, IN, IS NULL or LIKE 'x%', joined by AND, OR and NOT{otherwise}"
        ) from (None if is_secret else error)


def converted(table: IcebergTable, predicate: str) -> Any:
    """Return the expression of a predicate that this package made, or has checked.

    :raises Py4JJavaError: Iceberg has no expression for it.
    :raises PySparkException: Spark cannot analyse it.
    """
    jvm: Any = table.spark._jvm
    converter = jvm.org.apache.spark.sql.execution.datasources.SparkExpressionConverter
    resolved = converter.collectResolvedSparkExpression(table.spark._jsparkSession, table.sql_name, predicate)
    return converter.convertToIcebergExpression(resolved)


def always_true(table: IcebergTable) -> Any:
    """Return the expression that every row satisfies."""
    jvm: Any = table.spark._jvm
    return jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()
