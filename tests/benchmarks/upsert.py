"""Compare an upsert by position with Spark's MERGE, merge-on-read and copy-on-write, and with Delta's.

One session; every side has its own table with the same rows and starts from the same Parquet batch, dedupe included.
Sides take turns, and their contents are compared after each round. To warm the JVM, ``--warm-up`` rounds are played on
tables of a tenth first, and the first round of each table is not counted. For each round it prints seconds, seconds of
CPU (of which a busy machine takes none away), and megabytes read and shuffled.

``--rows`` and ``--batch`` size it; 0 rows leave out the comparison of all sides. ``--large`` is the size of the table
of the 100 M row ratio and of ``growth_10x``, which compares it with one of a tenth, 0 to leave both out. ``--kinds`` is
the size of tables of other kinds (format version 2, partitioned, string and composite keys) and of those that get
batches of 0.01 to 20 percent of their rows, 0 to leave them out. Delta takes part when LAKE_DELTA_JARS names a folder
with its jars.

``--cold`` and ``--sweep`` measure something else instead, see ``upsert_cold.py`` and ``upsert_sweep.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from docs.pictures.drawings import benchmark_charts
from tests.benchmarks.bench_session import open_session
from tests.benchmarks.benchmark_files import frame, keep
from tests.benchmarks.upsert_floor import measure_floor
from tests.benchmarks.upsert_options import parse_options
from tests.benchmarks.upsert_sweep import sweep_results
from tests.benchmarks.upsert_tables import KINDS, PLAIN, Bench, Side

# Uncounted rounds of each table of another kind.
KIND_WARM_UP = 2
# Of ``read_after_10``.
UPSERTS_BEFORE_READ = 10
# Times the batch: so many clustered keys that a run of growth_10x costs several times what an empty one costs.
GROWTH_BATCH = 20
SHARES = (0.0001, 0.001, 0.01, 0.05, 0.2)


@dataclass(frozen=True)
class Measured:
    """Findings of a run, added up.

    :param ratios: a peer's median over ours, and what else is compared.
    :param comparisons: seconds of every counted round, by side.
    :param floors: seconds of each part of the floor, by comparison.
    """

    ratios: dict[str, float] = field(default_factory=dict)
    comparisons: list[dict[str, Any]] = field(default_factory=list)
    floors: dict[str, dict[str, float]] = field(default_factory=dict)

    def compare(self, name: str, bench: Bench, ours: Side, *peers: Side) -> None:
        """Add sides that have played together."""
        self.ratios.update({f"{name}_vs_{peer.name}": peer.median() / ours.median() for peer in peers})
        seconds = {side.name: [round(each, 2) for each in side.seconds] for side in (ours, *peers)}
        self.comparisons.append({"name": name, "rows": bench.rows, "batch": bench.batch, "seconds": seconds})

    def compare_floor(self, name: str, bench: Bench, ours: Side, *, clustered: bool) -> None:
        """Measure the floor below ours, which has played; the first one of a run is its ``floor_ratio``."""
        floor = measure_floor(bench.spark, ours.table, bench.arrive(clustered=clustered), bench.home)
        ratio = ours.median() / floor.seconds
        print(f"{name}: {floor}; ours is {ratio:.2f} times that", flush=True)
        self.floors[name] = floor.to_plain()
        self.ratios[f"{name}_floor_ratio"] = ratio
        self.ratios.setdefault("floor_ratio", ratio)


def measure(spark: SparkSession, home: Path, options: argparse.Namespace) -> Measured:
    """Measure what the options ask for."""
    _warm(spark, home, options)
    measured = Measured()
    if options.rows:
        _compare(spark, home, options, measured)
    if options.kinds:
        _kinds(spark, home, options, measured)
    if options.large:
        _compare_larger(spark, home, options, measured)
    return measured


def _compare(spark: SparkSession, home: Path, options: argparse.Namespace, measured: Measured) -> None:
    bench = Bench(spark, home, options.rows, options.batch)
    sides = _all_sides(bench, options)
    ours, on_read, *_ = sides
    bench.play(sides, options.rounds, clustered=False)
    measured.compare("random", bench, *sides)
    measured.compare_floor("random", bench, ours, clustered=False)
    clustered = [Side(side.name, side.table, side.apply) for side in (ours, on_read)]
    bench.play(clustered, options.rounds, clustered=True)
    measured.compare("clustered", bench, *clustered)
    measured.compare_floor("clustered", bench, clustered[0], clustered=True)
    pruned = [
        Side("ours", ours.table, ours.apply),
        Side("pruned_merge", on_read.table, bench.merge(on_read.table, pruned=True)),
    ]
    bench.play(pruned, options.rounds, clustered=True)
    measured.compare("clustered", bench, *pruned)
    measured.ratios["read_after_10"] = _read_after_upserts(bench, ours)
    _drop(spark, sides)


def _warm(spark: SparkSession, home: Path, options: argparse.Namespace) -> None:
    """Let every side run on tables of a tenth, until the JVM has compiled most of it; nothing is counted."""
    if not options.warm_up:
        return
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


def _kinds(spark: SparkSession, home: Path, options: argparse.Namespace, measured: Measured) -> None:
    size, batch, warm_up = options.kinds, options.batch, KIND_WARM_UP
    benches = {kind.name: Bench(spark, home, size, batch, warm_up, kind) for kind in KINDS}
    benches |= {f"share_{share:.2%}": Bench(spark, home, size, int(size * share), warm_up) for share in SHARES}
    benches["clustered"] = Bench(spark, home, size, batch, warm_up)
    for name, bench in benches.items():
        sides = _ours_and_merge(bench)
        by_merge = bench.iceberg_table("ours_by_merge", "merge-on-read")
        sides.append(Side("ours_by_merge", by_merge, bench.ours(by_merge, UpsertStrategy.MERGE)))
        bench.play(sides, options.rounds, clustered=name == "clustered")
        ours, on_read, merged = (side.median() for side in sides)
        of_kind = f"kind_{name}"
        ratios = {f"{of_kind}_vs_merge_on_read": on_read / ours, f"{of_kind}_vs_ours_by_merge": merged / ours}
        measured.ratios.update(ratios)
        if bench.kind is PLAIN:
            measured.compare_floor(of_kind, bench, sides[0], clustered=name == "clustered")
        _drop(spark, sides)


def _read_after_upserts(bench: Bench, ours: Side) -> float:
    """Return the read cost after more upserts over that of the compacted table."""
    for _ in range(UPSERTS_BEFORE_READ):
        ours.apply(bench.arrive(clustered=False))
    after = bench.read_seconds(ours.table)
    bench.spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{ours.table}', options => map('rewrite-all', 'true'))"
    )
    return after / bench.read_seconds(ours.table)


def _compare_larger(spark: SparkSession, home: Path, options: argparse.Namespace, measured: Measured) -> None:
    bench = Bench(spark, home, options.large, options.batch)
    sides = _ours_and_merge(bench)
    bench.play(sides, options.rounds, clustered=False)
    measured.compare("random_100m", bench, *sides)
    measured.compare_floor("random_100m", bench, sides[0], clustered=False)
    _drop(spark, sides[1:])
    grown = sides[0].table
    tenth = Bench(spark, home, options.large // 10, options.batch)
    base = tenth.iceberg_table("ours", "merge-on-read")
    floor = _growth_seconds(tenth, base, options.rounds, 1)
    small = _growth_seconds(tenth, base, options.rounds, options.batch * GROWTH_BATCH)
    large = _growth_seconds(bench, grown, options.rounds, options.batch * GROWTH_BATCH)
    print(f"growth: {floor:.1f} s for one row, {small:.1f} s in a tenth of the table, {large:.1f} s in the whole")
    measured.ratios.update({"growth_10x": large / small, "growth_base_over_floor": small / floor})


def _growth_seconds(bench: Bench, table: str, rounds: int, batch: int) -> float:
    """Return the median seconds of upserts with ``batch`` clustered keys."""
    bench = replace(bench, batch=batch)
    side = Side(f"ours, {batch} clustered rows", table, bench.ours(table))
    bench.play([side], rounds, clustered=True)
    return side.median()


def main() -> None:
    """Measure, draw the chart and print the JSON line."""
    options = parse_options(__doc__)
    if options.cold:
        # Only these sides need Airflow, which takes seconds to import.
        from tests.benchmarks.upsert_cold import cold_results

        results = cold_results(options)
    elif options.sweep:
        results = sweep_results(options)
    else:
        results = _warm_results(options)
    print(json.dumps(results))


def _warm_results(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        spark = open_session(Path(folder))
        measured = measure(spark, Path(folder), options)
        spark.stop()
    results = results_of(options, measured)
    keep(results, benchmark_charts(results) if measured.comparisons else {})
    return results


def results_of(options: argparse.Namespace, measured: Measured) -> dict[str, Any]:
    """Return the JSON of a run, which the chart is drawn from."""
    names = ("rows", "batch", "rounds", "warm_up", "large", "kinds")
    arguments = [f"--{name.replace('_', '-')} {getattr(options, name)}" for name in names]
    return {
        **frame("upsert", " ".join(["scripts/bench upsert", *arguments, *(["--quick"] if options.quick else [])])),
        "ratios": {name: round(value, 2) for name, value in measured.ratios.items()},
        "comparisons": measured.comparisons,
        "floors": measured.floors,
    }


if __name__ == "__main__":
    main()
