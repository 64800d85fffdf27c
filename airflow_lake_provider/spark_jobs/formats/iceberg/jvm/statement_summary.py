"""Run a SQL statement whose snapshot gets properties of ours in its summary.

Spark 4.1's runtime also takes them from the session's settings; that of Spark 3.5 does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal, internal
from airflow_lake_provider.spark_jobs.jvm.java_methods import load_class


def run_with_summary(spark: SparkSession, statement: str, summary: Mapping[str, str]) -> None:
    """Run a statement in this thread of the JVM, the one that Iceberg keeps the properties for.

    :param summary: properties of each snapshot that it commits.
    """
    jvm: Any = spark._jvm
    properties = jvm.java.util.HashMap()
    for name, value in summary.items():
        properties.put(name, value)
    any_error = load_class(spark, "java.lang.Exception")
    internal(spark, Internal.COMMIT_METADATA).withCommitProperties(properties, _call(spark, statement), any_error)


def _call(spark: SparkSession, statement: str) -> Any:
    """Return a ``java.util.concurrent.Callable`` that runs the statement; made without a Python callback."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    session: Any = spark._jsparkSession
    types = gateway.new_array(jvm.java.lang.Class, 1)
    types[0] = load_class(spark, "java.lang.String")
    handles = jvm.java.lang.invoke.MethodHandles
    # By reflection, as what it returns has another class in each version.
    run = handles.publicLookup().unreflect(session.getClass().getMethod("sql", types)).bindTo(session)
    handle = handles.insertArguments(run, 0, _objects(jvm, gateway, statement))
    interface = load_class(spark, "java.util.concurrent.Callable")
    return jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(interface, handle)


def _objects(jvm: Any, gateway: Any, *values: str) -> Any:
    array = gateway.new_array(jvm.java.lang.Object, len(values))
    for place, value in enumerate(values):
        array[place] = value
    return array
