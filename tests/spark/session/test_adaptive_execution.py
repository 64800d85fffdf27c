"""Queries are planned once inside the block, and as before after it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.session.pinned_settings import without_adaptive_execution


def is_adaptive(spark: SparkSession) -> bool:
    counted = spark.range(10).groupBy("id").count()
    return "AdaptiveSparkPlan" in counted._jdf.queryExecution().executedPlan().toString()


def fail_inside(spark: SparkSession) -> None:
    with without_adaptive_execution(spark):
        assert not is_adaptive(spark)
        raise ZeroDivisionError


@pytest.mark.parametrize("setting", ["true", "false"])
def test_a_block_that_fails_leaves_the_setting_as_it_was(spark: SparkSession, setting: str) -> None:
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", setting)
    try:
        with pytest.raises(ZeroDivisionError):
            fail_inside(spark)
        assert is_adaptive(spark) is (setting == "true")
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", str(before))
