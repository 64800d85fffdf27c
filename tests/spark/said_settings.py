"""Settings of a session for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def said(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Settings of a cluster that says otherwise; what the test session has is put back."""
    before = spark.conf.getAll
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in spark.conf.getAll.keys() - before.keys():
            if spark.conf.isModifiable(name) or name.startswith("spark.wap"):
                spark.conf.unset(name)
        for name, value in before.items():
            if spark.conf.isModifiable(name) and spark.conf.get(name, None) != value:
                spark.conf.set(name, value)
