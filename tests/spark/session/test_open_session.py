"""The driver's session has its settings, whatever the cluster's defaults say."""

from __future__ import annotations

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.session.open_session import open_session


def test_a_number_that_does_not_fit_is_an_error_whatever_the_cluster_says(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    session, _ = open_session()
    assert session.conf.get("spark.sql.ansi.enabled") == "true"
    assert session.conf.get("spark.sql.session.timeZone") == "UTC"
