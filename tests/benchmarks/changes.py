"""Compare the incremental read of two snapshots with a full diff: an outer join of both by key.

One session. A batch of keys, all over the table or of its newest, is changed, and a tenth of it deleted, by a MERGE or
by our upsert and a DELETE. Both sides read the same range in turn, all columns, into Spark's ``noop`` sink; what they
find is compared once. ``upserts`` leaves deletes out; ``updates`` is a range without deletes, read for them all the
same. Rounds of a tenth of the table warm the JVM first.

``--rows`` is the size of the greater tables, of a tenth the smaller; ``growth_10x_clustered`` is the ratio of ours on
both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.spark_jobs.read_changes import read_changes
from tests.benchmarks.bench_session import open_session
from tests.benchmarks.spark_meter import SparkMeter
from tests.benchmarks.upsert_floor import measure_floor
from tests.benchmarks.upsert_tables import Bench

# Where the changed keys are, by a MERGE or by our upsert.
KINDS = ("random", "clustered", "random_ours", "clustered_ours")
MERGE = """
    MERGE INTO {table} t USING (SELECT DISTINCT id, gone FROM parquet.`{batch}`) s ON t.id = s.id
    WHEN MATCHED AND s.gone THEN DELETE
    WHEN MATCHED THEN UPDATE SET t.n = t.n + 1000, t.name = 'new'
"""
FULL_DIFF = """
    SELECT coalesce(a.id, b.id) AS id, b.n, b.name, if(a.id IS NULL, 'delete', 'upsert') AS change
    FROM (SELECT * FROM {table} VERSION AS OF {end}) a
    FULL OUTER JOIN (SELECT * FROM {table} VERSION AS OF {start}) b ON a.id = b.id
    WHERE a.id IS NULL OR b.id IS NULL OR a.n != b.n OR a.name != b.name
