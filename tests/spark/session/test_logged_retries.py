"""The client of REST catalogs says when it waits."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.session.open_session import RETRIES, log_retries


def test_requests_that_are_sent_again_are_told_of_where_there_is_a_rest_catalog(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    log4j = jvm.org.apache.logging.log4j
    # The name is that of a class, which another Iceberg may have moved.
    assert jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(RETRIES).getName() == RETRIES
    log4j.core.config.Configurator.setLevel(RETRIES, log4j.Level.WARN)

    def is_told(session: SparkSession) -> bool:
        log_retries(session)
        return bool(log4j.LogManager.getLogger(RETRIES).isInfoEnabled())

    # Other tests give the shared session REST catalogs of their own.
    fresh = spark.newSession()
    assert not is_told(fresh)
    fresh.conf.set("spark.sql.catalog.away.type", "rest")
    assert is_told(fresh)
