"""Times in milliseconds, of files that were added to a table, are read by rows: Iceberg's vectors misread them."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.iceberg.foreign_times import TIMES
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of

# In vectors Iceberg takes milliseconds for microseconds where a dictionary has them (apache/iceberg#17135).
VECTORIZATION = "spark.sql.iceberg.vectorization.enabled"
# Milliseconds of the years 1 to 9999; taken for microseconds they are between January 1968 and January 1978.
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999


def read_milliseconds_by_rows(spark: SparkSession, java: Any) -> None:
    """Let a session read by rows where a file of main may have such times, by bounds that Iceberg has read likewise.

    Only columns that are not nested are read in vectors.

    :param java: ``org.apache.iceberg.Table``.
    :raises JavaError: its manifests cannot be read.
    """
    expressions = jvm_of(spark).org.apache.iceberg.expressions.Expressions
    suspect = expressions.alwaysFalse()
    for column in java.schema().columns():
        if str(column.type()) in TIMES:
            behind = expressions.greaterThanOrEqual(str(column.name()), _FIRST)
            before = expressions.lessThanOrEqual(str(column.name()), _LAST)
            suspect = getattr(expressions, "or")(suspect, getattr(expressions, "and")(behind, before))
    with closing(java.newScan().filter(suspect).planFiles()) as files:
        if files.iterator().hasNext():
            spark.conf.set(VECTORIZATION, "false")
