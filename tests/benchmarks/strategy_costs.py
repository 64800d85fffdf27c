"""Measure our own strategies, fit the constants by which ``auto`` compares them, and print how far each cell is off.

``scripts/bench strategy-costs`` prints the constants for ``strategy_costs.COSTS`` and the residual of each cell:
estimated over measured seconds. ``--sweep FILE`` takes the cells of ``scripts/bench upsert --sweep`` and measures none.

``--kinds`` measures tables of other kinds beside plain ones, of the same cells in the same run, and prints by what each
strategy's seconds are to be multiplied: for keys other than one whole number, and for format version 2.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.strategy_costs import StrategyCost, UpsertSize
from tests.benchmarks.bench_session import open_session
from tests.benchmarks.benchmark_files import frame
from tests.benchmarks.sweep_plan import Cell, cells
from tests.benchmarks.sweep_results import CellResult
from tests.benchmarks.sweep_tables import OWN_STRATEGIES
from tests.benchmarks.upsert_options import numbers
from tests.benchmarks.upsert_tables import KINDS, PLAIN, Bench, Kind, file_count

# Of the session that is measured in.
CORES = 2
ROWS, SHARES = (1.0, 3.0, 10.0, 30.0), (0.1, 5.0, 20.0)
KIND_ROWS, KIND_SHARES = (10.0,), (0.1, 5.0)
# Constant of a strategy to the kinds of tables that it is for.
FACTORS = {"other_key": ("string_keys", "composite_keys"), "older_version": ("version_2",)}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Seconds of one cell, by strategy.

    :param kind: of the table.
    """

    cell: Cell
    seconds: dict[UpsertStrategy, float]
    kind: str = PLAIN.name


