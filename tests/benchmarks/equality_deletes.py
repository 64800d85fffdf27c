"""Compact a table with as many files of deletes by key and by position as of data, in a small driver.

Each commit is one of a streaming upsert: files of data, of keys whose older rows go, and of positions. Our compaction
and Iceberg's procedure begin at the same snapshot, each in a driver of its own. The peak is of the driver, its JVM and
its Python workers.

    scripts/bench equality-deletes [--files 20000] [--heap 1800m] [--runner spark] [--minutes 20]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.benchmarks.bench_session import open_session

TABLE = "bench.keyed"
COMMITS, ROWS, KEYS = 20, 10, 2
_SCHEMA = pa.schema(
    [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(id_)}) for id_, name in ((1, "id"), (2, "value"))]
)
_POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


class KeyedTable:
    """Writes the table, and beside it keeps the rows that it must have."""

    def __init__(self, spark: SparkSession) -> None:
        self.jvm: Any = jvm_of(spark)
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
        spark.sql(
            f"CREATE TABLE lake.{TABLE} (id BIGINT, value BIGINT) USING iceberg "
            "TBLPROPERTIES ('format-version'='2', 'commit.manifest-merge.enabled'='false')"
        )
        self.java: Any = self.jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            spark._jsparkSession, f"lake.{TABLE}"
        )
        self.folder = Path(str(self.java.location()).removeprefix("file:")) / "data"
        self.folder.mkdir()
        gateway: Any = spark.sparkContext._gateway
        self.key_ids = gateway.new_array(self.jvm.int, 1)
        self.key_ids[0] = 1
        self.rows: dict[int, int] = {}
        self.next_id = self.written = 0

    def commit(self, files: int, draw: random.Random) -> None:
        """Commit so many files of each kind."""
        delta = self.java.newRowDelta()
        keys = draw.sample(range(self.next_id), KEYS * files) if self.next_id else range(-KEYS * files, 0)
        for key in keys:
            self.rows.pop(key, None)
        for number in range(files):
            self._add_files(delta, keys[number * KEYS : (number + 1) * KEYS])
        delta.commit()

    def _add_files(self, delta: Any, keys: Sequence[int]) -> None:
        ids = [keys[0], *range(self.next_id, self.next_id + ROWS - 1)]
        self.next_id += ROWS - 1
        values = [self.written * ROWS + place for place in range(ROWS)]
        data = pa.table([ids, values], schema=_SCHEMA)
        deleted = pa.table([pa.array(keys, pa.int64())], schema=pa.schema([_SCHEMA.field("id")]))
        self.rows.update(zip(ids[:-1], values[:-1], strict=True))
        spec, iceberg = self.java.spec(), self.jvm.org.apache.iceberg
        path, built = self._built(iceberg.DataFiles.builder(spec), data)
        delta.addRows(built)
        by_key = iceberg.FileMetadata.deleteFileBuilder(spec).ofEqualityDeletes(self.key_ids)
        delta.addDeletes(self._built(by_key, deleted)[1])
        by_position = iceberg.FileMetadata.deleteFileBuilder(spec).ofPositionDeletes().withReferencedDataFile(path)
        positions = pa.table([[path], [ROWS - 1]], schema=_POSITIONS)
        delta.addDeletes(self._built(by_position, positions)[1])

    def _built(self, builder: Any, rows: pa.Table) -> tuple[str, Any]:
        file = self.folder / f"{self.written}.parquet"
        self.written += 1
        pq.write_table(rows, file, compression="none")
        builder = builder.withPath(f"file:{file}").withFormat("parquet")
        builder = builder.withFileSizeInBytes(file.stat().st_size).withRecordCount(rows.num_rows)
        return f"file:{file}", builder.build()


def make(spark: SparkSession, home: Path, files: int) -> dict[str, Any]:
    """Make the table, and a file of its rows."""
    table, draw = KeyedTable(spark), random.Random(33)
    for _ in range(COMMITS):
        table.commit(files // COMMITS, draw)
    (home / "rows.json").write_text(json.dumps(sorted(table.rows.items())))
    return {"snapshot": int(table.java.currentSnapshot().snapshotId()), "rows": len(table.rows)}


def compact(spark: SparkSession, runner: str) -> dict[str, Any]:
    """Compact the table as a task of ours does, and return what its report says."""
    spec = CompactionSpec.from_mapping({"table": TABLE, "runner": runner}).framed(
        {"catalog": "lake", "table_format": "iceberg", "run": RunIdentity.of("dag", "run", "task", "-1")}
    )
    report = compact_table(spark, spec, Progress())
    return {
        "outcome": report.outcome.value,
        "reason": report.reason,
        "converted": report.equality_deletes_converted,
        "left": report.equality_deletes_left,
        "files_rewritten": report.files_rewritten,
        "by_arrow": f"{report.groups_by_arrow} of {report.groups_rewritten} groups",
        "phases": {name: round(seconds, 1) for name, seconds in report.seconds.items()},
    }


def call(spark: SparkSession) -> dict[str, Any]:
    """Rewrite the table by Iceberg's procedure, told to take every file with a delete."""
    rewritten = spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{TABLE}', options => map('delete-file-threshold', '1'))"
    )
    return {name: int(count) for name, count in rewritten.collect()[0].asDict().items()}


