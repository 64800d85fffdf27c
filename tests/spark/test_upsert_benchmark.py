"""The benchmark of upserts, small: that it runs, compares contents, and gives every ratio."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from docs.pictures.drawings import benchmark_charts
from tests.benchmarks import upsert
from tests.benchmarks.upsert_floor import measure_floor
from tests.benchmarks.upsert_tables import KINDS, Bench, Kind


def test_the_benchmark_of_upserts_gives_its_ratios_and_chart(
    bench_lake: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upsert, "UPSERTS_BEFORE_READ", 1)
    # Each side plays once: what it takes says nothing here.
    monkeypatch.setattr(upsert, "Bench", partial(Bench, warm_up=0))
    monkeypatch.setattr(upsert, "measure_floor", partial(measure_floor, rounds=1, warm_up=0))
    options = Namespace(rows=2000, batch=50, rounds=1, warm_up=0, large=20_000, kinds=0, quick=False)
    found = upsert.measure(bench_lake, tmp_path, options)
    expected = {
        "random_vs_merge_on_read",
        "random_vs_copy_on_write",
        "clustered_vs_merge_on_read",
        "clustered_vs_pruned_merge",
        "read_after_10",
        "random_100m_vs_merge_on_read",
        "growth_10x",
        "growth_base_over_floor",
        "floor_ratio",
        "random_floor_ratio",
        "clustered_floor_ratio",
        "random_100m_floor_ratio",
    }
    assert found.ratios.keys() == expected
    assert all(ratio > 0 for ratio in found.ratios.values())
    for chart in benchmark_charts(upsert.results_of(options, found)).values():
        assert "50 random keys into 0.002 million rows" in chart
        assert f"{found.ratios['random_vs_copy_on_write']:.2f} times ours" in chart


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_tables_of_each_kind_end_as_merge_into_leaves_them(
    bench_lake: SparkSession, tmp_path: Path, kind: Kind
) -> None:
    bench = Bench(bench_lake, tmp_path, 2000, 50, 1, kind)
    table, peer = (bench.iceberg_table(name, "merge-on-read") for name in ("ours", "on_read"))
    batch = bench.arrive(clustered=False)
    bench.ours(table)(batch)
    bench.merge(peer)(batch)
    assert bench.contents(table) == bench.contents(peer)
