"""Settings of a session for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession


def settings_of(spark: SparkSession) -> dict[str, str]:
    """Return every setting of a session; PySpark 3.5 lists none."""
    session: Any = spark._jsparkSession
    names = str(session.conf().getAll().keys().mkString("\n")).split("\n")
    return {name: str(spark.conf.get(name)) for name in names}


@contextmanager
def said(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Settings of a cluster that says otherwise; what the test session has is put back."""
    before = settings_of(spark)
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings_of(spark).keys() - before.keys():
            if _may_change(spark, name):
                spark.conf.unset(name)
        for name, value in before.items():
            if _may_change(spark, name) and spark.conf.get(name, None) != value:
                spark.conf.set(name, value)


def _may_change(spark: SparkSession, name: str) -> bool:
    # Spark knows of its own settings alone whether they may change.
    return spark.conf.isModifiable(name) or name.startswith("spark.wap") or not name.startswith("spark.")
