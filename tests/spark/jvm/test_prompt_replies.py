"""Each thread's connection to the JVM acknowledges replies at once."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm.py4j_patches import AcknowledgingReader, reply_promptly


def raw_reader(spark: SparkSession) -> io.RawIOBase:
    client: Any = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    spark._jvm.java.lang.System.nanoTime()  # type: ignore[union-attr]
    raw: io.RawIOBase = client.get_thread_connection().stream.raw
    return raw


def test_replies_are_prompt_in_this_thread_and_in_new_ones(spark: SparkSession) -> None:
    reply_promptly(spark)
    with ThreadPoolExecutor(1) as other:
        in_other = other.submit(raw_reader, spark).result()
    assert isinstance(raw_reader(spark), AcknowledgingReader)
    assert isinstance(in_other, AcknowledgingReader)


def test_a_session_that_is_fitted_again_keeps_its_connection(spark: SparkSession) -> None:
    reply_promptly(spark)
    before = raw_reader(spark)
    reply_promptly(spark)
    assert raw_reader(spark) is before


def test_a_reply_of_every_length_comes_whole(spark: SparkSession) -> None:
    reply_promptly(spark)
    for size in (0, 8_190, 8_192, 9_000, 70_000, 3_000_000):
        text = "å" * size
        assert spark._jvm.java.lang.StringBuilder(text).toString() == text  # type: ignore[union-attr]
