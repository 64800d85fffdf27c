"""Compare reading text files, as an upsert does, with a plain ``spark.read`` of the same files and types.

One session. Both sides bring all columns into Spark's ``noop`` sink, in turn. Ours also tells the arrival of each row,
refuses lines and values that Spark's reader would change, and keeps the rows in the cache. CPU seconds are those of the
tasks: other work on the machine does not count with them. Each round prints both; the best of each side counts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.author.sources import Debezium, Files
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.envelope import read_events
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.event_texts import LinesOfFiles
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from airflow_lake_provider.spark_jobs.sources.read_files import read_files
from tests.benchmarks.bench_session import open_session
from tests.benchmarks.benchmark_files import frame
from tests.benchmarks.spark_meter import SparkMeter, Used
from tests.benchmarks.text_files import TextKind, text_kinds, write_files


def plain_rows(spark: SparkSession, kind: TextKind) -> DataFrame:
    """Return what Spark's own reader makes of the files."""
    form = kind.source.format if isinstance(kind.source, Files) else "json"
    reader = spark.read.schema(kind.schema).options(**kind.options).format(str(form))
    return reader.load(str(kind.source.path))


def our_rows(spark: SparkSession, kind: TextKind) -> DataFrame:
    """Return what an upsert makes of the files before it reduces the rows."""
    files = list_input_files(spark, str(kind.source.path))
    if isinstance(kind.source, Debezium):
        return read_events(LinesOfFiles(spark, kind.source, files), kind.source, ["id"]).persist()
    return read_files(spark, kind.source, files, None).rows


def measure(spark: SparkSession, rows_of: Callable[[SparkSession, TextKind], DataFrame], kind: TextKind) -> Used:
    """Return what it takes to bring the rows into the cache, or through a plain reader."""
    meter = SparkMeter(spark)
    rows = rows_of(spark, kind)
    rows.write.format("noop").mode("overwrite").save()
    used = meter.read()
    rows.unpersist(blocking=True)
    return used


def main() -> None:
    """Play all rounds, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=4, help="the first is a warm-up")
    parser.add_argument("--kinds", default="json,nested,csv,events")
    parser.add_argument("--files", type=Path, help="folder for the files, which are kept and taken again")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        home = asked.files or Path(scratch) / "files"
        spark = open_session(Path(scratch))
        ratios: dict[str, float] = {}
        seconds: dict[str, dict[str, float]] = {}
        for kind in text_kinds(home):
            if kind.name not in asked.kinds.split(","):
                continue
            if not Path(kind.source.path).exists():
                write_files(spark, kind, asked.megabytes)
            sides = {"plain": plain_rows, "ours": our_rows}
            played: dict[str, list[Used]] = {side: [] for side in sides}
            for number in range(asked.rounds):
                for side, rows_of in sides.items():
                    read = measure(spark, rows_of, kind)
                    print(f"{kind.name} round {number} {side}: {read.task_seconds:.2f} s of tasks; {read}", flush=True)
                    played[side] += [read] if number else []
            best = {side: min(read.task_seconds for read in reads) for side, reads in played.items()}
            ratios[f"{kind.name}_ours_over_plain"] = round(best["ours"] / best["plain"], 2)
            seconds[kind.name] = {side: round(cpu, 2) for side, cpu in best.items()}
        spark.stop()
    command = f"scripts/bench text-sources --megabytes {asked.megabytes} --rounds {asked.rounds}"
    print(json.dumps({**frame("text-sources", command), "cpu_seconds": seconds, "ratios": ratios}))


if __name__ == "__main__":
    main()
