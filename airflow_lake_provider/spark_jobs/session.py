"""The driver's Spark session."""

from __future__ import annotations

from pyspark import SparkConf
from pyspark.sql import SparkSession

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def open_session() -> SparkSession:
    """Start the session that spark-submit's settings describe."""
    submitted = SparkConf()
    # Debezium times, partition transforms and order columns mean UTC, whatever zone the driver's machine is in.
    builder = SparkSession.builder.config("spark.sql.session.timeZone", "UTC")
    # Without it a sum that its column cannot hold becomes NULL, or another number, and the row is lost without a word.
    builder = builder.config("spark.sql.ansi.enabled", "true")
    spark = builder.getOrCreate()
    if str(spark.sparkContext.master).startswith("local") and not submitted.contains(_SHUFFLE_PARTITIONS):
        # Spark's 200 suit a cluster; on one machine most of a small batch's time would go into empty tasks.
        spark.conf.set(_SHUFFLE_PARTITIONS, str(spark.sparkContext.defaultParallelism))
    return spark
