"""Settings of Spark and Iceberg that a cluster may say otherwise, with the values that each can take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.session.pinned_settings import LEFT_TO_THE_AUTHOR, LEGACY, PINNED

_NOTHING = "no such value"
_BOOLEAN = ("true", "false")
# Iceberg's settings have no list of values.
_OF_ICEBERG = {
    "spark.sql.iceberg.distribution-mode": ("none", "hash", "range"),
    "spark.sql.iceberg.data-planning-mode": ("auto", "local", "distributed"),
    "spark.sql.iceberg.delete-planning-mode": ("auto", "local", "distributed"),
    "spark.sql.iceberg.view.schema-binding-mode": ("BINDING", "COMPENSATION"),
}
_SWITCHES = ("enabled", "shred-variants", "report-column-stats", "preserve-data-grouping")


def other_values(spark: SparkSession) -> Iterator[tuple[str, str]]:
    """Yield each name and value that a session may have and has not, of settings with a list of values.

    Left out are those that a job overrules, and static ones, which no session has of its own.
    """
    overruled = {pinned.name for pinned in PINNED}
    for name, values in sorted({**dict(_of_spark(spark)), **dict(_of_iceberg(spark))}.items()):
        taken_back = name.startswith(LEGACY) and name not in LEFT_TO_THE_AUTHOR
        if name in overruled or taken_back:
            continue
        now = str(spark.conf.get(name, None) or "").lower()
        yield from ((name, value) for value in values if value.lower() != now)


def _of_spark(spark: SparkSession) -> Iterator[tuple[str, tuple[str, ...]]]:
    jvm: Any = spark._jvm
    entries = getattr(getattr(jvm.org.apache.spark.sql.internal, "SQLConf$"), "MODULE$").getConfigEntries().iterator()
    while entries.hasNext():
        entry = entries.next()
        name, values = entry.key(), _values(entry)
        if values and name.startswith("spark.sql.") and spark.conf.isModifiable(name):
            yield name, values


def _values(entry: Any) -> tuple[str, ...]:
    """Return the values that an entry takes, which Spark tells when it refuses another; empty where it has no list."""
    try:
        entry.valueConverter().apply(_NOTHING)
    except IllegalArgumentException as error:
        told = str(error)
        listed = re.search(r"one of '([^']*)'", told)
        if listed:
            return tuple(sorted(listed[1].split(", ")))
        return _BOOLEAN if "'boolean'" in told else ()
    return ()


def _of_iceberg(spark: SparkSession) -> Iterator[tuple[str, tuple[str, ...]]]:
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    holder = jvm.java.lang.Class.forName("org.apache.iceberg.spark.SparkSQLProperties", True, loader)
    for field in holder.getDeclaredFields():
        field.setAccessible(True)
        name = str(field.get(None))
        if name in _OF_ICEBERG:
            yield name, _OF_ICEBERG[name]
        elif name.startswith("spark.sql.iceberg.") and name.endswith(_SWITCHES):
            yield name, _BOOLEAN
