"""Loads of a batch beside what Spark does by itself: an append beside ``writeTo().append()`` of the same files, an
overwrite beside ``writeTo().overwritePartitions()``.

All sides play in one session, in turn, each into a table of its own. A ratio is ours over the peer's, or over our own
other run; below 1 ours is quicker.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.spark_jobs.actions.append_batch import append_batch
from airflow_lake_provider.spark_jobs.actions.overwrite_batch import overwrite_partitions
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.benchmarks.bench_session import open_session
from tests.benchmarks.complete_loads import compare_whole
from tests.benchmarks.history_loads import compare_histories
from tests.benchmarks.kafka_loads import compare_topics, topics_to_load

# Spark's own number: adaptive execution merges what is small, for both sides.
SETTINGS = {"spark.sql.shuffle.partitions": "200", "spark.sql.adaptive.enabled": "true"}
PARTITIONS, SKEWED_SHARE, DAYS_OF_SKEW = 500, 0.9, 20
_MORE = (
    "concat('value ', xxhash64(id, {0} + 10) % 100000)",
    "cast(xxhash64(id, {0} + 10) % 100000 AS DOUBLE)",
    "cast(xxhash64(id, {0} + 10) % 1000 AS INT)",
)
_RUNS = count()


@dataclass
class Loads:
    """The inputs, and the tables that they are loaded into.

    :param rows: of each input.
    """

    spark: SparkSession
    home: Path
    rows: int

    def files(
        self, name: str, day: str, amount: str = "cast(xxhash64(id, 2) % 1000 AS INT)", more_columns: int = 0
    ) -> str:
        """Write an input of 16 Parquet files, whose rows fall on days, and return its path.

        :param day: SQL of the day of a row, a number.
        :param amount: SQL of the fifth column.
        :param more_columns: behind it, texts and numbers in turn.
        """
        path = f"{self.home}/in/{name}"
        rows = self.spark.range(0, self.rows, numPartitions=16).select(
            "id",
            sf.expr(f"timestamp_seconds(1.7e9 + 86400 * ({day}))").alias("at"),
            sf.expr("concat('user-', xxhash64(id) % 1000000)").alias("name"),
            sf.expr("cast(xxhash64(id, 1) AS DOUBLE)").alias("score"),
            sf.expr(amount).alias("amount"),
            *(sf.expr(_MORE[place % 3].format(place)).alias(f"c{place}") for place in range(more_columns)),
        )
        rows.write.parquet(path)
        return f"{path}/*.parquet"

    def append(self, path: str, partition_by: tuple[str, ...] = ()) -> tuple[float, str]:
        """Load by ours into a table that has the layout, and return seconds and the table."""
        table = self.table(path, partition_by)
        spec = AppendSpec(
            catalog="lake",
            table=table,
            run=RunIdentity.of("bench", str(next(_RUNS)), "t", "-1"),
            source=Files(path, name="in"),
        )
        return timed(lambda: append_batch(self.spark, spec, Progress())), table

    def plain(self, path: str, partition_by: tuple[str, ...] = ()) -> tuple[float, str]:
        """Load by the line that a user writes."""
        table = self.table(path, partition_by)
        return timed(lambda: self.spark.read.parquet(path).writeTo(f"lake.{table}").append()), table

    def overwrite(self, path: str, table: str) -> tuple[float, str]:
        """Put an input in place of the partitions that it is in, by ours."""
        spec = OverwritePartitionsSpec(
            catalog="lake",
            table=table,
            run=RunIdentity.of("bench", str(next(_RUNS)), "t", "-1"),
            source=Files(path, name="in"),
        )
        return timed(lambda: overwrite_partitions(self.spark, spec, Progress())), table

    def plain_overwrite(self, path: str, table: str) -> tuple[float, str]:
        """Do the same by the line that a user writes."""
        return timed(lambda: self.spark.read.parquet(path).writeTo(f"lake.{table}").overwritePartitions()), table

    def table(self, path: str, partition_by: tuple[str, ...]) -> str:
        """Make an empty table with the columns of an input."""
        name = f"bench.t{next(_RUNS)}"
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in self.spark.read.parquet(path).schema)
        layout = f"PARTITIONED BY ({', '.join(partition_by)})" if partition_by else ""
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
        properties = "TBLPROPERTIES ('format-version' = '3')"
        self.spark.sql(f"CREATE TABLE lake.{name} ({columns}) USING iceberg {layout} {properties}")
        return name

    def data_files(self, table: str) -> int:
        """Count the data files of a table."""
        return self.spark.table(f"lake.{table}.data_files").count()


def timed(run: Callable[[], Any]) -> float:
    """Return the seconds that a call takes."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def compare(home: Path, rows: int, repeats: int) -> dict[str, Any]:
    """Run all sides in turn, and return seconds, files and ratios."""
    spark = open_session(home)
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    loads = Loads(spark, home, rows)
    even = loads.files("even", f"xxhash64(id) % {DAYS_OF_SKEW // 2}")
    skewed = loads.files("skewed", f"CASE WHEN id % 100 < {int(100 * SKEWED_SHARE)} THEN 0 ELSE xxhash64(id) % 10 END")
    many = loads.files("many", f"pmod(xxhash64(id), {PARTITIONS})")
    days = ("days(at)",)
    replaced = {side: loads.plain(even, days)[1] for side in ("ours", "plain")}
    sides: dict[str, Callable[[], tuple[float, str]]] = {
        "append": lambda: loads.append(even),
        "plain": lambda: loads.plain(even),
        "append_even_days": lambda: loads.append(even, days),
        "append_skewed_days": lambda: loads.append(skewed, days),
        "append_many_days": lambda: loads.append(many, days),
        "plain_many_days": lambda: loads.plain(many, days),
        # Each into a table of its own that has the days already.
        "overwrite": lambda: loads.overwrite(even, replaced["ours"]),
        "plain_overwrite": lambda: loads.plain_overwrite(even, replaced["plain"]),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    files: dict[str, int] = {}
    for number in range(repeats + 1):
        for name, side in sides.items():
            took, table = side()
            files[name] = loads.data_files(table)
            # The first of each warms up.
            seconds[name] += [took] if number else []
    spark.stop()
    middle = {name: median(times) for name, times in seconds.items()}
    return {
        "settings": {**SETTINGS, "rows": rows, "repeats": repeats, "both sides": "format version 3, local[2]"},
        "seconds": {name: [round(each, 2) for each in times] for name, times in seconds.items()},
        "files": files,
        "ratios": {
            "append_vs_plain_write": round(middle["append"] / middle["plain"], 3),
            "overwrite_vs_plain": round(middle["overwrite"] / middle["plain_overwrite"], 3),
            "append_files_per_partition": round(files["append_many_days"] / PARTITIONS, 3),
            "append_skew": round(middle["append_skewed_days"] / middle["append_even_days"], 3),
        },
    }


def beside_merge(play: Callable[..., dict[str, Any]], home: Path, rows: int, repeats: int) -> dict[str, Any]:
    """Load beside ``MERGE``, see ``complete_loads.py`` and ``history_loads.py``."""
    spark = open_session(home)
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    compared = play(Loads(spark, home, rows), repeats, timed)
    spark.stop()
    settings = {**SETTINGS, "rows": rows, "repeats": repeats, "both sides": "format version 3, local[2]"}
    return {**compared, "settings": {**settings, **compared["settings"]}}


def topic(home: Path, rows: int, repeats: int) -> dict[str, Any]:
    """Load a topic, see ``kafka_loads.py``."""
    with topics_to_load(home, rows) as loads:
        return compare_topics(loads, repeats, timed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kafka", action="store_true", help="a topic of a broker, beside Spark's own reader of it")
    parser.add_argument("--complete", action="store_true", help="a source that is the whole table, of 30 M rows")
    parser.add_argument("--history", action="store_true", help="a history of a dimension of 10 M rows")
    given = parser.parse_args()
    other = compare_whole if given.complete else compare_histories if given.history else None
    played = topic if given.kafka else compare if other is None else partial(beside_merge, other)
    with tempfile.TemporaryDirectory() as folder:
        rows = given.rows or (30_000_000 if given.complete else 10_000_000)
        print(json.dumps(played(Path(folder), rows, given.repeats), indent=2))
