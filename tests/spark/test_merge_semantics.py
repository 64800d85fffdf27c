"""Each way of merging rows of one key, over random batches, against a plain loop over the rows in their order."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.contracts.merge_semantics import Deletes, MergeEngine, MergeSemantics
from airflow_lake_provider.contracts.table_layout import MissingColumns, TableLayout
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from tests.spark.upsert_flow import Flow, InterruptedProgress

EXAMPLES = int(os.environ.get("LAKE_EXAMPLES", "2"))
SCHEMA = "id BIGINT, at INT, g INT, a STRING, n BIGINT, f BOOLEAN, op STRING"
Row = dict[str, Any]

small = st.one_of(st.none(), st.integers(0, 4))
rows = st.fixed_dictionaries(
    {
        "id": st.integers(0, 3),
        "at": small,
        "g": small,
        "a": st.sampled_from([None, "x", "y"]),
        "n": small,
        "f": st.sampled_from([None, True, False]),
        "op": st.sampled_from(["u", "u", "u", "d"]),
    }
)
histories = st.lists(st.lists(rows, min_size=1, max_size=8), min_size=2, max_size=3)
FUNCTIONS = {"g": "max", "a": "listagg", "n": "sum", "f": "bool_and"}
CASES = {
    "replace, deletes ignored": MergeSemantics(deletes=Deletes.IGNORE),
    "replace, soft, stale ignored": MergeSemantics(deletes=Deletes.SOFT, ignore_stale=True),
    "first": MergeSemantics(engine=MergeEngine.FIRST),
    "partial": MergeSemantics(engine=MergeEngine.PARTIAL, sequence_groups={"g": ("a",)}),
    "partial, soft": MergeSemantics(engine=MergeEngine.PARTIAL, deletes=Deletes.SOFT),
    "aggregate": MergeSemantics(engine=MergeEngine.AGGREGATE, aggregates=FUNCTIONS),
}


def _skipping_null(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda old, new: new if old is None else old if new is None else combine(old, new)


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "max": _skipping_null(max),
    "listagg": _skipping_null(lambda old, new: f"{old},{new}"),
    "sum": _skipping_null(lambda old, new: old + new),
    "bool_and": _skipping_null(lambda old, new: old and new),
    "last_non_null": _skipping_null(lambda old, new: new),
}


def merged(old: Row | None, new: Row, semantics: MergeSemantics) -> Row:
    """One row of a batch onto what its key has."""
    if semantics.engine is MergeEngine.REPLACE:
        return new
    if semantics.engine is MergeEngine.FIRST:
        return old or new
    old = old or dict.fromkeys(new)
    grouped = {name: order for order, group in semantics.sequence_groups.items() for name in (order, *group)}
    result = {}
    for name in new:
        order = grouped.get(name)
        if order is None:
            result[name] = COMBINE[semantics.aggregates.get(name, "last_non_null")](old[name], new[name])
        else:
            newer = new[order] is not None and (old[order] is None or new[order] >= old[order])
            result[name] = new[name] if newer else old[name]
    return result


def _least_null(value: int | None) -> int:
    return -1 if value is None else value


def deleted(old: Row | None, last: Row, semantics: MergeSemantics) -> Row | None:
    """What a key has after a batch that ends with its delete."""
    if semantics.deletes is not Deletes.SOFT or (old is None and not semantics.ignore_stale):
        return None
    kept = old or dict.fromkeys(last)
    return {**kept, "at": COMBINE["last_non_null"](kept["at"], last["at"]), "is_deleted": True}


def apply(table: dict[int, Row], batch: list[Row], semantics: MergeSemantics) -> None:
    """The batch row by row; a delete forgets the rows before it."""
    for key in {row["id"] for row in batch}:
        mine = sorted((row for row in batch if row["id"] == key), key=lambda row: _least_null(row["at"]))
        if semantics.deletes is Deletes.IGNORE:
            mine = [row for row in mine if row["op"] != "d"]
        if not mine:
            continue
        old = table.pop(key, None)
        if semantics.ignore_stale and old is not None and _least_null(mine[-1]["at"]) < _least_null(old["at"]):
            table[key] = old
            continue
        state: Row | None = old if not (old or {}).get("is_deleted") else None
        for row in mine:
            value = {name: row[name] for name in row if name not in ("id", "op")}
            state = None if row["op"] == "d" else {**merged(state, value, semantics)}
        if state is not None and semantics.deletes is Deletes.SOFT:
            state["is_deleted"] = False
        if mine[-1]["op"] == "d":
            values = {name: mine[-1][name] for name in mine[-1] if name not in ("id", "op")}
            state = deleted(old, values, semantics)
        if state is not None:
            table[key] = state


def new_flow(spark: SparkSession, folder: Path, semantics: MergeSemantics, version: str = "3") -> Flow:
    name = f"semantics.t_{uuid.uuid4().hex[:8]}"
    keeps = semantics.engine in (MergeEngine.PARTIAL, MergeEngine.AGGREGATE)
    arguments: dict[str, Any] = {
        "source": Source(path=f"{folder}/*.jsonl", format="json", schema=SCHEMA),
        "order_by": ("at",),
        "semantics": semantics,
        "missing_columns": MissingColumns.KEEP if keeps else MissingColumns.FAIL,
        "create": TableLayout(properties={"format-version": version}),
    }
    return Flow(spark, name, folder, arguments)


def held(flow: Flow) -> dict[int, Row]:
    found = flow.loaded().scan().to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found), f"keys occur twice in {found}"
    return {row.pop("id"): row for row in found}


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
    flow = new_flow(spark, tmp_path_factory.mktemp("semantics"), semantics, version)
    # Every column in use, so that the table has all from the start.
    first = {"id": 9, "at": 1, "g": 1, "a": "x", "n": 1, "f": True, "op": "u"}
    model: dict[int, Row] = {}
    for number, batch in enumerate([[first], *history]):
        flow.arrive(f"{number}.jsonl", *batch)
        flow.apply(f"run {number}", strategy=strategy)
        apply(model, batch, semantics)
        assert held(flow) == model


def test_the_first_row_keeps_its_own_order_also_when_that_is_null(spark: SparkSession, tmp_path: Path) -> None:
    flow = new_flow(spark, tmp_path, CASES["first"])
    row = {"id": 1, "g": 0, "a": "x", "n": 1, "f": True, "op": "u"}
    flow.arrive("1.jsonl", {**row, "at": None}, {**row, "at": 2, "n": 2})
    flow.apply("run 1")
    assert held(flow) == {1: {"at": None, "g": 0, "a": "x", "n": 1, "f": True}}


def test_a_group_without_an_order_is_left_alone_also_by_the_first_row_of_its_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = new_flow(spark, tmp_path, CASES["partial"])
    first = {"id": 1, "at": 0, "g": None, "a": "x", "n": 1, "f": True, "op": "u"}
    ordered = {**first, "id": 2, "g": 0}
    without = {"at": 1, "g": None, "a": None, "n": None, "f": False}
    batches = [[first, ordered], [{**first, **without}, {**ordered, **without}]]
    model: dict[int, Row] = {}
    for number, batch in enumerate(batches):
        flow.arrive(f"{number}.jsonl", *batch)
        flow.apply(f"run {number}")
        apply(model, batch, CASES["partial"])
        assert held(flow) == model
    left = {"at": 1, "n": 1, "f": False}
    assert model == {1: {**left, "g": None, "a": None}, 2: {**left, "g": 0, "a": "x"}}


@pytest.mark.parametrize("strategy", [UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE])
def test_a_late_update_does_not_bring_a_deleted_key_back(
    spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    flow = new_flow(spark, tmp_path, CASES["replace, soft, stale ignored"])
    for at, op in ((1, "u"), (3, "d"), (2, "u")):
        flow.arrive(f"{at}.jsonl", {"id": 1, "at": at, "g": 0, "a": "x", "n": at, "f": True, "op": op})
        flow.apply(f"run {at}", strategy=strategy)
    assert held(flow) == {1: {"at": 3, "g": 0, "a": "x", "n": 1, "f": True, "is_deleted": True}}


def test_values_of_a_row_that_changed_meanwhile_are_merged_again(spark: SparkSession, tmp_path: Path) -> None:
    flow = new_flow(spark, tmp_path, CASES["aggregate"])
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
