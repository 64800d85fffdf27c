"""The benchmark that prices our own strategies, on a table of a thousand rows."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from tests.benchmarks.strategy_costs import fit_all, measure, residuals
from tests.benchmarks.sweep_plan import Cell


def test_each_strategy_is_measured_in_each_cell_and_priced(bench_lake: SparkSession, tmp_path: Path) -> None:
    cells = [Cell(1000, 1.0), Cell(1000, 20.0)]
    measured = list(measure(bench_lake, tmp_path, cells, rounds=1))
    own = {UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE}
    assert [(each.cell, set(each.seconds)) for each in measured] == [(cell, own) for cell in cells]
    off = residuals(fit_all(measured), measured)
    assert set(off) == {f"{strategy.value}_residual" for strategy in own}
    assert min(off.values()) >= 1
    assert [row.tableName for row in bench_lake.sql("SHOW TABLES IN lake.bench").collect()] == []
