"""A Spark application of its own: run by the tests with settings and SQL texts on standard input, a request a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

from pyspark.sql import SparkSession


def main() -> None:
    """Run the statements of each line in a session of the first one's settings, and print each one's rows as JSON."""
    requests = map(json.loads, sys.stdin)
    first = next(requests)
    with session(first["settings"]) as spark:
        redaction = default_redaction(spark)
        for request in chain([first], requests):
            rows = [[list(row) for row in spark.sql(statement).collect()] for statement in request["statements"]]
            print("ANSWER " + json.dumps({"rows": rows, "default_redaction": redaction}, default=str), flush=True)


def default_redaction(spark: SparkSession) -> str:
    """Return what Spark redacts where nothing is configured."""
    assert spark._jvm is not None
    options = getattr(getattr(spark._jvm.org.apache.spark.internal.config, "package$"), "MODULE$")
    return str(options.SECRET_REDACTION_PATTERN().defaultValueString())


@contextmanager
def session(settings: dict[str, str]) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]").appName("one connection")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
