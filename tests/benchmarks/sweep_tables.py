"""Tables of one size for all sides of a sweep, which are put back to their first snapshot before each cell.

The Iceberg tables share their first data files. So only one of them is written, and a cell finds no deletes of another.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.benchmarks.upsert_tables import Bench, Side

OWN_STRATEGIES = {
    "ours_positions": UpsertStrategy.POSITIONS,
    "ours_copy_on_write": UpsertStrategy.COPY_ON_WRITE,
    "ours_merge": UpsertStrategy.MERGE,
}


@dataclass
class SweepTables:
    """Tables with the same rows.

    :param applies: side to its table, and what upserts a batch into it.
    :param first: a table's first snapshot; a version of Delta.
    """

    bench: Bench
    applies: dict[str, tuple[str, Callable[[str], object]]] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    @classmethod
    def build(cls, spark: SparkSession, home: Path, rows: int) -> SweepTables:
        """Fill the first table, and give its files to the others; Delta's is filled by itself."""
        bench = Bench(spark, home, rows, 0)
        built = cls(bench)
        ours = bench.iceberg_table("ours", "merge-on-read")
        built._add("ours", ours, bench.ours(ours))
        for side, mode in (("merge_on_read", "merge-on-read"), ("copy_on_write", "copy-on-write")):
            table = bench.iceberg_copy(ours, side, mode)
            built._add(side, table, bench.merge(table))
        if os.environ.get("LAKE_DELTA_JARS"):
            delta = bench.delta_table()
            built.applies["delta"] = (delta, bench.merge(delta))
            newest = spark.sql(f"DESCRIBE HISTORY {delta} LIMIT 1").select("version").collect()[0][0]
            built.first["delta"] = str(newest)
        for side, strategy in OWN_STRATEGIES.items():
            table = bench.iceberg_copy(ours, side, "merge-on-read")
            built._add(side, table, bench.ours(table, strategy))
        return built

    def sides(self) -> list[Side]:
        """Return the sides, without seconds."""
        return [Side(name, table, apply) for name, (table, apply) in self.applies.items()]

    def put_back(self) -> None:
        """Give every table its first rows again; this changes metadata only."""
        for name, (table, _) in self.applies.items():
            if name == "delta":
                self.bench.spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {self.first[name]}")
            else:
                path = table.removeprefix("lake.")
                self.bench.spark.sql(f"CALL lake.system.rollback_to_snapshot('{path}', {self.first[name]})")

    def drop(self) -> None:
        """Remove all tables and their files; the one that the others share files with goes last."""
        for table, _ in reversed(self.applies.values()):
            self.bench.spark.sql(f"DROP TABLE {table}")

    def _add(self, side: str, table: str, apply: Callable[[str], Any]) -> None:
        self.applies[side] = (table, apply)
        heads = self.bench.spark.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").collect()
        self.first[side] = str(heads[0][0])
