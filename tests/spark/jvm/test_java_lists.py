"""Lists of Python become lists of Java by one command for ten items, and hold what py4j would put into them."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.java_collections import ListConverter
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.jvm.py4j_patches import send_lists_at_once
from tests.benchmarks.spark_meter import SparkMeter


@pytest.mark.parametrize(
    "items", [[], ["a"], ["a", "å", ""], ["a", None], [1, "b"], [f"{n}" for n in range(25)]], ids=len
)
def test_a_list_has_the_items_that_py4j_gives_it(spark: SparkSession, items: list[Any]) -> None:
    send_lists_at_once(spark)
    jvm: Any = spark._jvm
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    assert list(jvm.java.util.ArrayList(items)) == items == list(ListConverter().convert(items, client))


def test_an_array_of_java_is_one_item(spark: SparkSession) -> None:
    send_lists_at_once(spark)
    jvm: Any = spark._jvm
    array = spark.sparkContext._gateway.new_array(jvm.java.lang.String, 3)  # type: ignore[union-attr]
    assert jvm.java.util.ArrayList([array]).size() == 1


def test_thirty_columns_are_six_commands(spark: SparkSession) -> None:
    send_lists_at_once(spark)
    columns = [sf.lit(number) for number in range(30)]
    sf.struct(*columns)
    meter = SparkMeter(spark)
    together = sf.struct(*columns)
    # Three lists of ten, one of all, two that are added to it, a sequence, and the struct.
    assert meter.read().calls <= 9
    assert tuple(spark.range(1).select(together).collect()[0][0]) == tuple(range(30))
