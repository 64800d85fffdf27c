"""Measure the cost of our job over a bare spark-submit of the same SQL, and the time from a commit to a downstream run.

Both sides of the first start from the same Parquet batch and the same table, dedupe included, in alternating rounds;
their tables are compared after each. ``--rows`` and ``--batch`` size it. The second is in ``event_lag.py``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog

from tests.benchmarks.event_lag import seconds_to_downstream_runs
from tests.benchmarks.submitted_lake import SubmittedLake, task_context

TABLES = {"ours": "bench.ours", "bare": "bench.bare"}
SETUP = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows, batch, folder, rounds = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
spark.sql("CREATE NAMESPACE IF NOT EXISTS bench")
for table in ("bench.ours", "bench.bare"):
    spark.range(rows).selectExpr("id", "id % 97 AS n", "concat('name ', id) AS name").createOrReplaceTempView("seed")
    spark.sql(f"CREATE TABLE {table} (id BIGINT NOT NULL, n BIGINT, name STRING) USING iceberg TBLPROPERTIES ("
              "'format-version'='3', 'write.merge.mode'='merge-on-read', 'write.update.mode'='merge-on-read', "
              "'write.delete.mode'='merge-on-read')")
    spark.sql(f"INSERT INTO {table} SELECT * FROM seed")
for i in range(rounds):
    picked = f"pmod(xxhash64(id, {i}), {rows} + {batch} div 10)"
    spark.range(batch).selectExpr(f"{picked} AS id", f"id + {i} AS n", "concat('new ', id) AS name").write.parquet(
        f"{folder}/round-{i}")
spark.stop()
"""
BARE = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
spark.read.parquet(sys.argv[1]).createOrReplaceTempView("batch")
spark.sql('''
    MERGE INTO bench.bare t USING (
        SELECT id, n, name FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY n DESC) AS place FROM batch)
        WHERE place = 1
    ) s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET t.n = s.n, t.name = s.name
    WHEN NOT MATCHED THEN INSERT (id, n, name) VALUES (s.id, s.n, s.name)
''')
spark.stop()
"""


def upsert_by_operator(source: str, number: int) -> float:
    """Run our operator on the same batch, and return its seconds."""
    from airflow_lake_provider import Files
    from airflow_lake_provider.operators.upsert import LakeUpsertOperator

    operator = LakeUpsertOperator(
        task_id="bench", table="bench.ours", source=Files(source, format="parquet"), keys=["id"], order_by=["n"]
    )
    started = time.monotonic()
    operator.execute(task_context(f"round {number}"))
    return time.monotonic() - started


def contents(lake: SubmittedLake, table: str) -> Any:
    """Return a table's rows, sorted."""
    catalog = load_catalog("lake_default", **lake.connection.pyiceberg_properties())
    return catalog.load_table(table).scan().to_arrow().sort_by("id")


def submit_overhead(rows: int, batch: int, rounds: int) -> float:
    """Return our median seconds over the bare ones; round 0 warms the file cache and is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        lake = SubmittedLake.at(Path(folder) / "lake")
        lake.submit(SETUP, str(rows), str(batch), folder, str(rounds + 1))
        seconds: dict[str, list[float]] = {"ours": [], "bare": []}
        for number in range(rounds + 1):
            source = f"{folder}/round-{number}"
            took = {}
            for side in ("ours", "bare") if number % 2 else ("bare", "ours"):
                took[side] = upsert_by_operator(source, number) if side == "ours" else lake.submit(BARE, source)
            same = contents(lake, TABLES["ours"]).equals(contents(lake, TABLES["bare"]))
            print(f"round {number}: ours {took['ours']:.1f} s, bare {took['bare']:.1f} s, equal contents: {same}")
            if not same:
                sys.exit("the two tables differ")
            if number:
                for side, value in took.items():
                    seconds[side].append(value)
    return statistics.median(seconds["ours"]) / statistics.median(seconds["bare"])


def event_lag_over_poll(commits: int, poll_seconds: float) -> float:
    """Return the worst commit's seconds to its downstream run, less the poll interval."""
    with tempfile.TemporaryDirectory() as folder:
        seconds = seconds_to_downstream_runs(Path(folder), commits, poll_seconds)
    summary = f"median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s"
    print(f"commit to run: {summary}, at a poll interval of {poll_seconds} s")
    return max(seconds) - poll_seconds


def main() -> None:
    """Measure and print the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batch", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commits", type=int, default=20)
    parser.add_argument("--poll", type=float, default=5.0, help="seconds")
    options = parser.parse_args()
    ratios = {
        "submit_overhead": round(submit_overhead(options.rows, options.batch, options.rounds), 3),
        "event_lag_seconds_over_poll": round(event_lag_over_poll(options.commits, options.poll), 2),
    }
    command = "scripts/bench first-light " + " ".join(f"--{name} {value}" for name, value in vars(options).items())
    print(json.dumps({"benchmark": "first-light", "command": command, "ratios": ratios}))


if __name__ == "__main__":
    main()
