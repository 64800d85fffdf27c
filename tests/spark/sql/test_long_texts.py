"""A megabyte in a value takes Spark about as long as it takes to read it, whatever it is made of."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from pyspark.sql import SparkSession, types
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.sources.delete_keys import lossless_cast
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium import values
from tests.java_patterns import java_patterns

MEGABYTE = 1_000_000
SECONDS = 1.0
BEFORE = ("", "1", ".", "1.", ".000000", '"table"', "-", "a")
PUMPED = (" ", "0", "1", "a", ".", "-", "\n", '"', ":", ": ", "F", "_")
TYPES: tuple[types.DataType, ...] = (
    types.DecimalType(12, 2),
    types.DecimalType(38, 18),
    types.LongType(),
    types.DoubleType(),
    types.FloatType(),
    types.BooleanType(),
    types.DateType(),
    types.TimestampType(),
    types.TimestampNTZType(),
    types.BinaryType(),
)


def jvm_pattern(spark: SparkSession, pattern: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.java.util.regex.Pattern.compile(pattern)


@pytest.mark.parametrize("place", java_patterns())
def test_java_takes_a_megabyte_in_a_time_that_grows_as_it_does(spark: SparkSession, place: str) -> None:
    compiled = jvm_pattern(spark, java_patterns()[place])
    for before in BEFORE:
        for pumped in PUMPED:
            text = before + pumped * (MEGABYTE // 4) + "!"
            # Other processes may have taken the core meanwhile.
            assert any(seconds_of(compiled, text) < SECONDS for _ in range(3)), (before, pumped)


def seconds_of(compiled: Any, text: str) -> float:
    started = time.monotonic()
    compiled.matcher(text).find()
    return time.monotonic() - started


def is_plain_number(text: str, scale: int) -> bool:
    """Tell whether a text is a number without an exponent that a decimal of this scale can have."""
    plain = text.strip(" \t\n\x0b\f\r")
    whole, _, fraction = (plain[1:] if plain[:1] in ("+", "-") else plain).partition(".")
    digits = set("0123456789")
    return set(whole) <= digits and set(fraction) <= digits and set(fraction[scale:]) <= {"0"}


def test_a_decimal_is_still_told_from_one_that_a_cast_would_round(spark: SparkSession) -> None:
    drawn = random.Random(1)
    texts = ["".join(drawn.choices(" \t\n+-0012.e", k=drawn.randint(0, 9))) for _ in range(3_000)]
    placed = [place for place in java_patterns() if ".scale}" in place]
    assert len(placed) == 2
    for place in placed:
        compiled = jvm_pattern(spark, java_patterns()[place].replace("10}", "2}"))
        assert [text for text in texts if compiled.matcher(text).find() != is_plain_number(text, 2)] == []


@pytest.mark.parametrize("wanted", TYPES, ids=lambda wanted: wanted.simpleString())
def test_a_value_of_a_megabyte_becomes_none_and_no_wait(spark: SparkSession, wanted: types.DataType) -> None:
    texts = [before + pumped * MEGABYTE + "x" for before in ("", "1") for pumped in (" ", "0", "a")]
    rows = spark.createDataFrame([(text,) for text in texts], "text STRING")
    text = sf.col("text")
    started = time.monotonic()
    cast = lossless_cast(text, types.StringType(), wanted)
    found = rows.select(cast.isNull(), values.convert(text, wanted, None).isNull()).collect()
    assert time.monotonic() - started < 10 * SECONDS
    assert isinstance(wanted, types.BinaryType) or all(row[0] and row[1] for row in found)
