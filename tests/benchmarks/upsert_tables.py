"""Tables of one kind and size, the batches that arrive for them, and each way to upsert one: ours and the peers'."""

from __future__ import annotations

import statistics
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.upsert_batch import upsert_batch
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.benchmarks.spark_meter import SparkMeter

MODES = ("merge", "update", "delete")
MERGE = """
    MERGE INTO {table} t USING (
        SELECT {columns} FROM (
            SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY n DESC) AS place FROM parquet.`{batch}`
        ) WHERE place = 1
    ) s ON {on} {pruning}
    WHEN MATCHED THEN UPDATE SET t.n = s.n, t.name = s.name
    WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({values})
"""


def file_count(rows: int) -> int:
    """Return how many data files a table of so many rows begins with."""
    return max(4, rows // 2_500_000)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Kind of tables that a comparison uses.

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
        table = self._create(name, mode)
        self._fill(table)
        return table

    def iceberg_copy(self, source: str, name: str, mode: str) -> str:
        """Create a table of the data files that another's head has added: quicker than to write them once more."""
        table = self._create(name, mode)
        catalog: Any = self.spark._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]
        java, copy = (catalog.loadIcebergTable(self.spark._jsparkSession, each) for each in (source, table))
        append = copy.newFastAppend()
        for file in java.currentSnapshot().addedDataFiles(java.io()):
            append.appendFile(file)
        append.commit()
        return table

    def _create(self, name: str, mode: str) -> str:
        table = f"lake.bench.{name}_{self.kind.name}_{self.rows}_{self.batch}"
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
        properties = {"format-version": self.kind.version, **{f"write.{action}.mode": mode for action in MODES}}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        created = f"CREATE TABLE {table} ({self.kind.ddl}) USING iceberg {self.kind.partitioning}"
        self.spark.sql(f"{created} TBLPROPERTIES ({listed})")
        return table

    def delta_table(self) -> str:
        """Create and fill a Delta table with deletion vectors."""
        table = f"spark_catalog.default.delta_{self.rows}"
        properties = "'delta.enableDeletionVectors' = 'true'"
        self.spark.sql(f"CREATE TABLE {table} ({self.kind.ddl}) USING delta TBLPROPERTIES ({properties})")
        self._fill(table)
        return table

    def _fill(self, table: str) -> None:
        rows = self.spark.range(0, self.rows, 1, file_count(self.rows)).withColumnRenamed("id", "k")
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
                source=Files(path=batch, format="parquet", name="bench"),
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
                seconds = self.time(side, batch, number)
                if number > 0:
                    side.seconds.append(seconds)
            self.refuse_different(sides)

    def time(self, side: Side, batch: str, number: int) -> float:
        """Apply a batch, print what a round of one side used, and return its seconds."""
        meter = SparkMeter(self.spark)
        side.apply(batch)
        used = meter.read()
        print(f"round {number}, {self.kind.name}, {side.name}: {used}", flush=True)
        return used.seconds

    def refuse_different(self, sides: Sequence[Side]) -> None:
        """End the benchmark when sides that got the same batches differ: no number comes from a wrong answer."""
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
