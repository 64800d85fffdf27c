"""Measure what an index of keys would spare an upsert, and what it would cost (decision 25).

Batches of random keys go into a table by position. Beside each upsert the same keys are looked up in an index, its
pages out of memory and in it. Its answers are compared with a scan by Spark. Then come what keeps an index right: a run
for each commit, a merge of runs, and all of it again after a compaction.

``--synthetic`` is the number of entries, in millions, of an index without a table: lookups only, 0 to leave it out.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.sql.older_pyspark import to_arrow
from tests.benchmarks.bench_session import open_session
from tests.benchmarks.benchmark_files import frame
from tests.benchmarks.key_index import ABSENT, BLOCK_BYTES, BLOCK_ENTRIES, KeyIndex, Run, hashed
from tests.benchmarks.upsert_tables import Bench

# What Iceberg writes into one Parquet page at most (write.parquet.page-row-limit).
ROWS_OF_A_PAGE = 20_000


class Stopwatch:
    """Seconds of each step, printed as they come."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a block."""
        started = time.monotonic()
        yield
        self.seconds.setdefault(name, []).append(round(time.monotonic() - started, 3))
        print(f"   {name}: {self.seconds[name][-1]:.3f} s", flush=True)


def data_files(spark: SparkSession, table: str) -> set[str]:
    """Return the paths of the live data files."""
    return {row[0] for row in spark.sql(f"SELECT file_path FROM {table}.files WHERE content = 0").collect()}


def keys_of(batch: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the keys of a batch, each once."""
    return np.unique(pq.read_table(batch, columns=["id"]).column("id").to_numpy())


def refuse_wrong(spark: SparkSession, table: str, batch: str, index: KeyIndex) -> tuple[int, float]:
    """End the experiment where the index and a scan disagree.

    :return: rows found, and the share of the table's pages that have one of them.
    """
    rows_by_scan = to_arrow(
        spark.sql(f"SELECT id, _file, _pos FROM {table} WHERE id IN (SELECT id FROM parquet.`{batch}`)")
    ).to_pylist()
    keys = np.sort(np.array([row["id"] for row in rows_by_scan], dtype=np.int64))
    places = dict(zip(keys.tolist(), index.told(index.lookup(keys)[0]), strict=True))
    mismatches = [row for row in rows_by_scan if places[row["id"]] != (row["_file"], row["_pos"])]
    absent = np.setdiff1d(keys_of(batch), keys)
    if mismatches or (index.lookup(absent)[0] != ABSENT).any():
        raise SystemExit(f"the index is wrong for {len(mismatches)} keys, such as {mismatches[:3]}")
    pages = {(row["_file"], row["_pos"] // ROWS_OF_A_PAGE) for row in rows_by_scan}
    rows = spark.sql(f"SELECT sum(ceil(record_count / {ROWS_OF_A_PAGE})) FROM {table}.files WHERE content = 0")
    return len(rows_by_scan), len(pages) / int(rows.collect()[0][0])


def play(bench: Bench, folder: Path, rounds: int, watch: Stopwatch) -> dict[str, float]:
    """Upsert batches beside an index, and return what was counted."""
    spark, table = bench.spark, bench.iceberg_table("ours", "merge-on-read")
    apply, index = bench.ours(table), KeyIndex(folder)
    indexed = data_files(spark, table)
    with watch.step("build"):
        index.add(sorted(indexed))
    counted = {"bytes_per_key": index.size / bench.rows}
    for _ in range(rounds):
        batch = bench.arrive(clustered=False)
        matched, counted["share_of_pages"] = refuse_wrong(spark, table, batch, index)
        counted["blocks"] = _lookups(index, batch, watch)
        started = time.monotonic()
        report = apply(batch)
        watch.seconds.setdefault("upsert", []).append(round(time.monotonic() - started, 3))
        watch.seconds.setdefault("resolve", []).append(round(report.seconds["resolve"], 3))  # type: ignore[attr-defined]
        print(f"   upsert: {watch.seconds['upsert'][-1]:.3f} s, found {matched} rows", flush=True)
        added = data_files(spark, table) - indexed
        indexed |= added
        with watch.step("run of a commit"):
            index.add(sorted(added))
    with watch.step("compaction"):
        options = "map('rewrite-all', 'true')"
        spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table}', options => {options})")
    with watch.step("build after it"):
        index = KeyIndex(folder)
        index.add(sorted(data_files(spark, table)))
    refuse_wrong(spark, table, bench.arrive(clustered=False), index)
    return counted


def _lookups(index: KeyIndex, batch: str, watch: Stopwatch) -> int:
    for run in index.runs:
        run.forget_cached()
    keys = keys_of(batch)
    for name in ("lookup from disk", "lookup in memory"):
        with watch.step(name):
            blocks = index.lookup(keys)[1]
    return blocks


def synthetic_run(path: Path, entries: int) -> Run:
    """Write a run of hashes by chance, already in order, with fences as :meth:`Run.write` makes them."""
    random, parts = np.random.default_rng(7), 1024
    per_part = entries // parts // BLOCK_ENTRIES * BLOCK_ENTRIES
    fences = []
    with path.open("wb") as file:
        for part in range(parts):
            low = np.uint64(part) << np.uint64(54)
            block = np.empty((per_part, 2), dtype=np.uint64)
            block[:, 0] = low + np.sort(random.integers(0, 1 << 54, per_part, dtype=np.uint64))
            block[:, 1] = np.arange(per_part, dtype=np.uint64)
            block.tofile(file)
            fences.append(block[::BLOCK_ENTRIES, 0].copy())
    return Run(path, per_part * parts, np.concatenate(fences))


def look_up_synthetic(folder: Path, entries: int, batch: int, rounds: int, watch: Stopwatch) -> None:
    """Look up batches of keys that are absent, which costs as much as those that are there."""
    with watch.step("synthetic build"):
        run = synthetic_run(folder / "synthetic.index", entries)
    for number in range(rounds):
        run.forget_cached()
        hashes = hashed(np.arange(number * batch, (number + 1) * batch))
        for name in ("synthetic lookup from disk", "synthetic lookup in memory"):
            with watch.step(name):
                blocks = run.lookup(hashes)[1]
    print(f"   {run.entries} entries, {run.path.stat().st_size / 1e9:.1f} GB, {blocks} blocks of {BLOCK_BYTES} bytes")


def main(measure: Callable[..., dict[str, float]] = play) -> None:
    """Print seconds of each step as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--synthetic", type=int, default=1000)
    options = parser.parse_args()
    begun, watch = frame("index-experiment", "scripts/bench index-experiment"), Stopwatch()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        counted: dict[str, float] = {}
        if options.rows:
            spark = open_session(folder)
            counted = measure(Bench(spark, folder, options.rows, options.batch), folder, options.rounds, watch)
            spark.stop()
        if options.synthetic:
            look_up_synthetic(folder, options.synthetic * 1_000_000, options.batch, options.rounds, watch)
    print(json.dumps({**begun, "counted": counted, "seconds": watch.seconds}))


if __name__ == "__main__":
    main()
