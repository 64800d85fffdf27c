"""Open the driver's Spark session, and let Iceberg say when it waits for a locked catalog."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.spark_jobs.jvm.gateway import (
    jvm_of,
    settings_of,
    submitted_settings,
    unreadable_settings,
)
from airflow_lake_provider.spark_jobs.jvm.py4j_patches import remember_lookups, reply_promptly, send_lists_at_once
from airflow_lake_provider.spark_jobs.session.pinned_settings import pin_settings

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
# For each column that is made, PySpark tells the JVM the line of code that made it: some eight calls, and half of the
# calls of a small batch. The lines are ours, not an author's. Read once, when the first column is made.
CALL_SITES = "spark.python.sql.dataFrameDebugging.enabled"
# Classes that Spark has generated are kept for the next batch. An upsert makes some 36, and Spark keeps 100 by default:
# after two other tables they are made and compiled again.
_CODE_CACHE = "spark.sql.codegen.cache.maxEntries"
# Can be set only before a session starts.
_AT_START = {CALL_SITES: "false", _CODE_CACHE: "1000"}
# On one machine a task that runs out of memory would end the driver, before it can say which file was too much for it.
_END_WITH_TASK = {"spark.executor.killOnFatalError.depth": "0"}
# A batch is cached to be read two or three times: to compress 200,000 rows took longer than to read them so often.
_COMPRESSED_CACHE = "spark.sql.inMemoryColumnarStorage.compressed"


def open_session() -> tuple[SparkSession, list[str]]:
    """Start the session that spark-submit's settings describe, with those pinned that jobs depend on.

    :return: with a sentence for each setting that is overruled.
    :raises InvalidSpecError: a setting has a value that Spark cannot read.
    """
    submitted = submitted_settings()
    builder = SparkSession.builder
    at_start = settings_at_start(submitted)
    for name, value in at_start.items():
        builder = builder.config(name, value)
    context = SparkContext.getOrCreate(SparkConf().setAll(list(at_start.items())))
    refuse_unreadable(context, submitted.getAll())
    spark = builder.getOrCreate()
    return spark, fit_session(spark, submitted)


def refuse_unreadable(context: SparkContext, settings: list[tuple[str, str]]) -> None:
    """Refuse settings that no session can start with.

    :raises InvalidSpecError: naming them, with what Spark says.
    """
    refused = [f"{name}: {why.partition(' SQLSTATE')[0]}" for name, why in unreadable_settings(context, settings)]
    if refused:
        raise InvalidSpecError(
            f"settings of Spark that it cannot read: {'; '.join(refused)} Correct them in conf, in the properties_file "
            "or in spark-defaults.conf, wherever they are"
        )


def settings_at_start(submitted: SparkConf) -> dict[str, str]:
    """Return the settings that a session of ours starts with, without those that were asked for."""
    is_local = str(submitted.get("spark.master", "")).startswith("local")
    wanted = {**_AT_START, **(_END_WITH_TASK if is_local else {})}
    return {name: value for name, value in wanted.items() if not submitted.contains(name)}


def fit_session(spark: SparkSession, submitted: SparkConf) -> list[str]:
    """Pin the settings that jobs depend on, and change Spark's defaults where they are slow for a batch.

    :param submitted: what was asked for, which is left as it is unless it has to be pinned.
    :return: see :func:`open_session`.
    """
    reply_promptly(spark)
    log_retries(spark)
    remember_lookups(spark)
    send_lists_at_once(spark)
    overruled = pin_settings(spark)
    if not submitted.contains(_COMPRESSED_CACHE):
        spark.conf.set(_COMPRESSED_CACHE, "false")
    if str(spark.sparkContext.master).startswith("local"):
        # Spark's 200 suit a cluster; on one machine most of a small batch's time would go into empty tasks. Each look
        # at more than 32 files has a task for each file, and a batch takes some five looks.
        for name in (_SHUFFLE_PARTITIONS, _LISTING_TASKS):
            if not submitted.contains(name):
                spark.conf.set(name, str(spark.sparkContext.defaultParallelism))
    return overruled


@dataclass
class AlikeSessions:
    """Fits sessions that begin alike, as new ones of an application do: to ask each takes some 450 commands.

    What the first one was given the others get.
    """

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _given: dict[str, str | None] | None = None

    def fit(self, spark: SparkSession) -> None:
        """Pin the settings that jobs depend on, as :func:`fit_session` does."""
        with self._lock:
            if self._given is None:
                before = settings_of(spark)
                fit_session(spark, SparkConf())
                after = settings_of(spark)
                changed = {name for name, _ in before.items() ^ after.items()}
                self._given = {name: after.get(name) for name in changed}
                return
        for name, value in self._given.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


RETRIES = "org.apache.iceberg.shaded.org.apache.hc.client5.http.impl.classic.HttpRequestRetryExec"
# Spark's own settings of log4j, which it takes where a site has none.
_DEFAULTS = "org/apache/spark/log4j2-defaults.properties"
_TYPE_OF_CATALOG = re.compile(r"spark\.sql\.catalog\.[^.\s]+\.type")


def log_retries(spark: SparkSession) -> None:
    """Let the client say when it waits, where there is a REST catalog and no site has settings of log4j."""
    if not _has_rest_catalog(spark):
        return
    log4j = jvm_of(spark).org.apache.logging.log4j
    source = log4j.core.LoggerContext.getContext(False).getConfiguration().getConfigurationSource()
    if _DEFAULTS in str(source.getLocation()):
        log4j.core.config.Configurator.setLevel(RETRIES, log4j.Level.INFO)


def _has_rest_catalog(spark: SparkSession) -> bool:
    return any(value == "rest" and _TYPE_OF_CATALOG.fullmatch(name) for name, value in settings_of(spark).items())