"""


@dataclass(frozen=True, kw_only=True)
class Range:
    """A table with two snapshots.

    :param deletes: whether rows went between them.
    """

    name: str
    table: str
    start: str
    end: str
    deletes: bool = True


@dataclass
class ChangesBench:
    """Ranges of tables of one size.

    :param kinds: those of ``KINDS`` to measure.
    :param diff_rounds: counted rounds of the full diff, which takes most of the time and varies little.
    :param seconds: of every counted round, by range and side.
    :param floors: seconds of each part of the floor, by range.
    """

    spark: SparkSession
    home: Path
    rows: int
    batch: int
    rounds: int
    kinds: Sequence[str] = KINDS
    diff_rounds: int | None = None
    seconds: dict[str, list[float]] = field(default_factory=dict)
    floors: dict[str, dict[str, float]] = field(default_factory=dict)

    def measure(self) -> dict[str, float]:
        """Return ratios by name; a full diff over ours."""
        ratios: dict[str, float] = {}
        for kind in self.kinds:
            ratios |= self._measure_kind(kind)
        return ratios

    def _measure_kind(self, prefix: str) -> dict[str, float]:
        clustered, writer = prefix.startswith("clustered"), "ours" if prefix.endswith("_ours") else "merge"
        table = Bench(self.spark, self.home, self.rows, self.batch).iceberg_table(f"{prefix}_changes", "merge-on-read")
        heads = [self._head(table)]
        for part, deletes in ((0, False), (1, True)):
            batch = self._arrive(part, clustered=clustered, deletes=deletes)
            getattr(self, f"_write_by_{writer}")(table, batch, part)
            heads.append(self._head(table))
        updates = Range(name=f"{prefix}_updates", table=table, start=heads[0], end=heads[1], deletes=False)
        deletes_too = Range(name=f"{prefix}_deletes", table=table, start=heads[1], end=heads[2])
        ratios = self._play(deletes_too, "net", name=f"{prefix}_deletes")
        ratios |= self._play(deletes_too, "upserts", name=f"{prefix}_upserts")
        ratios |= self._play(updates, "net", name=f"{prefix}_updates")
        ratios |= self._floor_ratio(table, batch, name=f"{prefix}_deletes")
        self.spark.sql(f"DROP TABLE {table} PURGE")
        return ratios

    def _arrive(self, part: int, *, clustered: bool, deletes: bool) -> str:
        path = f"{self.home}/batches/{self.rows}-{part}-{clustered}"
        key = f"{self.rows - (part + 1) * self.batch} + id" if clustered else f"pmod(xxhash64(id, {part}), {self.rows})"
        gone = "id % 10 = 0" if deletes else "false"
        rows = self.spark.range(0, self.batch, 1, 2).selectExpr(f"{key} AS id", f"{gone} AS gone")
        rows.groupBy("id").agg({"gone": "max"}).toDF("id", "gone").write.mode("overwrite").parquet(path)
        return path

    def _write_by_merge(self, table: str, batch: str, part: int) -> None:
        self.spark.sql(MERGE.format(table=table, batch=batch))

    def _write_by_ours(self, table: str, batch: str, part: int) -> None:
        kept = f"{batch}-kept"
        written = ("id", f"id + {part + 1} AS n", "'new' AS name")
        changed = self.spark.read.parquet(batch).where("NOT gone").selectExpr(*written)
        changed.write.mode("overwrite").parquet(kept)
        Bench(self.spark, self.home, self.rows, self.batch).ours(table)(kept)
        self.spark.sql(f"DELETE FROM {table} WHERE id IN (SELECT id FROM parquet.`{batch}` WHERE gone)")

    def _head(self, table: str) -> str:
        newest = f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'"
        return str(self.spark.sql(newest).collect()[0][0])

    def _play(self, part: Range, mode: str, *, name: str) -> dict[str, float]:
        sides: dict[str, Callable[[], DataFrame]] = {
            "ours": lambda: self._ours(part, mode),
            "full_diff": lambda: self.spark.sql(FULL_DIFF.format(**vars(part))),
        }
        if mode == "net":
            assert _found(sides["ours"](), "_change_type") == _found(sides["full_diff"](), "change"), part
        for number in range(self.rounds + 1):
            for side, read in sides.items():
                if side == "full_diff" and self.diff_rounds is not None and number > self.diff_rounds:
                    continue
                meter = SparkMeter(self.spark)
                read().write.format("noop").mode("overwrite").save()
                used = meter.read()
                print(f"round {number}, {self.rows} rows, {name}, {side}: {used}", flush=True)
                if number:
                    self.seconds.setdefault(f"{name} {side}", []).append(round(used.seconds, 2))
        ours, peer = (statistics.median(self.seconds[f"{name} {side}"]) for side in sides)
        return {f"{name}_vs_full_diff": peer / ours}

    def _floor_ratio(self, table: str, batch: str, *, name: str) -> dict[str, float]:
        """Return ours over the floor of the upsert that made the range; a read alone needs only its first part."""
        rows = self.spark.read.parquet(batch).selectExpr("id", "id AS n", "'new' AS name")
        rows.write.mode("overwrite").parquet(f"{batch}-rows")
        floor = measure_floor(self.spark, table, f"{batch}-rows", self.home)
        ratio = statistics.median(self.seconds[f"{name} ours"]) / floor.seconds
        print(f"{self.rows} rows, {name}: {floor}; ours is {ratio:.2f} times that", flush=True)
        self.floors[name] = floor.to_plain()
        return {f"{name}_floor_ratio": ratio}

    def _ours(self, part: Range, mode: str) -> DataFrame:
        table = part.table.removeprefix("lake.")
        return read_changes(self.spark, table, part.start, part.end, mode=mode, keys=("id",), catalog="lake")


def _found(rows: DataFrame, change: str) -> dict[str, tuple[int, int]]:
    counted = rows.groupBy(change).agg({"*": "count", "id": "sum"}).collect()
    return {str(row[0]): (int(row[1]), int(row[2])) for row in counted}


def measure(spark: SparkSession, home: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure both sizes and return ratios and seconds."""
    small, large = (
        ChangesBench(spark, home, rows, options.batch, options.rounds, options.kinds, options.diff_rounds)
        for rows in (options.rows // 10, options.rows)
    )
    for _ in range(options.warm_up):
        ChangesBench(spark, home, options.rows // 10, options.batch, 1, options.kinds).measure()
    of_small = small.measure()
    ratios = large.measure()
    if "clustered" in options.kinds:
        medians = [statistics.median(bench.seconds["clustered_deletes ours"]) for bench in (large, small)]
        ratios["growth_10x_clustered"] = medians[0] / medians[1]
    if "random" in options.kinds:
        ratios["floor_ratio"] = ratios["random_deletes_floor_ratio"]
        ratios["upserts_vs_full_diff"] = ratios["random_upserts_vs_full_diff"]
    ratios |= {f"tenth_{name}": value for name, value in of_small.items()}
    both = (small, large)
    seconds, floors = ({str(bench.rows): getattr(bench, part) for bench in both} for part in ("seconds", "floors"))
    return {"ratios": ratios, "seconds": seconds, "floors": floors}


def main() -> None:
    """Measure and print the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000_000)
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument(
        "--diff-rounds", type=int, help="counted rounds of the full diff; as many as of ours unless said"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = open_session(Path(folder))
        results = measure(spark, Path(folder), options)
        spark.stop()
    results["ratios"] = {name: round(value, 2) for name, value in results["ratios"].items()}
    print(json.dumps({"benchmark": "changes", "date": datetime.now(UTC).date().isoformat(), **results}))


if __name__ == "__main__":
    main()
