"""Model of the rows that each merge engine leaves: a plain loop over the rows in order, and rows to try it with."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.merge_engines import (
    Aggregation,
    Deduplicate,
    Deletes,
    FirstRow,
    MergeEngine,
    PartialUpdate,
)
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from tests.spark.upsert_flow import Flow

SCHEMA = "id BIGINT, at INT, g INT, a STRING, n BIGINT, f BOOLEAN, op STRING"
Row = dict[str, Any]

# Every column in use, so that a table that begins with it has all from the start.
FIRST_ROW: Row = {"id": 9, "at": 1, "g": 1, "a": "x", "n": 1, "f": True, "op": "u"}

SMALL = (None, 0, 1, 2, 3, 4)
VALUES: dict[str, Sequence[Any]] = {
    "id": (0, 1, 2, 3),
    "at": SMALL,
    "g": SMALL,
    "a": (None, "x", "y"),
    "n": SMALL,
    "f": (None, True, False),
    "op": ("u", "u", "u", "d"),
}
rows = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})
FUNCTIONS = {"g": "max", "a": "listagg", "n": "sum", "f": "bool_and"}
OTHER_FUNCTIONS = {"g": "min", "a": "last", "n": "count", "f": "bool_or"}
CASES = {
    "replace, deletes ignored": Deduplicate(deletes=Deletes.IGNORE),
    "replace, soft, stale ignored": Deduplicate(deletes=Deletes.SOFT, ignore_stale=True),
    "first": FirstRow(),
    "partial": PartialUpdate(sequence_groups={"g": ("a",)}),
    "partial, soft": PartialUpdate(deletes=Deletes.SOFT),
    "aggregate": Aggregation(aggregates=FUNCTIONS),
    "aggregate otherwise": Aggregation(aggregates=OTHER_FUNCTIONS),
    "first, soft": FirstRow(deletes=Deletes.SOFT),
    "aggregate, soft": Aggregation(aggregates={"g": "collect", "n": "sum"}, deletes=Deletes.SOFT),
}


def random_batch(random: Random) -> list[Row]:
    """Return rows of few keys, most of which have several."""
    return [{name: random.choice(values) for name, values in VALUES.items()} for _ in range(8)]


def _skipping_null(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda old, new: new if old is None else old if new is None else combine(old, new)


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "max": _skipping_null(max),
    "listagg": _skipping_null(lambda old, new: f"{old},{new}"),
    "sum": _skipping_null(lambda old, new: old + new),
    "bool_and": _skipping_null(lambda old, new: old and new),
    "bool_or": _skipping_null(lambda old, new: old or new),
    "min": _skipping_null(min),
    "last": lambda old, new: new,
    "count": lambda old, new: (old or 0) + (new is not None),
    "collect": lambda old, new: old if new is None else [*(old or []), new],
    "last_non_null": _skipping_null(lambda old, new: new),
}


def merged(old: Row | None, new: Row, merge_engine: MergeEngine, lacks: Sequence[str] = ()) -> Row:
    """One row of a batch onto what its key has; a column that the batch lacks is not even a count of none."""
    if isinstance(merge_engine, Deduplicate):
        return new
    if isinstance(merge_engine, FirstRow):
        return old or new
    old = old or dict.fromkeys(new)
    grouped = {name: order for order, group in merge_engine.sequence_groups.items() for name in (order, *group)}
    result = {}
    for name in new:
        order = grouped.get(name)
        if name in lacks:
            result[name] = old[name]
        elif order is None:
            result[name] = COMBINE[merge_engine.aggregates.get(name, "last_non_null")](old[name], new[name])
        else:
            newer = new[order] is not None and (old[order] is None or new[order] >= old[order])
            result[name] = new[name] if newer else old[name]
    return result


def _least_null(value: int | None) -> int:
    return -1 if value is None else value


def deleted(old: Row | None, last: Row, merge_engine: MergeEngine) -> Row | None:
    """Return the row of a key after a batch that ends with its delete; None where it has none."""
    if merge_engine.deletes is not Deletes.SOFT or (old is None and not merge_engine.ignore_stale):
        return None
    kept = old or dict.fromkeys(last)
    return {**kept, "at": COMBINE["last_non_null"](kept["at"], last["at"]), "is_deleted": True}


def apply_batch(table: dict[int, Row], batch: list[Row], merge_engine: MergeEngine, lacks: Sequence[str] = ()) -> None:
    """The batch row by row; a delete forgets the rows before it.

    :param lacks: columns that the batch has not got, which keep what they have.
    """
    batch = [{**row, **dict.fromkeys(lacks)} for row in batch]
    for key in {row["id"] for row in batch}:
        mine = sorted((row for row in batch if row["id"] == key), key=lambda row: _least_null(row["at"]))
        if merge_engine.deletes is Deletes.IGNORE:
            mine = [row for row in mine if row["op"] != "d"]
        if not mine:
            continue
        old = table.pop(key, None)
        if merge_engine.ignore_stale and old is not None and _least_null(mine[-1]["at"]) < _least_null(old["at"]):
            table[key] = old
            continue
        live = old if not (old or {}).get("is_deleted") else None
        state = live
        for row in mine:
            value = {name: row[name] for name in row if name not in ("id", "op")}
            state = None if row["op"] == "d" else {**merged(state, value, merge_engine, lacks)}
        is_new = any(row["op"] == "d" for row in mine)
        if state is not None and live is not None and not is_new and isinstance(merge_engine, Deduplicate):
            state.update({name: live[name] for name in lacks})
        if state is not None and merge_engine.deletes is Deletes.SOFT:
            state["is_deleted"] = False
        if mine[-1]["op"] == "d":
            values = {name: mine[-1][name] for name in mine[-1] if name not in ("id", "op")}
            state = deleted(old, values, merge_engine)
        if state is not None:
            table[key] = state


def new_flow(
    spark: SparkSession, folder: Path, merge_engine: MergeEngine, layout: TableLayout, kind: type[Flow] = Flow
) -> Flow:
    """A table that is not there yet, and its inbox."""
    name = f"merges.t_{uuid.uuid4().hex[:8]}"
    keeps = isinstance(merge_engine, (PartialUpdate, Aggregation))
    arguments: dict[str, Any] = {
        "source": Files(path=f"{folder}/*.jsonl", format="json", schema=SCHEMA, name="merges"),
        "order_by": ("at",),
        "merge_engine": merge_engine,
        "missing_columns": MissingColumns.KEEP if keeps else MissingColumns.FAIL,
        "create": layout,
    }
    return kind(spark, name, folder, arguments)


def held(flow: Flow) -> dict[int, Row]:
    """Rows by id, in the form of the model."""
    found = flow.records()
    assert len({row["id"] for row in found}) == len(found), f"keys occur twice in {found}"
    return {row.pop("id"): row for row in found}
