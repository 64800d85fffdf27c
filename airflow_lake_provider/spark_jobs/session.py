"""The driver's Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

# Debezium times, partition transforms and order columns mean UTC, whatever zone the machine of the driver is in.
_SETTINGS = {"spark.sql.session.timeZone": "UTC"}


def open_session() -> SparkSession:
    """Start the session that spark-submit's settings describe."""
    builder = SparkSession.builder
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
