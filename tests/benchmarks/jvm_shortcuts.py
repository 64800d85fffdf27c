"""Measure what each of two patches of py4j gives a small warm upsert: names looked up once, and prompt replies.

One session, a table for each variant, the same batch for all of them in a drawn order.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm import py4j_patches
from airflow_lake_provider.spark_jobs.jvm.py4j_patches import AcknowledgingReader, remember_lookups, reply_promptly
from tests.benchmarks.bench_session import open_session
from tests.benchmarks.spark_meter import SparkMeter, Used
from tests.benchmarks.upsert_tables import Bench

# Name to (are names looked up once, are replies prompt).
VARIANTS = {
    "both": (True, True),
    "without_lookups": (False, True),
    "without_prompt_replies": (True, False),
    "neither": (False, False),
}
# A reader that is collected closes its connection.
_LEFT: list[Any] = []


def look_up_once(spark: SparkSession, wanted: bool) -> None:
    """Switch it on or off."""
    if wanted:
        remember_lookups(spark)
    else:
        for name in (*py4j_patches._ROOTS, *py4j_patches._CLASSES):
            vars(spark._jvm).pop(name, None)


def answer_promptly(spark: SparkSession, wanted: bool) -> None:
    """Switch it on or off, for this thread and those to come."""
    gateway: Any = spark.sparkContext._gateway
    client = gateway._gateway_client
    if wanted:
        reply_promptly(spark)
        return
    vars(client).pop("_create_new_connection", None)
    connection = client.get_thread_connection()
    reader = getattr(connection.stream, "raw", None)
    if isinstance(reader, AcknowledgingReader):
        connection.stream.detach()
        connection.stream = reader._stream
        _LEFT.append(reader)


def play(bench: Bench, pairs: int, warm_up: int) -> dict[str, list[Used]]:
    """Return what each variant used for each counted batch."""
    tables = {name: bench.iceberg_table(name, "merge-on-read") for name in VARIANTS}
    used: dict[str, list[Used]] = {name: [] for name in VARIANTS}
    for number in range(-warm_up, pairs):
        batch = bench.arrive(clustered=False)
        for name in random.Random(number).sample(list(VARIANTS), len(VARIANTS)):
            lookups, prompt = VARIANTS[name]
            look_up_once(bench.spark, lookups)
            answer_promptly(bench.spark, prompt)
            meter = SparkMeter(bench.spark)
            bench.ours(tables[name])(batch)
            measured = meter.read()
            if number >= 0:
                used[name].append(measured)
    return used


def summary(used: dict[str, list[Used]]) -> dict[str, Any]:
    """Return medians, and of the differences to the first variant of each pair the quartiles."""
    first = [each.seconds for each in used["both"]]
    by_variant = {}
    for name, measured in used.items():
        seconds = [each.seconds for each in measured]
        more = [theirs - ours for theirs, ours in zip(seconds, first, strict=True)]
        by_variant[name] = {
            "seconds": [round(each, 3) for each in statistics.quantiles(seconds, n=4)],
            "more_than_both": [round(each, 3) for each in statistics.quantiles(more, n=4)],
            "slower": sum(each > 0 for each in more),
            "calls": statistics.median(each.calls for each in measured),
        }
    return by_variant


def main() -> None:
    """Measure, and print the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = open_session(Path(folder))
        used = play(Bench(spark, Path(folder), options.rows, options.batch), options.pairs, options.warm_up)
        spark.stop()
    print(json.dumps(summary(used)))


if __name__ == "__main__":
    main()
