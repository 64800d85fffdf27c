"""A sort order from texts such as ``day DESC NULLS LAST``, by the parser of Iceberg's procedures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm.java_methods import load_class


def build_sort_order(spark: SparkSession, schema: Any, terms: Iterable[str]) -> Any:
    """Build an ``org.apache.iceberg.SortOrder``; without terms that of an unsorted table.

    :param schema: ``org.apache.iceberg.Schema``.
    """
    jvm: Any = spark._jvm
    builder = jvm.org.apache.iceberg.SortOrder.builderFor(schema).caseSensitive(False)
    text = ", ".join(terms)
    for term in _parsed_sort_order(spark, text) if text else ():
        builder.sortBy(term.term(), term.direction(), term.nullOrder())
    return builder.build()


def _parsed_sort_order(spark: SparkSession, text: str) -> Any:
    # The interface has a static method of two parameters and an instance method of one under this name; py4j finds
    # neither, so the static one is called by reflection.
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    parser = load_class(spark, "org.apache.iceberg.spark.ExtendedParser")
    method = next(m for m in parser.getMethods() if m.getName() == "parseSortOrder" and m.getParameterCount() == 2)
    arguments = gateway.new_array(jvm.java.lang.Object, 2)
    arguments[0], arguments[1] = spark._jsparkSession, text
    return method.invoke(None, arguments)
