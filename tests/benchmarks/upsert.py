"""What an upsert by position costs against Spark's MERGE, merge-on-read and copy-on-write, and against Delta's.

One session; every side has its own table with the same rows and starts from the same Parquet batch, dedupe included.
Sides take turns, and their contents are compared after each round. To warm the JVM, ``--warm-up`` rounds are played on
tables of a tenth first, and the first round of each table is not counted. For each round it prints seconds, seconds of
CPU (of which a busy machine takes none away), and megabytes read and shuffled.

``--rows`` and ``--batch`` size it; 0 rows leave out the comparison of all sides. ``--large`` is the size of the table
of the 100 M row ratio and of ``growth_10x``, which compares it with one of a tenth, 0 to leave both out. ``--kinds`` is
the size of tables of other kinds (format version 2, partitioned, string and composite keys) and of those that get
batches of 0.01 to 20 percent of their rows, 0 to leave them out. Delta takes part when LAKE_DELTA_JARS names a folder
with its jars.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.contracts.upsert_spec import UpsertSpec
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.upsert_batch import upsert_batch
from tests.benchmarks.spark_meter import SparkMeter

MODES = ("merge", "update", "delete")
# Uncounted rounds of each table of another kind.
KIND_WARM_UP = 2
# Times the batch: so many clustered keys that a run of growth_10x costs several times what an empty one costs.
GROWTH_BATCH = 20
SHARES = (0.0001, 0.001, 0.01, 0.05, 0.2)
MERGE = """
    MERGE INTO {table} t USING (
        SELECT {columns} FROM (
            SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY n DESC) AS place FROM parquet.`{batch}`
        ) WHERE place = 1
    ) s ON {on} {pruning}
    WHEN MATCHED THEN UPDATE SET t.n = s.n, t.name = s.name
    WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({values})
"""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What the tables of a comparison are like.

    :param keys: name of each key column to its SQL over the number ``k`` of a row.
    :param types: of the key columns, in their order.
    :param partitioning: clause of ``CREATE TABLE``; empty for none.
    """

    name: str
    keys: dict[str, str] = field(default_factory=lambda: {"id": "k"})
    types: Sequence[str] = ("BIGINT",)
    version: str = "3"
    partitioning: str = ""

    @property
    def columns(self) -> str:
        """All columns, in their order."""
        return ", ".join((*self.keys, "n", "name"))

    @property
    def ddl(self) -> str:
        """Columns with their types."""
        keys = (f"{name} {kind} NOT NULL" for name, kind in zip(self.keys, self.types, strict=True))
        return ", ".join((*keys, "n BIGINT", "name STRING"))

    @property
    def selected_keys(self) -> list[str]:
        """SQL of the key columns over ``k``."""
        return [f"{sql} AS {name}" for name, sql in self.keys.items()]

    def merge(self, table: str, batch: str, pruning: str = "") -> str:
        """Return the statement as a user writes it."""
        on = " AND ".join(f"t.{key} = s.{key}" for key in self.keys)
        values = ", ".join(f"s.{column}" for column in self.columns.split(", "))
        columns, keys = self.columns, ", ".join(self.keys)
        return MERGE.format(table=table, columns=columns, keys=keys, batch=batch, on=on, pruning=pruning, values=values)


