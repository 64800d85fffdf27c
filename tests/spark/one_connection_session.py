"""A Spark application of its own: run by the tests with the settings of one connection on standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


def main() -> None:
    """Run the statements in a session of exactly the given settings and print each one's rows as JSON."""
    request = json.load(sys.stdin)
    with session(request["settings"]) as spark:
        rows = [[list(row) for row in spark.sql(statement).collect()] for statement in request["statements"]]
        answer = {"rows": rows, "default_redaction": default_redaction(spark)}
    print("ANSWER " + json.dumps(answer, default=str))


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
