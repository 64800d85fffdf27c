"""Settings of a session whose batches have some hundred rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    # Plans are made again after each shuffle; here no shuffle tells more than was known.
    "spark.sql.adaptive.enabled": "false",
    # A stage is compiled once for each plan, and these plans run once.
    "spark.sql.codegen.wholeStage": "false",
}


@contextmanager
def planned_for_tiny_batches(spark: SparkSession) -> Iterator[None]:
    """Plan for batches of some hundred rows, and leave the session as it was."""
    before = {name: str(spark.conf.get(name)) for name in _SETTINGS}
    try:
        _set(spark, _SETTINGS)
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)
