"""Lines about requests to a REST catalog that are sent again: its client waits for half a minute and tells nobody.

It logs each wait at the level INFO, which jobs leave out.
"""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of, settings_of

RETRIES = "org.apache.iceberg.shaded.org.apache.hc.client5.http.impl.classic.HttpRequestRetryExec"
# Spark's own settings of log4j, which it takes where a site has none.
_DEFAULTS = "org/apache/spark/log4j2-defaults.properties"
_TYPE_OF_CATALOG = re.compile(r"spark\.sql\.catalog\.[^.\s]+\.type")


def tell_of_retries(spark: SparkSession) -> None:
    """Let the client say when it waits, where there is a REST catalog and no site has settings of log4j."""
    if not _has_rest_catalog(spark):
        return
    log4j = jvm_of(spark).org.apache.logging.log4j
    source = log4j.core.LoggerContext.getContext(False).getConfiguration().getConfigurationSource()
    if _DEFAULTS in str(source.getLocation()):
        log4j.core.config.Configurator.setLevel(RETRIES, log4j.Level.INFO)


def _has_rest_catalog(spark: SparkSession) -> bool:
    return any(value == "rest" and _TYPE_OF_CATALOG.fullmatch(name) for name, value in settings_of(spark).items())
