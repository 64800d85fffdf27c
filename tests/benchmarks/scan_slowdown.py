"""Rank correlation of a table's score and of how much slower it is scanned than the same rows written anew.

Tables are drawn by a seed: rows in some to hundreds of files, rows deleted by position, by vectors or by key.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.maintenance.health import health_of
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from tests.benchmarks.bench_session import open_session
from tests.spark.equality_delete import delete_by_equality

CATALOG, TABLES, SCANS = "lake", 30, 5
_ROWS = 400_000
_FILES = (1, 2, 5, 10, 20, 50, 100, 200)
_DELETED = (0.0, 0.0, 0.05, 0.2, 0.5)


def measure(spark: SparkSession, tables: int, seed: str) -> dict[str, Any]:
    """Return the correlation, and a row for each table."""
    drawn = random.Random(seed)
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.scans")
    rows = [_table(spark, f"{CATALOG}.scans.t{number:02d}", drawn) for number in range(tables)]
    correlation = spearman([-row["score"] for row in rows], [row["slowdown"] for row in rows])
    return {"tables": rows, "rank_correlation": round(correlation, 3)}


def _table(spark: SparkSession, name: str, drawn: random.Random) -> dict[str, Any]:
    files, deleted = drawn.choice(_FILES), drawn.choice(_DELETED)
    version, keys = drawn.choice((2, 3)), drawn.choice((0, 0, 0, 0, 1, 20))
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, name STRING, n BIGINT) USING iceberg TBLPROPERTIES ("
        f"'format-version'='{version}', 'write.delete.mode'='merge-on-read', 'write.distribution-mode'='none', "
        "'write.delete.distribution-mode'='none')"
    )
    rows = spark.range(0, _ROWS, numPartitions=files)
    rows.selectExpr("id", "concat('name ', id % 997) AS name", "id * 3 AS n").writeTo(name).append()
    if deleted:
        spark.sql(f"DELETE FROM {name} WHERE id % 100 < {round(deleted * 100)}")
    for number in range(keys):
        java = IcebergTable(spark, CATALOG, TableName.parse(name.partition(".")[2])).java
        delete_by_equality(spark, java, list(range(number * 1000 + 50, number * 1000 + 60)))
    spark.sql(f"REFRESH TABLE {name}")
    fresh = f"{name}_fresh"
    spark.sql(f"CREATE TABLE {fresh} USING iceberg AS SELECT /*+ COALESCE(1) */ * FROM {name}")
    location = IcebergTable(spark, CATALOG, TableName.parse(name.partition(".")[2])).java.operations().current()
    loaded = LoadedIcebergTable(StaticTable.from_metadata(location.metadataFileLocation()))
    health = health_of(loaded, datetime.now(UTC))
    seconds = _scans(spark, (name, fresh))
    return {
        "files": files,
        "deleted": deleted,
        "equality_files": keys,
        "version": version,
        "score": health.score,
        "slowdown": round(seconds[name] / seconds[fresh], 2),
        "seconds": round(seconds[name], 3),
    }


def _scans(spark: SparkSession, tables: Sequence[str]) -> dict[str, float]:
    """Return the median seconds in which each is read, in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in tables}
    for _ in range(SCANS + 1):
        for name in tables:
            started = time.perf_counter()
            spark.table(name).selectExpr("sum(id)", "max(name)", "sum(n)").collect()
            seconds[name].append(time.perf_counter() - started)
    return {name: median(each[1:]) for name, each in seconds.items()}


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the correlation of ranks; equal values share the mean of theirs."""
    ranks = [_ranks(left), _ranks(right)]
    means = [sum(each) / len(each) for each in ranks]
    pairs = [(a - means[0], b - means[1]) for a, b in zip(*ranks, strict=True)]
    spread = (sum(a * a for a, _ in pairs) * sum(b * b for _, b in pairs)) ** 0.5
    return sum(a * b for a, b in pairs) / spread if spread else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(each < value for each in values) + (sum(each == value for each in values) + 1) / 2 for value in values]


def main() -> None:
    """Print a line for each table, and the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=TABLES)
    parser.add_argument("--seed", default="1")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = open_session(Path(folder))
        result = measure(spark, given.tables, given.seed)
        spark.stop()
    sheet = Table(title="score and scan")
    columns = list(result["tables"][0])
    for column in columns:
        sheet.add_column(column, justify="right")
    for row in sorted(result["tables"], key=lambda each: each["score"]):
        sheet.add_row(*(str(row[column]) for column in columns))
    Console(file=sys.stderr).print(sheet)
    print(json.dumps({"benchmark": "scan-slowdown", "ratios": {"score_rank_correlation": result["rank_correlation"]}}))


if __name__ == "__main__":
    main()
