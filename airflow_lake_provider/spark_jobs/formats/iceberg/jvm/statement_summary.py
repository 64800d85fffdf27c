"""Run a SQL statement whose snapshot gets properties of ours in its summary.

Spark 4.1's runtime also takes them from the session's settings; that of Spark 3.5 does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal, internal
from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, load_class
from airflow_lake_provider.spark_jobs.jvm.method_handles import method_handles


def run_with_summary(spark: SparkSession, statement: str, summary: Mapping[str, str]) -> None:
    """Run a statement in this thread of the JVM, the one that Iceberg keeps the properties for.

    :param summary: properties of each snapshot that it commits.
    """
    handles = method_handles(spark)
    # By its name and parameters, as what it returns has another class in each version.
    run = handles.given(handles.of_object(java_session(spark), "sql", "java.lang.String"), 0, statement)
    internal(spark, Internal.COMMIT_METADATA).withCommitProperties(
        dict(summary), handles.instance("java.util.concurrent.Callable", run), load_class(spark, "java.lang.Exception")
    )
