"""Seconds and memory of a look for orphan files among many, in a driver with a small heap.

The files are empty, in a tree of folders on this machine's disk, and older than the look asks for. The table names a
part of them; all others are orphans. One process is the driver and its executor.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.specs.maintenance import OrphanFilesSpec
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.actions.maintain_table import remove_orphan_files
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.benchmarks.bench_session import open_session

CATALOG, TABLE = "lake", "looks.orders"
FILES, LIVE, HEAP = 300_000, 100_000, "1g"
_A_FOLDER = 1_000
_TEN_DAYS = 10 * 86_400


def make_files(folder: Path, files: int) -> Iterator[Path]:
    """Make empty files that are ten days old, and yield them."""
    written = time.time() - _TEN_DAYS
    for number in range(files):
        path = folder / f"day={number // _A_FOLDER:04d}" / f"00000-{number}-5f0c7d9e-0-00001.parquet"
        if number % _A_FOLDER == 0:
            path.parent.mkdir(parents=True)
        path.touch()
        os.utime(path, (written, written))
        yield path


def make_table(spark: SparkSession, files: int, live: int) -> None:
    """Make a table with its files, and name the first of them."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.looks")
    spark.sql(f"CREATE TABLE {CATALOG}.{TABLE} (id BIGINT) USING iceberg")
    java = IcebergTable(spark, CATALOG, TableName.parse(TABLE)).java
    library, append, spec = jvm_of(spark).org.apache.iceberg.DataFiles, java.newFastAppend(), java.spec()
    folder = Path("/" + str(java.location()).removeprefix("file:").lstrip("/")) / "data"
    for number, path in enumerate(make_files(folder, files)):
        if number < live:
            built = library.builder(spec).withPath(f"file:{path}").withFileSizeInBytes(1).withRecordCount(1)
            append.appendFile(built.build())
    append.commit()


def measure(spark: SparkSession, files: int, live: int) -> dict[str, Any]:
    """Look for the orphan files, and return what that took and what came of it."""
    make_table(spark, files, live)
    management = jvm_of(spark).java.lang.management.ManagementFactory
    pools = [each for each in management.getMemoryPoolMXBeans() if str(each.getType().name()) == "HEAP"]
    jvm_of(spark).java.lang.System.gc()
    for pool in pools:
        pool.resetPeakUsage()
    progress, started = Progress(), time.perf_counter()
    spec = OrphanFilesSpec(
        catalog=CATALOG, table=TABLE, run=RunIdentity.of("bench", "run", "look", "-1"), asked_at=datetime.now(UTC)
    )
    report = remove_orphan_files(spark, spec, progress)
    seconds = time.perf_counter() - started
    status = Path(f"/proc/{management.getRuntimeMXBean().getPid()}/status").read_text()
    most = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return {
        "files": files,
        "live": live,
        "outcome": report.outcome.value,
        "orphans": sum(report.orphans.values()),
        "listed": report.files_listed,
        "seconds": round(seconds, 1),
        "phases": {name: round(each, 1) for name, each in report.seconds.items()},
        # Peaks of parts of the heap at different moments: at most this.
        "peak_heap_mib": round(sum(pool.getPeakUsage().getUsed() for pool in pools) / 2**20),
        "peak_java_mib": round(int(most.split()[1]) / 1024),
        "peak_python_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    """Print the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--live", type=int, default=LIVE)
    parser.add_argument("--heap", default=HEAP)
    given = parser.parse_args()
    os.environ["LAKE_BENCH_MEMORY"] = given.heap
    with tempfile.TemporaryDirectory() as folder:
        spark = open_session(Path(folder))
        result = measure(spark, given.files, given.live)
        spark.stop()
    right = result["orphans"] == given.files - given.live
    print("the look found other files than were made" if not right else "as many orphans as were made", file=sys.stderr)
    print(json.dumps({"benchmark": "orphans", "command": " ".join(sys.argv[1:]), **result, "ratios": {}}))
    sys.exit(not right)


if __name__ == "__main__":
    main()
