"""The fit of the constants by which strategies are compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.strategy_costs import StrategyCost, UpsertSize
from tests.benchmarks.strategy_costs import FACTORS, Measured, fit, fit_factors, fit_rewritten_row
from tests.benchmarks.sweep_plan import Cell

SIZES = [
    UpsertSize(keys=round(rows * share), files=4, candidate_rows=[rows // 4] * 4, cores=2)
    for rows in (1_000_000, 10_000_000, 30_000_000)
    for share in (0.0001, 0.01, 0.2)
]


def test_seconds_made_of_constants_give_these_constants_back() -> None:
    made = StrategyCost(fixed=0.9, key=4e-6, candidate_row=8e-8)
    found = fit(SIZES, [made.seconds(size) for size in SIZES])
    assert (found.fixed, found.key, found.candidate_row) == pytest.approx((0.9, 4e-6, 8e-8))


def test_copies_cost_what_positions_cost_and_what_their_rows_do() -> None:
    positions = StrategyCost(fixed=0.9, key=4e-6, candidate_row=8e-8)
    made = replace(positions, rewritten_row=2e-6)
    found = fit_rewritten_row(SIZES, [made.seconds(size) for size in SIZES], positions)
    assert replace(found, rewritten_row=0.0) == positions
    assert found.rewritten_row == pytest.approx(2e-6)


def test_no_constant_is_below_0_whatever_was_measured() -> None:
    seconds = [3.0 - size.keys * 2e-7 for size in SIZES]
    found = fit(SIZES, seconds)
    assert min(found.fixed, found.key, found.candidate_row) >= 0
    assert fit_rewritten_row(SIZES, [0.1] * len(SIZES), found).rewritten_row == 0


def test_a_kind_of_tables_costs_as_many_times_as_it_took_of_plain_ones() -> None:
    cells = [Cell(1_000_000, 0.1), Cell(1_000_000, 5.0)]
    own = (UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE)
    plain = [Measured(cell=cell, seconds=dict.fromkeys(own, 2.0 + number)) for number, cell in enumerate(cells)]
    times = {"string_keys": 1.2, "composite_keys": 1.2 * 1.5**2, "version_2": 1.1}
    others = [
        replace(each, kind=kind, seconds={strategy: seconds * factor for strategy, seconds in each.seconds.items()})
        for kind, factor in times.items()
        for each in plain
    ]
    found = fit_factors([*plain, *others])
    assert set(FACTORS) == {"other_key", "older_version"}
    for strategy in own:
        assert found[strategy] == pytest.approx({"other_key": 1.8, "older_version": 1.1})