def is_right(home: Path) -> bool:
    """Tell whether PyIceberg, which reads no deletes by key, reads the rows that the table must have."""
    newest = max((home / "warehouse/bench/keyed/metadata").glob("v*.json"), key=lambda path: int(path.name[1:-14]))
    read = StaticTable.from_metadata(str(newest)).scan().to_arrow()
    expected = [tuple(row) for row in json.loads((home / "rows.json").read_text())]
    return sorted(zip(read["id"].to_pylist(), read["value"].to_pylist(), strict=True)) == expected


def play(home: Path, part: str, files: int, runner: str) -> dict[str, Any]:
    """Do one part in a session of its own."""
    spark = open_session(home)
    begun = time.monotonic()
    if part == "make":
        return make(spark, home, files)
    done = compact(spark, runner) if part == "ours" else call(spark)
    return {**done, "seconds": round(time.monotonic() - begun, 1), "heap_gb": round(_peak_of_heap(spark) / 1e9, 2)}


def _peak_of_heap(spark: SparkSession) -> int:
    jvm: Any = jvm_of(spark)
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    return sum(int(pool.getPeakUsage().getUsed()) for pool in pools if str(pool.getType()) == "Heap memory")


def watched(home: Path, part: str, asked: argparse.Namespace, heap: str) -> dict[str, Any]:
    """Do one part in a process of its own, and return what it printed and the peak of its memory."""
    command = [sys.executable, "-m", __spec__.name, "--part", part, "--home", str(home)]
    command += ["--files", str(asked.files), "--runner", asked.runner]
    log, out = home / f"{part}.log", home / f"{part}.json"
    end = time.monotonic() + 60 * asked.minutes
    with log.open("w") as errors:
        child = subprocess.Popen(
            [*command, "--out", str(out)], stdout=errors, stderr=errors, env={**os.environ, "LAKE_BENCH_MEMORY": heap}
        )
        peak, tree = 0, psutil.Process(child.pid)
        while child.poll() is None and time.monotonic() < end:
            peak = max(peak, sum(_bytes(tree)))
            time.sleep(0.5)
    is_late = child.poll() is None
    for process in (*tree.children(recursive=True), tree) if is_late else ():
        process.kill()
    child.wait()
    if out.exists():
        return {**json.loads(out.read_text()), "peak_gb": round(peak / 1e9, 2)}
    why = [line.strip() for line in log.read_text().splitlines() if "OutOfMemory" in line or "Error" in line]
    return {"failed": f"more than {asked.minutes} minutes" if is_late else why[:2], "peak_gb": round(peak / 1e9, 2)}


def _bytes(tree: psutil.Process) -> Iterator[int]:
    """Yield the bytes of each process; pages that several share are divided among them."""
    try:
        for process in (tree, *tree.children(recursive=True)):
            yield process.memory_full_info().pss
    except psutil.NoSuchProcess:
        return


def main() -> None:
    """Make the table, and let both compact it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--heap", default="1800m")
    parser.add_argument("--runner", default="spark")
    parser.add_argument("--minutes", type=float, default=20)
    for name in ("--part", "--home", "--out"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        Path(asked.out).write_text(json.dumps(play(Path(asked.home), asked.part, asked.files, asked.runner)))
        return
    with tempfile.TemporaryDirectory(prefix="equality_deletes_") as name:
        home = Path(name)
        begun = watched(home, "make", asked, "3g")
        print(json.dumps({"part": "make", **begun}), flush=True)
        metadata = home / "warehouse/bench/keyed/metadata"
        start = (metadata / "version-hint.text").read_text()
        ours = watched(home, "ours", asked, asked.heap)
        print(json.dumps({"part": "ours", **ours, "rows_are_right": is_right(home)}), flush=True)
        # Back to the table as it was made: metadata files are numbered, and a compaction deletes no file.
        for newer in metadata.glob("v*.metadata.json"):
            if int(newer.name[1:-14]) > int(start):
                newer.unlink()
        (metadata / "version-hint.text").write_text(start)
        print(json.dumps({"part": "procedure", **watched(home, "procedure", asked, asked.heap)}), flush=True)


if __name__ == "__main__":
    main()
