"""Compactions by Arrow and by Spark against ``CALL rewrite_data_files``, warm, in one session and in turn.

Each kind of table is made once, and its metadata is registered again for each round of each side. Wall seconds, and CPU
seconds of the driver's JVM with its Python workers, are counted.

    scripts/bench compaction [--rows 4000000] [--rounds 3] [--kinds plain vectors]
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionRunner
from airflow_lake_provider.contracts.reports.job import CompactionReport
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.benchmarks.bench_session import open_session

FILES = 24
_NUMBERS = (
    "id, xxhash64(id) AS amount, xxhash64(id, 1) / 3.0D AS price, concat('name-', pmod(hash(id), 5000)) AS name,"
    " timestamp_seconds(1767225600 + pmod(hash(id, 2), 31536000)) AS changed_at,"
    " CAST(pmod(hash(id, 3), 90) AS INT) AS days"
)
_WIDE = ", ".join(f"CAST(hash(id, {n}) % {10 ** (n % 7 + 1)} AS BIGINT) AS c{n}" for n in range(200))
_NESTED = (
    "id, array(xxhash64(id), id + 1, id % 9) AS items,"
    " named_struct('a', hash(id), 'b', concat('s', pmod(hash(id, 1), 999))) AS place,"
    " map(concat('k', id % 9), hash(id)) AS marks"
)
_TEXTS = "id, " + ", ".join(f"concat_ws(' ', sha1(string(id + {n})), 'and', id % {n + 90}) AS t{n}" for n in range(4))


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of table: its columns, the share of rows of the usual number, and what is deleted."""

    columns: str = _NUMBERS
    share: float = 1.0
    version: int = 3
    deleted: str | None = None
    partition: str = ""
    sort_by: tuple[str, ...] = ()


KINDS = {
    "plain": Kind(),
    "vectors_1": Kind(deleted="hash(id) % 100 = 0"),
    "vectors_20": Kind(deleted="hash(id) % 5 = 0"),
    "positions": Kind(version=2, deleted="hash(id) % 100 = 0"),
    "wide": Kind(columns=f"id, {_WIDE}", share=0.05),
    "nested": Kind(columns=_NESTED, share=0.5),
    "texts": Kind(columns=_TEXTS, share=0.5),
    "partitioned": Kind(columns=f"{_NUMBERS}, id % 4 AS part", partition="PARTITIONED BY (part)"),
    "sorted": Kind(sort_by=("amount",), share=0.5),
}
# They count for the worst kind alone.
NOT_IN_MEAN = {"partitioned", "sorted"}
SIDES = ("arrow", "spark", "procedure")


def make_table(spark: SparkSession, name: str, kind: Kind, rows: int, files: int = FILES) -> int:
    """Make a table of so many files, and return its snapshot."""
    properties = f"'format-version'='{kind.version}', 'write.delete.mode'='merge-on-read'"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    of_file = int(rows * kind.share) // files
    for number in range(files):
        select = f"SELECT {kind.columns} FROM range({number * of_file}, {(number + 1) * of_file}, 1, 1)"
        if number:
            spark.sql(f"INSERT INTO {name} {select}")
        else:
            spark.sql(f"CREATE TABLE {name} USING iceberg {kind.partition} TBLPROPERTIES ({properties}) AS {select}")
    if kind.deleted:
        spark.sql(f"DELETE FROM {name} WHERE {kind.deleted}")
    query = f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at DESC"
    return int(spark.sql(query).collect()[0][0])


def _bytes_of(spark: SparkSession, table: str) -> int:
    return int(spark.sql(f"SELECT sum(file_size_in_bytes) FROM lake.{table}.data_files").collect()[0][0])


def rollback(spark: SparkSession, name: str, snapshot: int) -> None:
    """Let a table have a snapshot as its head again."""
    spark.sql(f"CALL lake.system.rollback_to_snapshot('{name}', {snapshot})")


def by_procedure(spark: SparkSession, table: str, kind: Kind) -> None:
    """Rewrite all files by Iceberg's procedure."""
    order = f", strategy => 'sort', sort_order => '{', '.join(kind.sort_by)}'" if kind.sort_by else ""
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all','true'){order})")


