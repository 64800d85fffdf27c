"""Name the RDDs that a session's cache holds."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def cached_rdds(spark: SparkSession) -> set[int]:
    """Return their ids.

    Their number tells nothing of what a job left: Spark's cleaner frees those of earlier tests at any moment.
    """
    context: Any = spark.sparkContext._jsc
    return set(context.getPersistentRDDs())
