"""Settings and jars of a session that runs, as a job has them, and Spark's own log of its events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


@contextmanager
def given(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Give a session settings, as the file of a job does."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


def add_jars(spark: SparkSession, jars: Iterable[Path]) -> None:
    """Bring jars into the JVM of a session that runs."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars:
        loader.addURL(jvm.java.net.URI(f"file://{jar}").toURL())


@contextmanager
def event_log(spark: SparkSession, submitted: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Write Spark's own log of events while it runs; it hides what the application was submitted with."""
    jvm: Any = spark._jvm
    java: Any = spark.sparkContext._jsc
    context, settings = java.sc(), java.sc().getConf().set("spark.eventLog.compress", "false")
    for name, value in submitted.items():
        settings.set(name, value)
    nothing, place = jvm.scala.Option.empty(), jvm.java.net.URI(f"file://{folder}")
    log = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "app-1", nothing, place, settings, context.hadoopConfiguration()
    )
    log.start()
    context.addSparkListener(log)
    yield
    context.listenerBus().waitUntilEmpty()
    context.removeSparkListener(log)
    log.stop()
