"""The driver's Spark session."""

from __future__ import annotations

from pyspark import SparkConf
from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.session_settings import pin_settings

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def open_session() -> tuple[SparkSession, list[str]]:
    """Start the session that spark-submit's settings describe, with those pinned that jobs depend on.

    :return: with a sentence for each setting that is overruled.
    """
    submitted = SparkConf()
    spark = SparkSession.builder.getOrCreate()
    overruled = pin_settings(spark)
    if str(spark.sparkContext.master).startswith("local") and not submitted.contains(_SHUFFLE_PARTITIONS):
        # Spark's 200 suit a cluster; on one machine most of a small batch's time would go into empty tasks.
        spark.conf.set(_SHUFFLE_PARTITIONS, str(spark.sparkContext.defaultParallelism))
    return spark, overruled
