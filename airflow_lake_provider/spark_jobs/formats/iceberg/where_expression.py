"""An author's ``where`` as an Iceberg expression, by Spark's own analyser."""

from __future__ import annotations

import re
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable

_TEXTS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`")


def to_expression(table: IcebergTable, where: str | None) -> Any:
    """Return an ``org.apache.iceberg.expressions.Expression``; always true without ``where``.

    :raises InvalidSpecError: the text does not parse, names unknown columns, or is more than comparisons of columns
        with constants: it only chooses files, so it must be answerable from their metadata.
    """
    jvm: Any = table.spark._jvm
    if where is None:
        return jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()
    # The analyser would take the predicate of a subquery for the predicate of the table.
    if re.search(r"\bselect\b", _TEXTS.sub("", where), re.IGNORECASE):
        raise _refused(table, where, "subqueries are not allowed")
    converter = jvm.org.apache.spark.sql.execution.datasources.SparkExpressionConverter
    try:
        resolved = converter.collectResolvedSparkExpression(table.spark._jsparkSession, table.sql_name, where)
        return converter.convertToIcebergExpression(resolved)
    except (Py4JJavaError, PySparkException) as error:
        raise _refused(table, where, str(error).splitlines()[0]) from error


def _refused(table: IcebergTable, where: str, why: str) -> InvalidSpecError:
    return InvalidSpecError(
        f"{table.name}: where={where!r} does not convert to an Iceberg expression: {why}. Compare columns with "
        "constants by =, <, >, IN, IS NULL or LIKE 'x%', joined by AND, OR and NOT"
    )
