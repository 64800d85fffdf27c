"""What an upsert by position costs against Spark's MERGE, merge-on-read and copy-on-write, and against Delta's.

One session; every side has its own table with the same rows and starts from the same Parquet batch, dedupe included.
Sides take turns, and their contents are compared after each round. Round 0 warms the JVM and is not counted.

``--rows`` and ``--batch`` size it; ``--large`` is the size of the second table for ``growth_10x`` and the 100 M row
ratio, 0 to leave both out. Delta takes part when LAKE_DELTA_JARS names a folder with its jars.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.contracts.upsert_spec import UpsertSpec
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.upsert_batch import upsert_batch

MODES = ("merge", "update", "delete")
COLUMNS = "id BIGINT NOT NULL, n BIGINT, name STRING"
MERGE = """
    MERGE INTO {table} t USING (
        SELECT id, n, name FROM (
            SELECT *, row_number() OVER (PARTITION BY id ORDER BY n DESC) AS place FROM parquet.`{batch}`
        ) WHERE place = 1
    ) s ON t.id = s.id {pruning}
    WHEN MATCHED THEN UPDATE SET t.n = s.n, t.name = s.name
    WHEN NOT MATCHED THEN INSERT (id, n, name) VALUES (s.id, s.n, s.name)
"""


def open_session(home: Path) -> SparkSession:
    """Start the one session of all sides."""
    jars = [str(jar) for jar in sorted(Path(os.environ["AIRFLOW__LAKE__SPARK_JARS"]).glob("*.jar"))]
    extensions = ["org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"]
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": os.environ.get("LAKE_BENCH_MEMORY", "6g"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(home / "scratch"),
        "spark.sql.warehouse.dir": str(home / "delta"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": f"file://{home}/warehouse",
    }
    if delta := os.environ.get("LAKE_DELTA_JARS"):
        jars += [str(jar) for jar in sorted(Path(delta).glob("*.jar"))]
        extensions.append("io.delta.sql.DeltaSparkSessionExtension")
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    settings |= {"spark.jars": ",".join(jars), "spark.sql.extensions": ",".join(extensions)}
    builder = SparkSession.builder.master("local[2]").appName("upsert benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@dataclass
class Side:
    """One way to upsert, and the seconds it took.

    :param apply: upserts the batch below a path.
    """

    name: str
    table: str
    apply: Callable[[str], object]
    seconds: list[float] = field(default_factory=list)

    def median(self) -> float:
        """Seconds of the counted rounds."""
        return statistics.median(self.seconds)


@dataclass
class Bench:
    """Tables of one size.

    :param rows: in each table before the first round.
    """

    spark: SparkSession
    home: Path
    rows: int
    batch: int
    number: int = 0

    def iceberg_table(self, name: str, mode: str) -> str:
        """Create and fill a table of format version 3."""
        table = f"lake.bench.{name}_{self.rows}"
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
        properties = {"format-version": "3", **{f"write.{action}.mode": mode for action in MODES}}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        self.spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING iceberg TBLPROPERTIES ({listed})")
        self._fill(table)
        return table

    def delta_table(self) -> str:
        """Create and fill a Delta table with deletion vectors."""
        table = f"spark_catalog.default.delta_{self.rows}"
        properties = "'delta.enableDeletionVectors' = 'true'"
        self.spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING delta TBLPROPERTIES ({properties})")
        self._fill(table)
        return table

    def _fill(self, table: str) -> None:
        rows = self.spark.range(0, self.rows, 1, max(4, self.rows // 2_500_000))
        filled = rows.selectExpr("id", "id % 97 AS n", "concat('name ', pmod(xxhash64(id), 1000000)) AS name")
        filled.createOrReplaceTempView("rows")
        self.spark.sql(f"INSERT INTO {table} SELECT * FROM rows")

    def arrive(self, *, clustered: bool) -> str:
        """Write a batch of keys all over the table, or of its newest; some are new, one in a hundred comes twice."""
        self.number += 1
        path = f"{self.home}/batches/{self.rows}-{self.number}"
        near = self.rows - self.batch + self.batch // 10 * (self.number % 5)
        key = f"{near} + id" if clustered else f"pmod(xxhash64(id, {self.number}), {self.rows + self.rows // 10})"
        batch = self.spark.range(0, self.batch, 1, 2).selectExpr(f"{key} AS id", f"id + {self.number} AS n")
        batch = batch.unionByName(batch.filter("n % 100 = 0").selectExpr("id", "n + 1 AS n"))
        batch.selectExpr("id", "n", "concat('new ', n) AS name").write.parquet(path)
        return path

    def ours(self, table: str) -> Callable[[str], object]:
        """Our upsert, everything included but Spark's start."""

        def apply(batch: str) -> object:
            spec = UpsertSpec(
                catalog="lake",
                table=table.removeprefix("lake."),
                run=RunIdentity.of("bench", batch, "upsert"),
                source=Source(path=batch, format="parquet"),
                keys=("id",),
                order_by=("n",),
                strategy=UpsertStrategy.POSITIONS,
            )
            report = upsert_batch(self.spark, spec, Progress())
            print("   phases:", {phase: round(took, 2) for phase, took in report.seconds.items()})
            return report

        return apply

    def merge(self, table: str, *, pruned: bool = False) -> Callable[[str], object]:
        """``MERGE INTO`` as a user writes it; ``pruned`` with the best BETWEEN."""

        def apply(batch: str) -> object:
            pruning = ""
            if pruned:
                low, high = self.spark.read.parquet(batch).selectExpr("min(id)", "max(id)").collect()[0]
                pruning = f"AND t.id BETWEEN {low} AND {high}"
            return self.spark.sql(MERGE.format(table=table, batch=batch, pruning=pruning))

        return apply

    def play(self, sides: Sequence[Side], rounds: int, *, clustered: bool) -> None:
        """Give every side the same batches, in turn."""
        for number in range(rounds + 1):
            batch = self.arrive(clustered=clustered)
            took = {}
            for side in sides if number % 2 else reversed(sides):
                started = time.monotonic()
                side.apply(batch)
                took[side.name] = time.monotonic() - started
                if number:
                    side.seconds.append(took[side.name])
            print(f"round {number}:", {name: round(value, 2) for name, value in took.items()}, flush=True)
            contents = {self.contents(side.table) for side in sides}
            if len(contents) > 1:
                sys.exit(f"the tables differ: {contents}")

    def contents(self, table: str) -> tuple[int, int]:
        """Return count and checksum, which no order of rows changes."""
        checksum = "sum(CAST(xxhash64(id, n, name) AS DECIMAL(38, 0)))"
        count, total = self.spark.sql(f"SELECT count(*), {checksum} FROM {table}").collect()[0]
        return int(count), int(total)

    def read_seconds(self, table: str) -> float:
        """Return the seconds of a sum over two columns, the better of two."""
        seconds = []
        for _ in range(3):
            started = time.monotonic()
            self.spark.sql(f"SELECT sum(n), sum(length(name)) FROM {table}").collect()
            seconds.append(time.monotonic() - started)
        return min(seconds[1:])


