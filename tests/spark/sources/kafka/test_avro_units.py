"""Avro's numbers whose unit has changed with the schema of a topic: read in that of their writer."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.sources.kafka.avro_units import with_units_of
from airflow_lake_provider.spark_jobs.sources.kafka.framed_avro import Schema, decoded
from tests.spark.sources.kafka.topic_writer import add_connector


def long_of(logical: str) -> dict[str, str]:
    return {"type": "long", "logicalType": logical}


def decimal_of(scale: int, precision: int = 10) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def record(kind: Any) -> Schema:
    return {"type": "record", "name": "r", "fields": [{"name": "v", "type": kind}]}


def read(spark: SparkSession, value: str, writer: Any, reader: Any) -> Any:
    """Return a value that a writer has written, as a topic's reader gives it, as text."""
    add_connector(spark)
    from pyspark.sql.avro.functions import to_avro

    of_writer, of_reader = record(writer), record(reader)
    written = to_avro(sf.expr(f"named_struct('v', {value})"), json.dumps(of_writer))
    row = decoded(sf.col("payload"), of_writer, with_units_of(of_writer, of_reader, 3))
    (found,) = spark.range(1).select(written.alias("payload")).select(row.v.cast("string")).collect()
    return found[0]


def two_times(created: Any, updated: Any) -> dict[str, Any]:
    """Return a record of two others that have one name in two namespaces."""

    def time(namespace: str, unit: Any) -> dict[str, Any]:
        return {"type": "record", "name": "Time", "namespace": namespace, "fields": [{"name": "at", "type": unit}]}

    fields = [{"name": "c", "type": time("com.a", created)}, {"name": "u", "type": time("com.b", updated)}]
    return {"type": "record", "name": "Box", "fields": fields}


MILLIS, MICROS = long_of("timestamp-millis"), long_of("timestamp-micros")
AT = "timestamp'2026-01-02 03:04:05.678Z'"
LOCAL_MILLIS, LOCAL_MICROS = long_of("local-timestamp-millis"), long_of("local-timestamp-micros")


@pytest.mark.parametrize(
    ("value", "writer", "reader", "expected"),
    [
        ("timestamp'2026-01-02 03:04:05.678Z'", MILLIS, MICROS, "2026-01-02 03:04:05.678"),
        ("timestamp'2026-01-02 03:04:05.678Z'", MICROS, MILLIS, "2026-01-02 03:04:05.678"),
        ("timestamp_ntz'2026-01-02 03:04:05'", LOCAL_MILLIS, ["null", LOCAL_MICROS], "2026-01-02 03:04:05"),
        ("timestamp'2026-01-02 03:04:05Z'", ["null", MILLIS], ["null", MICROS], "2026-01-02 03:04:05"),
        ("CAST(1.25 AS DECIMAL(10,2))", decimal_of(2), decimal_of(2, 12), str(Decimal("1.25"))),
        ("1767323045678", "long", MILLIS, "2026-01-02 03:04:05.678"),
        (
            f"named_struct('c', named_struct('at', {AT}), 'u', named_struct('at', {AT}))",
            two_times(MILLIS, MICROS),
            two_times(MICROS, MICROS),
            "{{2026-01-02 03:04:05.678}, {2026-01-02 03:04:05.678}}",
        ),
    ],
)
def test_times_are_read_in_the_unit_of_their_writer(
    spark: SparkSession, value: str, writer: Any, reader: Any, expected: str
) -> None:
    assert read(spark, value, writer, reader) == expected


@pytest.mark.parametrize(
    ("writer", "reader", "told"),
    [
        (decimal_of(2), decimal_of(4), "decimal of scale 2, and the latest one as decimal of scale 4"),
        ({"type": "int", "logicalType": "time-millis"}, long_of("time-micros"), "time-millis.*time-micros"),
        (["null", MILLIS], ["null", long_of("timestamp-nanos")], "timestamp-millis.*timestamp-nanos"),
        (
            {"type": "array", "items": decimal_of(2)},
            {"type": "array", "items": decimal_of(3)},
            "decimal of scale 2.*scale 3",
        ),
    ],
)
def test_other_units_are_refused_by_field(writer: Any, reader: Any, told: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"schema 3 has 'v.*' as {told}"):
        with_units_of(record(writer), record(reader), 3)


def test_a_unit_is_that_of_the_writer_inside_of_records_too() -> None:
    def inner(kind: Any) -> dict[str, Any]:
        return {"type": "record", "name": "inner", "fields": [{"name": "at", "type": ["null", kind]}]}

    assert with_units_of(record(inner(MILLIS)), record(["null", inner(MICROS)]), 3) == record(["null", inner(MILLIS)])
