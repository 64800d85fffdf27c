"""A sort order from texts such as ``day DESC NULLS LAST``, by the parser of Iceberg's procedures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, jvm_of
from airflow_lake_provider.spark_jobs.jvm.method_handles import method_handles

_SESSION = "org.apache.spark.sql.SparkSession"


def build_sort_order(spark: SparkSession, schema: Any, terms: Iterable[str]) -> Any:
    """Build an ``org.apache.iceberg.SortOrder``; without terms that of an unsorted table.

    :param schema: ``org.apache.iceberg.Schema``.
    """
    builder = jvm_of(spark).org.apache.iceberg.SortOrder.builderFor(schema).caseSensitive(False)
    text = ", ".join(terms)
    for term in _parsed_sort_order(spark, text) if text else ():
        builder.sortBy(term.term(), term.direction(), term.nullOrder())
    return builder.build()


def _parsed_sort_order(spark: SparkSession, text: str) -> Any:
    # The interface has a static method of two parameters and an instance method of one under this name; py4j finds
    # neither.
    handles = method_handles(spark)
    parse = handles.static(
        "org.apache.iceberg.spark.ExtendedParser", "parseSortOrder", "java.util.List", _SESSION, "java.lang.String"
    )
    return handles.call(parse, java_session(spark), text)