def ratios_of(spark: SparkSession, home: Path, options: argparse.Namespace) -> dict[str, float]:
    """Measure what the options ask for."""
    bench = Bench(spark, home, options.rows, options.batch)
    ours = bench.iceberg_table("ours", "merge-on-read")
    on_read = bench.iceberg_table("on_read", "merge-on-read")
    sides = [Side("ours", ours, bench.ours(ours)), Side("merge_on_read", on_read, bench.merge(on_read))]
    if not options.quick:
        on_write = bench.iceberg_table("on_write", "copy-on-write")
        sides.append(Side("copy_on_write", on_write, bench.merge(on_write)))
    if os.environ.get("LAKE_DELTA_JARS"):
        delta = bench.delta_table()
        sides.append(Side("delta", delta, bench.merge(delta)))
    bench.play(sides, options.rounds, clustered=False)
    found = {f"random_vs_{side.name}": side.median() / sides[0].median() for side in sides[1:]}
    clustered = [Side(side.name, side.table, side.apply) for side in sides[:2]]
    bench.play(clustered, options.rounds, clustered=True)
    found["clustered_vs_merge_on_read"] = clustered[1].median() / clustered[0].median()
    pruned = [clustered[0], Side("pruned_merge", on_read, bench.merge(on_read, pruned=True))]
    pruned[0].seconds = []
    bench.play(pruned, options.rounds, clustered=True)
    found["clustered_vs_pruned_merge"] = pruned[1].median() / pruned[0].median()
    found["read_after_10"] = _read_after_ten(bench, sides[0])
    if options.large:
        found |= _larger(spark, home, options, pruned[0])
    return found


def _read_after_ten(bench: Bench, ours: Side) -> float:
    """Return the read cost after ten more upserts over that of the compacted table."""
    for _ in range(10):
        ours.apply(bench.arrive(clustered=False))
    after = bench.read_seconds(ours.table)
    bench.spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{ours.table}', options => map('rewrite-all', 'true'))"
    )
    return after / bench.read_seconds(ours.table)


def _larger(spark: SparkSession, home: Path, options: argparse.Namespace, small: Side) -> dict[str, float]:
    bench = Bench(spark, home, options.large, options.batch)
    ours = bench.iceberg_table("ours", "merge-on-read")
    on_read = bench.iceberg_table("on_read", "merge-on-read")
    sides = [Side("ours", ours, bench.ours(ours)), Side("merge_on_read", on_read, bench.merge(on_read))]
    bench.play(sides, options.rounds, clustered=False)
    growing = [Side("ours", ours, bench.ours(ours))]
    bench.play(growing, options.rounds, clustered=True)
    return {
        "random_100m_vs_merge_on_read": sides[1].median() / sides[0].median(),
        "growth_10x": growing[0].median() / small.median(),
    }


def main() -> None:
    """Measure and print the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000_000)
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", type=int, default=100_000_000)
    parser.add_argument("--quick", action="store_true", help="leave copy-on-write out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = open_session(Path(folder))
        ratios = {name: round(value, 2) for name, value in ratios_of(spark, Path(folder), options).items()}
        spark.stop()
    arguments = [f"--{name} {value}" for name, value in vars(options).items() if name != "quick"]
    command = " ".join(["scripts/bench upsert", *arguments, *(["--quick"] if options.quick else [])])
    print(json.dumps({"benchmark": "upsert", "command": command, "ratios": ratios}))


if __name__ == "__main__":
    main()