PLAIN = Kind(name="plain")
STRINGS = {"id": "concat('key ', lpad(k, 12, '0'))"}
COMPOSITE = {"region": "concat('region ', k % 8)", "id": "k"}
KINDS = (
    Kind(name="version_2", version="2"),
    Kind(name="partitioned", partitioning="PARTITIONED BY (bucket(8, id))"),
    Kind(name="string_keys", keys=STRINGS, types=("STRING",)),
    Kind(name="composite_keys", keys=COMPOSITE, types=("STRING", "BIGINT")),
    Kind(
        name="composite_partitioned",
        keys=COMPOSITE,
        types=("STRING", "BIGINT"),
        partitioning="PARTITIONED BY (region)",
    ),
)


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
    :param batch: rows of a batch.
    :param warm_up: rounds that are not counted.
    """

    spark: SparkSession
    home: Path
    rows: int
    batch: int
    warm_up: int = 1
    kind: Kind = PLAIN
    number: int = 0

    def iceberg_table(self, name: str, mode: str) -> str:
        """Create and fill a table."""
        table = f"lake.bench.{name}_{self.kind.name}_{self.rows}_{self.batch}"
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
        properties = {"format-version": self.kind.version, **{f"write.{action}.mode": mode for action in MODES}}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        created = f"CREATE TABLE {table} ({self.kind.ddl}) USING iceberg {self.kind.partitioning}"
        self.spark.sql(f"{created} TBLPROPERTIES ({listed})")
        self._fill(table)
        return table

    def delta_table(self) -> str:
        """Create and fill a Delta table with deletion vectors."""
        table = f"spark_catalog.default.delta_{self.rows}"
        properties = "'delta.enableDeletionVectors' = 'true'"
        self.spark.sql(f"CREATE TABLE {table} ({self.kind.ddl}) USING delta TBLPROPERTIES ({properties})")
        self._fill(table)
        return table

    def _fill(self, table: str) -> None:
        rows = self.spark.range(0, self.rows, 1, max(4, self.rows // 2_500_000)).withColumnRenamed("id", "k")
        name = "concat('name ', pmod(xxhash64(k), 1000000)) AS name"
        rows.selectExpr(*self.kind.selected_keys, "k % 97 AS n", name).createOrReplaceTempView("rows")
        self.spark.sql(f"INSERT INTO {table} SELECT * FROM rows")

    def arrive(self, *, clustered: bool) -> str:
        """Write a batch of keys all over the table, or of its newest; some are new, one in a hundred comes twice."""
        self.number += 1
        path = f"{self.home}/batches/{uuid.uuid4().hex}"
        near = self.rows - self.batch + self.batch // 10 * (self.number % 5)
        key = f"{near} + id" if clustered else f"pmod(xxhash64(id, {self.number}), {self.rows + self.rows // 10})"
        batch = self.spark.range(0, self.batch, 1, 2).selectExpr(f"{key} AS k", f"id + {self.number} AS n")
        batch = batch.unionByName(batch.filter("n % 100 = 0").selectExpr("k", "n + 1 AS n"))
        batch.selectExpr(*self.kind.selected_keys, "n", "concat('new ', n) AS name").write.parquet(path)
        return path

    def ours(self, table: str, strategy: UpsertStrategy = UpsertStrategy.AUTO) -> Callable[[str], object]:
        """Our upsert, everything included but Spark's start."""

        def apply(batch: str) -> object:
            spec = UpsertSpec(
                catalog="lake",
                table=table.removeprefix("lake."),
                run=RunIdentity.of("bench", batch, "upsert"),
                source=Source(path=batch, format="parquet"),
                keys=tuple(self.kind.keys),
                order_by=("n",),
                strategy=strategy,
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
            return self.spark.sql(self.kind.merge(table, batch, pruning))

        return apply

    def play(self, sides: Sequence[Side], rounds: int, *, clustered: bool) -> None:
        """Give every side the same batches, in turn."""
        for number in range(1 - self.warm_up, rounds + 1):
            batch = self.arrive(clustered=clustered)
            for side in sides if number % 2 else reversed(sides):
                meter = SparkMeter(self.spark)
                side.apply(batch)
                used = meter.read()
                print(f"round {number}, {self.kind.name}, {side.name}: {used}", flush=True)
                if number > 0:
                    side.seconds.append(used.seconds)
            contents = {self.contents(side.table) for side in sides} if len(sides) > 1 else set()
            if len(contents) > 1:
                sys.exit(f"the tables differ: {contents}")

    def contents(self, table: str) -> tuple[int, int]:
        """Return count and checksum, which no order of rows changes."""
        checksum = f"sum(CAST(xxhash64({self.kind.columns}) AS DECIMAL(38, 0)))"
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
    _warm(spark, home, options)
    found = _compared(spark, home, options) if options.rows else {}
    if options.kinds:
        found |= _kinds(spark, home, options)
    if options.large:
        found |= _larger(spark, home, options)
    return found


def _compared(spark: SparkSession, home: Path, options: argparse.Namespace) -> dict[str, float]:
    bench = Bench(spark, home, options.rows, options.batch)
    sides = _all_sides(bench, options)
    ours, on_read, *_ = sides
    bench.play(sides, options.rounds, clustered=False)
    found = {f"random_vs_{side.name}": side.median() / ours.median() for side in sides[1:]}
    clustered = [Side(side.name, side.table, side.apply) for side in (ours, on_read)]
    bench.play(clustered, options.rounds, clustered=True)
    found["clustered_vs_merge_on_read"] = clustered[1].median() / clustered[0].median()
    pruned = [
        Side("ours", ours.table, ours.apply),
        Side("pruned_merge", on_read.table, bench.merge(on_read.table, pruned=True)),
    ]
    bench.play(pruned, options.rounds, clustered=True)
    found["clustered_vs_pruned_merge"] = pruned[1].median() / pruned[0].median()
    found["read_after_10"] = _read_after_ten(bench, ours)
    _drop(spark, sides)
    return found


def _warm(spark: SparkSession, home: Path, options: argparse.Namespace) -> None:
    """Let every side run on tables of a tenth, until the JVM has compiled most of it; nothing is counted."""
    # Not so small that ours would write the table anew.
    rows = max(options.rows // 10, options.batch * 20)
    bench = Bench(spark, home, rows, options.batch, options.warm_up)
    sides = _all_sides(bench, options)
    bench.play(sides, 0, clustered=False)
    _drop(spark, sides)


def _drop(spark: SparkSession, sides: Sequence[Side]) -> None:
    for side in sides:
        # Delta removes the files without being asked.
        spark.sql(f"DROP TABLE {side.table}{'' if side.name == 'delta' else ' PURGE'}")


def _all_sides(bench: Bench, options: argparse.Namespace) -> list[Side]:
    sides = _ours_and_merge(bench)
    if not options.quick:
        on_write = bench.iceberg_table("on_write", "copy-on-write")
        sides.append(Side("copy_on_write", on_write, bench.merge(on_write)))
    if os.environ.get("LAKE_DELTA_JARS"):
        delta = bench.delta_table()
        sides.append(Side("delta", delta, bench.merge(delta)))
    return sides


def _ours_and_merge(bench: Bench) -> list[Side]:
    ours = bench.iceberg_table("ours", "merge-on-read")
    on_read = bench.iceberg_table("on_read", "merge-on-read")
    return [Side("ours", ours, bench.ours(ours)), Side("merge_on_read", on_read, bench.merge(on_read))]


def _kinds(spark: SparkSession, home: Path, options: argparse.Namespace) -> dict[str, float]:
    size, batch, warm_up = options.kinds, options.batch, KIND_WARM_UP
    benches = {kind.name: Bench(spark, home, size, batch, warm_up, kind) for kind in KINDS}
    benches |= {f"share_{share:.2%}": Bench(spark, home, size, int(size * share), warm_up) for share in SHARES}
    benches["clustered"] = Bench(spark, home, size, batch, warm_up)
    found: dict[str, float] = {}
    for name, bench in benches.items():
        sides = _ours_and_merge(bench)
        by_merge = bench.iceberg_table("ours_by_merge", "merge-on-read")
        sides.append(Side("ours_by_merge", by_merge, bench.ours(by_merge, UpsertStrategy.MERGE)))
        bench.play(sides, options.rounds, clustered=name == "clustered")
        ours, on_read, merged = (side.median() for side in sides)
        of_kind = f"kind_{name}"
        found |= {f"{of_kind}_vs_merge_on_read": on_read / ours, f"{of_kind}_vs_ours_by_merge": merged / ours}
        _drop(spark, sides)
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


def _larger(spark: SparkSession, home: Path, options: argparse.Namespace) -> dict[str, float]:
    bench = Bench(spark, home, options.large, options.batch)
    sides = _ours_and_merge(bench)
    bench.play(sides, options.rounds, clustered=False)
    _drop(spark, sides[1:])
    grown = sides[0].table
    tenth = Bench(spark, home, options.large // 10, options.batch)
    base = tenth.iceberg_table("ours", "merge-on-read")
    floor = _growth_seconds(tenth, base, options.rounds, 1)
    small = _growth_seconds(tenth, base, options.rounds, options.batch * GROWTH_BATCH)
    large = _growth_seconds(bench, grown, options.rounds, options.batch * GROWTH_BATCH)
    print(f"growth: {floor:.1f} s for one row, {small:.1f} s in a tenth of the table, {large:.1f} s in the whole")
    return {
        "random_100m_vs_merge_on_read": sides[1].median() / sides[0].median(),
        "growth_10x": large / small,
        "growth_base_over_floor": small / floor,
    }


def _growth_seconds(bench: Bench, table: str, rounds: int, batch: int) -> float:
    """Return the median seconds of upserts with ``batch`` clustered keys."""
    bench = replace(bench, batch=batch)
    side = Side(f"ours, {batch} clustered rows", table, bench.ours(table))
    bench.play([side], rounds, clustered=True)
    return side.median()


def main() -> None:
    """Measure and print the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000_000)
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=6, help="rounds before the first table")
    parser.add_argument("--large", type=int, default=100_000_000)
    parser.add_argument("--kinds", type=int, default=5_000_000)
    parser.add_argument("--quick", action="store_true", help="leave copy-on-write out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = open_session(Path(folder))
        ratios = {name: round(value, 2) for name, value in ratios_of(spark, Path(folder), options).items()}
        spark.stop()
    arguments = [f"--{name.replace('_', '-')} {value}" for name, value in vars(options).items() if name != "quick"]
    command = " ".join(["scripts/bench upsert", *arguments, *(["--quick"] if options.quick else [])])
    print(json.dumps({"benchmark": "upsert", "command": command, "ratios": ratios}))


if __name__ == "__main__":
    main()
