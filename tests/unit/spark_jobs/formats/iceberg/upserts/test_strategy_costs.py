"""The estimated cost of an upsert by each strategy."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.strategy_costs import (
    COSTS,
    StrategyCost,
    UpsertSize,
    described,
)

POSITIONS, COPY, MERGE = UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE


@pytest.mark.parametrize(("keys", "files"), [(3, [100] * 10), (40, [10, 200, 3000]), (5000, [100] * 10), (1, [])])
def test_the_rows_written_anew_are_those_of_the_files_that_random_keys_hit_on_average(
    keys: int, files: list[int]
) -> None:
    size = UpsertSize(keys=keys, files=len(files), candidate_rows=files, cores=2)
    places = [file for file, rows in enumerate(files) for _ in range(rows)]
    draw = random.Random(7)
    written = []
    for _ in range(300):
        hit = set(draw.sample(places, min(keys, len(places))))
        written.append(sum(files[file] for file in hit))
    assert size.rewritten_rows == pytest.approx(sum(written) / len(written), rel=0.1)


@given(
    keys=st.integers(0, 10**8),
    files=st.lists(st.integers(1, 10**7), max_size=50),
    cores=st.integers(1, 1000),
    more=st.integers(1, 10**6),
)
def test_more_rows_or_keys_never_cost_less_and_copies_cost_more_than_positions(
    keys: int, files: list[int], cores: int, more: int
) -> None:
    size = UpsertSize(keys=keys, files=len(files), candidate_rows=files, cores=cores)
    with_keys = UpsertSize(keys=keys + more, files=len(files), candidate_rows=files, cores=cores)
    grown = UpsertSize(keys=keys, files=len(files), candidate_rows=[rows + more for rows in files], cores=cores)
    for cost in COSTS.values():
        assert cost.seconds(size) > 0
        assert cost.seconds(with_keys) >= cost.seconds(size)
        assert cost.seconds(grown) >= cost.seconds(size) * 0.999
    assert COSTS[COPY].seconds(size) >= COSTS[POSITIONS].seconds(size)


def test_a_file_keeps_one_core_busy_and_no_more() -> None:
    cost = StrategyCost(fixed=1.0, key=0.0, candidate_row=1e-6)
    one = UpsertSize(keys=1, files=9, candidate_rows=[1_000_000], cores=8)
    four = UpsertSize(keys=1, files=9, candidate_rows=[1_000_000] * 4, cores=2)
    assert (cost.seconds(one), cost.seconds(four)) == (2.0, 3.0)


def test_other_keys_and_older_tables_cost_what_their_factors_say() -> None:
    cost = StrategyCost(fixed=1.0, key=0.0, candidate_row=1e-6, other_key=1.5, older_version=1.25)
    size = UpsertSize(keys=1, files=1, candidate_rows=[1_000_000], cores=1)
    assert cost.seconds(size) == 2.0
    assert cost.seconds(replace(size, is_number_key=False)) == 3.0
    assert cost.seconds(replace(size, format_version=2)) == 2.5
    assert cost.seconds(replace(size, is_number_key=False, format_version=1)) == 3.75


def test_merge_is_the_dearest_where_many_rows_are_looked_at_for_few_keys() -> None:
    size = UpsertSize(keys=50_000, files=12, candidate_rows=[2_500_000] * 12, cores=2)
    assert COSTS[MERGE].seconds(size) > 3 * COSTS[POSITIONS].seconds(size)


def test_the_sentence_names_files_rows_and_the_seconds_of_each_strategy() -> None:
    size = UpsertSize(keys=1, files=40, candidate_rows=[300_000] * 12, cores=2)
    seconds = {each: f"about {COSTS[each].seconds(size):.1f} s" for each in COSTS}
    said = described(size, POSITIONS, [MERGE])
    assert said == f"12 files of 40, 3.6 M candidate rows, {seconds[POSITIONS]}; merge {seconds[MERGE]}"
    small = UpsertSize(keys=1, files=1, candidate_rows=[1500], cores=2)
    assert described(small, POSITIONS, [MERGE]).startswith("1 files of 1, 1,500 candidate rows, ")
