"""The meter of the benchmarks tells what a piece of work used, and costs the work little itself."""

from __future__ import annotations

import time
from typing import Any

import pytest
from py4j.clientserver import DEFAULT_WORKER_SLEEP_TIME
from pyspark.sql import SparkSession

from tests.benchmarks.spark_meter import SparkMeter
from tests.spark.jvm_commands import commands


def _shuffle(spark: SparkSession) -> None:
    spark.range(100).repartition(2).count()


def test_only_stages_of_the_work_are_counted_that_ran(spark: SparkSession) -> None:
    shuffled = spark.sparkContext.parallelize(range(10), 2).map(lambda number: (number % 2, number)).groupByKey()
    first = SparkMeter(spark)
    shuffled.count()
    used = first.read()
    assert used.stages == 2
    assert used.shuffled > 0
    # The rows are shuffled already, so Spark skips that stage.
    second = SparkMeter(spark)
    shuffled.count()
    assert second.read().stages == 1


def test_a_stage_that_the_session_has_forgotten_is_not_counted(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = SparkMeter(spark)
    _shuffle(spark)
    monkeypatch.setattr(meter, "_next_stage", lambda: 1_000_000_000)
    monkeypatch.setattr(meter, "_first", 999_999_998)
    assert meter.read().stages == 0


def test_a_meter_asks_no_more_of_a_session_that_has_run_much(spark: SparkSession) -> None:
    def calls_of_a_meter() -> int:
        around = SparkMeter(spark)
        SparkMeter(spark).read()
        return around.read().calls

    calls_of_a_meter()
    few = calls_of_a_meter()
    for _ in range(20):
        _shuffle(spark)
    assert calls_of_a_meter() <= few + 10


def test_a_meter_goes_on_counting_after_commands_were_listed(spark: SparkSession) -> None:
    meter = SparkMeter(spark)
    with commands(spark):
        pass
    spark.range(1).collect()
    assert meter.read().calls > 0


def test_java_objects_that_were_dropped_before_are_not_calls_of_the_work(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    dropped = [jvm.java.util.ArrayList() for _ in range(300)]
    for each in dropped:
        # An object that was asked something is in a cycle, which only the collector frees.
        each.size()
    del each, dropped
    meter = SparkMeter(spark)
    # The thread that gives them back sleeps while it has none.
    time.sleep(DEFAULT_WORKER_SLEEP_TIME + 0.3)
    assert meter.read().calls < 10