def size_of(cell: Cell) -> UpsertSize:
    """Return what metadata tells of an upsert of a cell; its keys are spread over all files."""
    files = file_count(cell.rows)
    return UpsertSize(keys=cell.batch, files=files, candidate_rows=[cell.rows // files] * files, cores=CORES)


def fit(sizes: Sequence[UpsertSize], seconds: Sequence[float]) -> StrategyCost:
    """Return the constants with the least relative errors, none of them below 0; no rows are written anew."""
    columns = np.array([[1, size.keys, size.rows / size.at_a_time] for size in sizes]) / np.array(seconds)[:, None]
    kept = [0, 1, 2]
    while True:
        found = np.linalg.lstsq(columns[:, kept], np.ones(len(seconds)), rcond=None)[0]
        if (found >= 0).all():
            break
        kept.remove(kept[int(found.argmin())])
    values = dict(zip(kept, map(float, found), strict=True))
    return StrategyCost(fixed=values.get(0, 0.0), key=values.get(1, 0.0), candidate_row=values.get(2, 0.0))


def fit_rewritten_row(sizes: Sequence[UpsertSize], seconds: Sequence[float], positions: StrategyCost) -> StrategyCost:
    """Return what copies cost: keys are resolved as by position, then rows are written anew."""
    column = np.array([size.rewritten_rows / size.at_a_time for size in sizes]) / np.array(seconds)
    left = 1 - np.array([positions.seconds(size) for size in sizes]) / np.array(seconds)
    return replace(positions, rewritten_row=max(0.0, float(column @ left / (column @ column))))


def measure(
    spark: SparkSession, home: Path, wanted: Sequence[Cell], rounds: int, warm_up: int = 0, kind: Kind = PLAIN
) -> Iterator[Measured]:
    """Upsert batches of each cell by each strategy, and yield the medians; one round more is not counted.

    Every table keeps what earlier cells of its size have left in it, as a table between compactions does.

    :param warm_up: further rounds of the first cell, until the JVM has compiled most.
    """
    for rows in sorted({cell.rows for cell in wanted}):
        bench = Bench(spark, home, rows, 0, kind=kind)
        first = bench.iceberg_table("first", "merge-on-read")
        tables = {strategy: bench.iceberg_copy(first, strategy.name, "merge-on-read") for strategy in _STRATEGIES}
        for cell in (cell for cell in wanted if cell.rows == rows):
            yield _measured(replace(bench, batch=cell.batch), tables, cell, rounds, warm_up)
            warm_up = 0
        for table in (*tables.values(), first):
            spark.sql(f"DROP TABLE {table}")


def _measured(bench: Bench, tables: dict[UpsertStrategy, str], cell: Cell, rounds: int, warm_up: int) -> Measured:
    seconds: dict[UpsertStrategy, list[float]] = {}
    for number in range(-warm_up, rounds + 1):
        batch = bench.arrive(clustered=False)
        for strategy, table in tables.items():
            started = time.monotonic()
            try:
                bench.ours(table, strategy)(batch)
            except UnsupportedError:
                continue
            if number > 0:
                seconds.setdefault(strategy, []).append(time.monotonic() - started)
    medians = {strategy: statistics.median(taken) for strategy, taken in seconds.items()}
    told = ", ".join(f"{each.value} {taken:.2f} s" for each, taken in medians.items())
    print(f"{bench.kind.name}, {cell}: {told}", flush=True)
    return Measured(cell=cell, seconds=medians, kind=bench.kind.name)


def cells_of_sweep(file: Path) -> list[Measured]:
    """Return the cells of a sweep's JSON."""
    found = [CellResult(**cell) for cell in json.loads(file.read_text())["cells"]]
    return [
        Measured(
            cell=each.cell,
            seconds={own: each.median(side) for side, own in OWN_STRATEGIES.items() if side in each.seconds},
        )
        for each in found
    ]


def fit_all(measured: Sequence[Measured]) -> dict[UpsertStrategy, StrategyCost]:
    """Return the constants of each strategy."""
    costs: dict[UpsertStrategy, StrategyCost] = {}
    for strategy in _STRATEGIES:
        played = [each for each in measured if strategy in each.seconds]
        sizes, seconds = [size_of(each.cell) for each in played], [each.seconds[strategy] for each in played]
        if strategy is UpsertStrategy.COPY_ON_WRITE:
            costs[strategy] = fit_rewritten_row(sizes, seconds, costs[UpsertStrategy.POSITIONS])
        else:
            costs[strategy] = fit(sizes, seconds)
    return costs


def residuals(costs: dict[UpsertStrategy, StrategyCost], measured: Sequence[Measured]) -> dict[str, float]:
    """Print estimated over measured seconds of each cell, and return by how much a strategy is off on average."""
    ratios = {}
    for strategy, cost in costs.items():
        print(f"{strategy.value}: {cost}")
        off = []
        for each in measured:
            if strategy in each.seconds:
                off.append(cost.seconds(size_of(each.cell)) / each.seconds[strategy])
                print(f"   {each.cell}: {each.seconds[strategy]:.2f} s, estimated {off[-1]:.2f} times")
        ratios[f"{strategy.value}_residual"] = round(
            math.exp(statistics.mean(abs(math.log(ratio)) for ratio in off)), 3
        )
    return ratios


def fit_factors(measured: Sequence[Measured]) -> dict[UpsertStrategy, dict[str, float]]:
    """Return by what the seconds of each strategy are multiplied for a kind: geometric means over the cells.

    :param measured: with plain tables of the same cells.
    """
    plain = {each.cell: each.seconds for each in measured if each.kind == PLAIN.name}
    return {
        strategy: {
            name: statistics.geometric_mean(
                each.seconds[strategy] / plain[each.cell][strategy] for each in measured if each.kind in kinds
            )
            for name, kinds in FACTORS.items()
        }
        for strategy in _STRATEGIES
    }


_STRATEGIES = tuple(OWN_STRATEGIES.values())


def main() -> None:
    """Print constants and residuals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweep", type=Path, help="JSON of scripts/bench upsert --sweep; nothing is measured")
    parser.add_argument("--rows", type=numbers, default=ROWS, help="millions, as in 1,3")
    parser.add_argument("--shares", type=numbers, default=SHARES, help="percent of the table, as in 0.1,5")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--warm-up", type=int, default=4, help="further rounds of the first cell")
    parser.add_argument("--kinds", action="store_true", help="measure tables of other kinds beside plain ones")
    options = parser.parse_args()
    if options.kinds:
        print(json.dumps(_kinds(options.rounds, options.warm_up)))
        return
    begun = frame("strategy-costs", f"scripts/bench strategy-costs --rounds {options.rounds}")
    if options.sweep:
        measured = cells_of_sweep(options.sweep)
    else:
        with tempfile.TemporaryDirectory() as home:
            spark = open_session(Path(home))
            wanted = cells(options.rows, options.shares)
            measured = list(measure(spark, Path(home), wanted, options.rounds, options.warm_up))
            spark.stop()
    ratios = residuals(fit_all(measured), measured)
    print(json.dumps({**begun, "ratios": ratios, "cells": _plain(measured)}))


def _kinds(rounds: int, warm_up: int) -> dict[str, Any]:
    begun = frame("strategy-costs", f"scripts/bench strategy-costs --kinds --rounds {rounds} --warm-up {warm_up}")
    wanted = cells(KIND_ROWS, KIND_SHARES)
    asked = {name for kinds in FACTORS.values() for name in kinds}
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory() as home:
        spark = open_session(Path(home))
        for kind in (PLAIN, *(kind for kind in KINDS if kind.name in asked)):
            measured += measure(spark, Path(home), wanted, rounds, warm_up, kind)
        spark.stop()
    ratios = {
        f"{strategy.value}_{name}": round(factor, 2)
        for strategy, factors in fit_factors(measured).items()
        for name, factor in factors.items()
    }
    return {**begun, "ratios": ratios, "cells": _plain(measured)}


def _plain(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    return [
        {
            "cell": str(each.cell),
            "kind": each.kind,
            **{own.value: round(taken, 2) for own, taken in each.seconds.items()},
        }
        for each in measured
    ]


if __name__ == "__main__":
    main()
