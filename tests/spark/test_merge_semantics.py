"""Each way of merging rows of one key, over random batches, against a plain loop over the rows in their order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.table_layout import TableLayout
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from tests.spark.merge_model import CASES, FIRST_ROW, Row, apply_batch, held, new_flow, rows
from tests.spark.upsert_flow import InterruptedProgress

EXAMPLES = int(os.environ.get("LAKE_EXAMPLES", "2"))
histories = st.lists(st.lists(rows, min_size=1, max_size=8), min_size=2, max_size=3)


def layout(version: str) -> TableLayout:
    return TableLayout(properties={"format-version": version})


@pytest.mark.parametrize("case", CASES)
@given(
    history=histories,
    version=st.sampled_from(["2", "3"]),
    strategy=st.sampled_from([UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE]),
)
# Without shrinking: a failing example takes seconds, and its shrinking minutes.
@settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_batches_merge_as_a_loop_over_their_rows_does(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    case: str,
    history: list[list[Row]],
    version: str,
    strategy: UpsertStrategy,
) -> None:
    semantics = CASES[case]
    flow = new_flow(spark, tmp_path_factory.mktemp("semantics"), semantics, layout(version))
    model: dict[int, Row] = {}
    for number, batch in enumerate([[FIRST_ROW], *history]):
        flow.arrive(f"{number}.jsonl", *batch)
        flow.apply(f"run {number}", strategy=strategy)
        apply_batch(model, batch, semantics)
        assert held(flow) == model


def test_the_first_row_keeps_its_own_order_also_when_that_is_null(spark: SparkSession, tmp_path: Path) -> None:
    flow = new_flow(spark, tmp_path, CASES["first"], layout("3"))
    row = {"id": 1, "g": 0, "a": "x", "n": 1, "f": True, "op": "u"}
    flow.arrive("1.jsonl", {**row, "at": None}, {**row, "at": 2, "n": 2})
    flow.apply("run 1")
    assert held(flow) == {1: {"at": None, "g": 0, "a": "x", "n": 1, "f": True}}


def test_a_group_without_an_order_is_left_alone_also_by_the_first_row_of_its_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = new_flow(spark, tmp_path, CASES["partial"], layout("3"))
    first = {"id": 1, "at": 0, "g": None, "a": "x", "n": 1, "f": True, "op": "u"}
    ordered = {**first, "id": 2, "g": 0}
    without = {"at": 1, "g": None, "a": None, "n": None, "f": False}
    batches = [[first, ordered], [{**first, **without}, {**ordered, **without}]]
    model: dict[int, Row] = {}
    for number, batch in enumerate(batches):
        flow.arrive(f"{number}.jsonl", *batch)
        flow.apply(f"run {number}")
        apply_batch(model, batch, CASES["partial"])
        assert held(flow) == model
    left = {"at": 1, "n": 1, "f": False}
    assert model == {1: {**left, "g": None, "a": None}, 2: {**left, "g": 0, "a": "x"}}


@pytest.mark.parametrize("strategy", [UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE])
def test_a_late_update_does_not_bring_a_deleted_key_back(
    spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    flow = new_flow(spark, tmp_path, CASES["replace, soft, stale ignored"], layout("3"))
    for at, op in ((1, "u"), (3, "d"), (2, "u")):
        flow.arrive(f"{at}.jsonl", {"id": 1, "at": at, "g": 0, "a": "x", "n": at, "f": True, "op": op})
        flow.apply(f"run {at}", strategy=strategy)
    assert held(flow) == {1: {"at": 3, "g": 0, "a": "x", "n": 1, "f": True, "is_deleted": True}}


def test_values_of_a_row_that_changed_meanwhile_are_merged_again(spark: SparkSession, tmp_path: Path) -> None:
    flow = new_flow(spark, tmp_path, CASES["aggregate"], layout("3"))
    row = {"id": 1, "at": 1, "g": 0, "a": "x", "n": 1, "f": True, "op": "u"}
    flow.arrive("1.jsonl", row)
    flow.apply("run 1")
    flow.arrive("2.jsonl", {**row, "n": 10}, {**row, "id": 2, "n": 5})

    def meanwhile() -> None:
        spark.sql(f"UPDATE {flow.table} SET n = 100 WHERE id = 1")
        spark.sql(f"INSERT INTO {flow.table} VALUES (2, 1, 0, 'x', 1000, true)")

    progress = InterruptedProgress(at="commit", then=meanwhile)
    report = flow.apply("run 2", progress=progress, strategy=UpsertStrategy.POSITIONS)
    assert report.attempts == 1
    assert {key: found["n"] for key, found in held(flow).items()} == {1: 110, 2: 1005}