def by_runner(spark: SparkSession, table: str, kind: Kind, runner: CompactionRunner, attempt: int) -> CompactionReport:
    """Rewrite all files by our compaction, without what it does beside."""
    run = RunIdentity.of("dag", f"run_{table}_{attempt}", "task", "-1")
    spec = CompactionSpec.from_mapping(
        {
            "table": table,
            "level": CompactionLevel.FULL.value,
            "runner": runner.value,
            "rewrite_manifests": False,
            **({"strategy": "sort", "sort_by": list(kind.sort_by)} if kind.sort_by else {}),
        }
    ).framed({"catalog": "lake", "table_format": "iceberg", "run": run})
    return compact_table(spark, spec, Progress())


def cpu_seconds(spark: SparkSession) -> float:
    """CPU of the driver, its JVM and the Python workers below it."""
    jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
    total = time.process_time()
    for process in (jvm, *jvm.children(recursive=True)):
        times = process.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return total


def measured(spark: SparkSession, work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return seconds, CPU seconds and what the work returns."""
    cpu, begun = cpu_seconds(spark), time.monotonic()
    result = work()
    return time.monotonic() - begun, cpu_seconds(spark) - cpu, result


def play(spark: SparkSession, name: str, kind: Kind, rounds: int, rows: int) -> dict[str, Any]:
    """Measure all sides on one kind, in turn, after a round that is not counted."""
    table = f"bench.{name}"
    snapshot = make_table(spark, f"lake.{table}", kind, rows)
    size = _bytes_of(spark, table)
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    cpu: dict[str, list[float]] = {side: [] for side in SIDES}
    sizes: dict[str, int] = {}
    ways: dict[str, int] = {}
    for number in range(rounds + 1):
        for side in SIDES:
            work = _work(spark, table, kind, side, number)
            wall, used, report = measured(spark, work)
            if side == "arrow":
                ways = {"arrow": report.groups_by_arrow, **report.left_to_spark}
            sizes[side] = _bytes_of(spark, table)
            if number:
                seconds[side].append(wall)
                cpu[side].append(used)
            rollback(spark, table, snapshot)
    spark.sql(f"DROP TABLE lake.{table} PURGE")
    result = {
        "seconds": {side: round(median(seconds[side]), 2) for side in SIDES},
        "cpu_seconds": {side: round(median(cpu[side]), 2) for side in SIDES},
        "megabytes": round(size / 1e6, 1),
        "bytes_vs_procedure": round(sizes["arrow"] / sizes["procedure"], 3),
        "groups": ways,
    }
    print(name, json.dumps(result), flush=True)
    return result


def _work(spark: SparkSession, table: str, kind: Kind, side: str, number: int) -> Callable[[], Any]:
    if side == "procedure":
        return lambda: by_procedure(spark, table, kind)
    return lambda: by_runner(spark, table, kind, CompactionRunner(side), number)


def ratios(results: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return the procedure over ours: geometric means in wall and CPU seconds, and the worst kind of both."""
    of_kinds = {
        what: {name: result[what]["procedure"] / result[what]["arrow"] for name, result in results.items()}
        for what in ("seconds", "cpu_seconds")
    }

    def mean(what: str) -> float:
        meant = [ratio for name, ratio in of_kinds[what].items() if name not in NOT_IN_MEAN]
        return round(math.exp(sum(map(math.log, meant)) / max(1, len(meant))), 3)

    return {
        "compaction_vs_procedure_wall": mean("seconds"),
        "compaction_vs_procedure_cpu": mean("cpu_seconds"),
        "compaction_worst_kind": round(min(min(each.values()) for each in of_kinds.values()), 3),
    }


def main() -> None:
    """Measure the kinds that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="compaction_") as home:
        spark = open_session(Path(home))
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
        results = {name: play(spark, name, KINDS[name], asked.rounds, asked.rows) for name in asked.kinds}
        print("ratios", json.dumps(ratios(results)))
        spark.stop()


if __name__ == "__main__":
    main()
