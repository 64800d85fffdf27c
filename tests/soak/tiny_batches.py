"""Settings by which a session plans: for batches of some hundred rows, or as a user's driver does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from pyspark.sql import SparkSession

_TINY = {
    "spark.sql.shuffle.partitions": "1",
    # Plans are made again after each shuffle; here no shuffle tells more than was known.
    "spark.sql.adaptive.enabled": "false",
    # A stage is compiled once for each plan, and these plans run once.
    "spark.sql.codegen.wholeStage": "false",
    # So is each expression. The other values of this setting compile, and interpret where that fails.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


# What a driver on two cores has (``open_session`` sets the partitions).
_DEFAULTS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}


def planned_for_tiny_batches(spark: SparkSession) -> AbstractContextManager[None]:
    """Plan for batches of some hundred rows, and leave the session as it was."""
    return _planned(spark, _TINY)


def planned_by_default(spark: SparkSession) -> AbstractContextManager[None]:
    """Plan as a user's driver does, and leave the session as it was."""
    return _planned(spark, _DEFAULTS)


@contextmanager
def _planned(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: str(spark.conf.get(name)) for name in settings}
    try:
        _set(spark, settings)
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)
