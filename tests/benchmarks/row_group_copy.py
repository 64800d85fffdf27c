"""Merge Parquet files by copying their row groups, against rewriting them by Arrow and by Iceberg's procedure.

An experiment with a verdict (decision 63). ``ParquetFileWriter.appendFile`` of the driver's JVM copies row groups
without decoding them. What is copied keeps the row groups of the small files, so the merged files are read, too.

    scripts/bench row-group-copy [--rows 4000000] [--rounds 3] [--files 24 8 2]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionRunner
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of
from tests.benchmarks.bench_session import open_session
from tests.benchmarks.compaction import Kind, by_procedure, by_runner, make_table, measured, rollback

TABLE = "bench.copied"
_SCAN = "SELECT sum(id), bit_xor(amount), max(price), max(name), max(changed_at), sum(days)"


def files_of(spark: SparkSession) -> list[Path]:
    """Return the live data files, in the order of their first ids."""
    rows = spark.sql(
        f"SELECT file_path FROM lake.{TABLE}.data_files ORDER BY readable_metrics.id.lower_bound"
    ).collect()
    return [Path(row[0].removeprefix("file:")) for row in rows]


def by_copy(spark: SparkSession, files: list[Path], into: Path) -> None:
    """Append the row groups of all files to one, with the first one's schema and key-value metadata."""
    jvm: Any = jvm_of(spark)
    hadoop = jvm.org.apache.parquet.hadoop
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    path = jvm.org.apache.hadoop.fs.Path

    def source(file: Path) -> Any:
        return hadoop.util.HadoopInputFile.fromPath(path(str(file)), configuration)

    reader = hadoop.ParquetFileReader.open(source(files[0]))
    described = reader.getFileMetaData()
    schema, pairs = described.getSchema(), described.getKeyValueMetaData()
    reader.close()
    target = hadoop.util.HadoopOutputFile.fromPath(path(str(into)), configuration)
    overwrite = getattr(jvm, "org.apache.parquet.hadoop.ParquetFileWriter$Mode").OVERWRITE
    writer = hadoop.ParquetFileWriter(target, schema, overwrite, 128 << 20, 8 << 20)
    writer.start()
    for file in files:
        writer.appendFile(source(file))
    writer.end(pairs)


def scan(spark: SparkSession, files: list[Path]) -> list[Any]:
    """Read all columns of Parquet files."""
    spark.read.parquet(*map(str, files)).createOrReplaceTempView("merged")
    return spark.sql(f"{_SCAN} FROM merged").collect()


def described(files: list[Path]) -> dict[str, Any]:
    """Bytes and row groups of files."""
    return {
        "megabytes": round(sum(file.stat().st_size for file in files) / 1e6, 1),
        "row_groups": sum(pq.read_metadata(file).num_row_groups for file in files),
    }


def play(spark: SparkSession, home: Path, rows: int, files: int, rounds: int) -> dict[str, Any]:
    """Merge the same files in three ways, in turn, and read what each made."""
    kind = Kind(version=2)
    snapshot = make_table(spark, f"lake.{TABLE}", kind, rows, files)
    small, copied = files_of(spark), home / "copied.parquet"
    before = scan(spark, small)
    merged: dict[str, dict[str, Any]] = {}
    seconds: dict[str, list[float]] = {}

    def count(what: str, number: int, work: Callable[[], Any]) -> Any:
        wall, used, result = measured(spark, work)
        if number:
            seconds.setdefault(f"{what}_seconds", []).append(wall)
            seconds.setdefault(f"{what}_cpu", []).append(used)
        return result

    for number in range(rounds + 1):
        ways: dict[str, Callable[[], Any]] = {
            "copy": partial(by_copy, spark, small, copied),
            "arrow": partial(by_runner, spark, TABLE, kind, CompactionRunner.ARROW, number),
            "procedure": partial(by_procedure, spark, TABLE, kind),
        }
        for way, work in ways.items():
            count(way, number, work)
            result = [copied] if way == "copy" else files_of(spark)
            merged[way] = described(result)
            read = count(f"{way}_read", number, partial(scan, spark, result))
            if read != before:
                raise SystemExit(f"{way} has changed the rows: {read}, not {before}")
            if way != "copy":
                rollback(spark, TABLE, snapshot)
    return {
        "files": files,
        "small": described(small),
        **{way: merged[way] for way in merged},
        **{what: round(median(each), 2) for what, each in seconds.items()},
    }


def main() -> None:
    """Measure each number of files that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", nargs="*", type=int, default=[200, 24, 4])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="row_groups_") as home:
        spark = open_session(Path(home))
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
        for files in asked.files:
            print(json.dumps(play(spark, Path(home), asked.rows, files, asked.rounds)), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
