"""Measure small batches of change events with ``ordering="key"``: seconds, calls to the JVM, and DataFrames made.

One warm session and one table. Each batch has five events: two inserts, two updates of which one leaves a long value
out, and a delete. Half of the batches have a change of a key in the delete's place.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.event_marks import EventOrdering
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.actions.upsert_batch import upsert_batch
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.benchmarks.bench_session import open_session
from tests.benchmarks.benchmark_files import frame
from tests.benchmarks.spark_meter import SparkMeter
from tests.soak.tiny_batches import planned_for_tiny_batches
from tests.spark.sources.debezium.event_writer import SourceTable

TABLE = "lake.events.items"


def lines_of(source: SourceTable, number: int) -> list[str]:
    """Return the next five events of the source."""
    first = 10 * number
    source.insert(first + 1, number, f"long {number}")
    source.insert(first + 2, number, "short")
    source.update(first + 1, number + 1)
    source.update(first + 2, number + 1, "shorter")
    if number % 2:
        source.move(first + 2, first + 3, number + 2)
    elif number:
        source.delete(first - 9)
    return source.take_lines()


@contextmanager
def dataframes_made(spark: SparkSession) -> Iterator[list[None]]:
    """Collect one item for each DataFrame that is made."""
    made: list[None] = []
    # Of PySpark 4, the class of those that are made is a subclass.
    kind: Any = type(spark.range(1))
    make = kind.__init__

    def counted(*arguments: Any, **options: Any) -> None:
        made.append(None)
        make(*arguments, **options)

    with patch.object(kind, "__init__", counted):
        yield made


def main() -> None:
    """Measure, and print the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--fives", type=int, default=1, help="of events in a batch")
    parser.add_argument("--tiny", action="store_true", help="plan as tests do: no adaptive execution, no compiling")
    asked = parser.parse_args()
    played: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        spark = open_session(Path(folder))
        stack.callback(spark.stop)
        if asked.tiny:
            stack.enter_context(planned_for_tiny_batches(spark))
        inbox = Path(folder) / "inbox"
        inbox.mkdir()
        events = Debezium(
            path=f"{inbox}/*.jsonl",
            table="public.items",
            schema="id BIGINT, n INT, note STRING",
            ordering=EventOrdering.KEY,
            name="inbox",
        )
        source = SourceTable()
        for number in range(asked.warm_up + asked.batches):
            first = number * asked.fives
            lines = chain.from_iterable(lines_of(source, each) for each in range(first, first + asked.fives))
            (inbox / f"{number:04}.jsonl").write_text("\n".join(lines) + "\n")
            run = RunIdentity.of("dag", f"run {number}", "task", "-1")
            spec = UpsertSpec(catalog="lake", table=TABLE.partition(".")[2], run=run, source=events, keys=("id",))
            with dataframes_made(spark) as made:
                meter = SparkMeter(spark)
                upsert_batch(spark, spec, Progress())
                used = meter.read()
            print(f"batch {number}: {used}, {len(made)} DataFrames", flush=True)
            if number >= asked.warm_up:
                numbers = {"seconds": used.seconds, "cpu_seconds": used.cpu_seconds, "stages": used.stages}
                played.append({**numbers, "calls": used.calls, "dataframes": len(made)})
        rows = {row["id"]: {**row.asDict()} for row in spark.table(TABLE).select("id", "n", "note").collect()}
        assert rows == source.rows, "the table has other rows than the source"
    medians = {name: round(statistics.median(each[name] for each in played), 2) for name in played[0]}
    command = (
        f"scripts/bench event-batches --fives {asked.fives} --batches {asked.batches}{' --tiny' if asked.tiny else ''}"
    )
    print(json.dumps({**frame("event-batches", command), "medians": medians}))


if __name__ == "__main__":
    main()
