"""Semantics that contradict themselves, or the batch they are for, are refused before Spark starts."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import from_json, to_json
from airflow_lake_provider.contracts.merge_semantics import Deletes, MergeEngine, MergeSemantics
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.contracts.upsert_spec import UpsertSpec


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"sequence_groups": {"at": ("a",)}}, "belong to semantics='partial'"),
        ({"engine": MergeEngine.AGGREGATE}, "go together"),
        ({"aggregates": {"a": "sum"}}, "go together"),
        ({"engine": MergeEngine.AGGREGATE, "aggregates": {"a": "median"}}, r"no \['median'\]; it takes sum, max"),
        ({"engine": MergeEngine.PARTIAL, "ignore_stale": True}, "use sequence_groups"),
        ({"engine": MergeEngine.PARTIAL, "sequence_groups": {"g": ("a",), "h": ("A",)}}, "more than one place"),
    ],
)
def test_contradictions_are_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSpecError, match=told):
        MergeSemantics(**arguments)


STALE = MergeSemantics(ignore_stale=True)
EVENTS = Source(path="in/*.json", format="json", envelope="debezium", envelope_table="orders", name="s")


def aggregating(**functions: str) -> MergeSemantics:
    return MergeSemantics(engine=MergeEngine.AGGREGATE, aggregates=functions)


def grouped(order: str, *columns: str) -> MergeSemantics:
    return MergeSemantics(engine=MergeEngine.PARTIAL, sequence_groups={order: columns})


@pytest.mark.parametrize(
    ("semantics", "changes", "told"),
    [
        (STALE, {}, "give order_by"),
        (STALE, {"order_by": ("at",), "exclude_columns": ("at",)}, r"ignore_stale .* \['at'\]"),
        (grouped("g", "price"), {"exclude_columns": ("G",)}, r"sequence group .* \['g'\]"),
        (MergeSemantics(), {"exclude_columns": ("ID",)}, r"key columns .* \['id'\]"),
        (STALE, {"order_by": ("at",), "delete_when": "op = 'd'"}, "use deletes='soft'"),
        (STALE, {"source": EVENTS}, "carry whole rows"),
        (MergeSemantics(engine=MergeEngine.FIRST), {"source": EVENTS}, "carry whole rows"),
        (MergeSemantics(engine=MergeEngine.AGGREGATE, aggregates={"ID": "sum"}), {}, r"key columns \['id'\]"),
        (MergeSemantics(deletes=Deletes.SOFT, deleted_column="id"), {}, r"key columns \['id'\]"),
        (aggregating(at="min"), {"order_by": ("AT",)}, r"order_by columns \['at'\]"),
        (aggregating(at="max"), {"order_by": ("day", "at")}, r"order_by columns \['at'\]"),
        (grouped("at", "price"), {"order_by": ("lsn", "at")}, r"order_by columns \['at'\]"),
        (grouped("g", "at"), {"order_by": ("at",)}, r"order_by columns \['at'\]"),
    ],
)
def test_semantics_that_do_not_fit_the_batch_are_refused(
    semantics: MergeSemantics, changes: dict[str, Any], told: str
) -> None:
    arguments: dict[str, Any] = {
        "source": Source(path="in/*.json", format="json", name="s"),
        "keys": ("id",),
        **changes,
    }
    with pytest.raises(InvalidSpecError, match=told):
        UpsertSpec(catalog="c", table="a.b", run=RunIdentity.of("r"), semantics=semantics, **arguments)


@pytest.mark.parametrize(
    ("semantics", "order_by"),
    [(aggregating(at="max"), ("at", "n")), (aggregating(n="last"), ("at", "n")), (grouped("at", "price"), ("at",))],
)
def test_an_order_may_be_merged_as_that_of_the_last_row(semantics: MergeSemantics, order_by: tuple[str, ...]) -> None:
    source = Source(path="in/*.json", format="json", name="s")
    run = RunIdentity.of("r")
    spec = UpsertSpec(
        catalog="c", table="a.b", run=run, source=source, keys=("id",), semantics=semantics, order_by=order_by
    )
    assert spec.semantics is semantics


def test_semantics_cross_the_border_as_they_are() -> None:
    given = MergeSemantics(engine=MergeEngine.PARTIAL, sequence_groups={"g": ("a", "b")}, deletes=Deletes.SOFT)
    assert from_json(MergeSemantics, to_json(given)) == given
