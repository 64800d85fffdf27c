"""Adaptive execution, left out where it has nothing to adapt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_ENABLED = "spark.sql.adaptive.enabled"


@contextmanager
def without_adaptive_execution(spark: SparkSession) -> Iterator[None]:
    """Plan the queries of the block once.

    Adaptive execution plans again after each stage, which takes some 20 to 40 ms. It chooses joins and merges
    partitions, and a query gains nothing whose join is given and which shuffles no rows.
    """
    before = spark.conf.get(_ENABLED)
    spark.conf.set(_ENABLED, "false")
    try:
        yield
    finally:
        spark.conf.set(_ENABLED, str(before))
