"""The sweep of upserts, small: its cells come from equal tables, which are put back, and are kept."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from tests.benchmarks.sweep_plan import Budget, Cell
from tests.benchmarks.sweep_results import OWN, SweepFile
from tests.benchmarks.sweep_tables import SweepTables
from tests.benchmarks.upsert_floor import measure_floor
from tests.benchmarks.upsert_sweep import sweep


def test_a_sweep_measures_the_cells_that_lack_and_keeps_them(bench_lake: SparkSession, tmp_path: Path) -> None:
    results = SweepFile(tmp_path / "sweep.json", {"date": "2026-01-02"}, [Cell(2000, 2.5)])
    sweep(bench_lake, tmp_path, results, Budget(0, 1), warm_up=0)
    kept = json.loads((tmp_path / "sweep.json").read_text())
    (cell,) = kept["cells"]
    assert cell["batch"] == 50
    assert cell["seconds"].keys() == {"ours", "merge_on_read", "copy_on_write", *OWN}
    assert {len(rounds) for rounds in cell["seconds"].values()} == {1}
    assert cell["strategy"].startswith("positions: ")
    assert all(seconds > 0 for seconds in cell["floor"].values())
    worst = ("auto_worst_vs_best_peer", "auto_worst_vs_own_strategies", "auto_worst_choice")
    assert kept["ratios"].keys() == {"auto_vs_best_peer", *worst, "floor_ratio"}
    assert kept["lacking"] == []
    assert bench_lake.sql("SHOW TABLES IN lake.bench").count() == 0


def test_tables_of_a_sweep_begin_with_the_same_rows_and_are_put_back_to_them(
    bench_lake: SparkSession, tmp_path: Path
) -> None:
    tables = SweepTables.build(bench_lake, tmp_path, 1000)
    tables.bench.batch = 100
    ours, *others = tables.sides()
    first = tables.bench.contents(ours.table)
    assert first[0] == 1000
    assert {tables.bench.contents(side.table) for side in others} == {first}
    batch = tables.bench.arrive(clustered=False)
    ours.apply(batch)
    applied = tables.bench.contents(ours.table)
    assert applied != first
    measure_floor(bench_lake, ours.table, batch, tmp_path, rounds=1, warm_up=0)
    # The floor's commit is on a branch, which is gone.
    assert tables.bench.contents(ours.table) == applied
    assert [row.name for row in bench_lake.table(f"{ours.table}.refs").collect()] == ["main"]
    tables.put_back()
    assert tables.bench.contents(ours.table) == first
    tables.drop()
