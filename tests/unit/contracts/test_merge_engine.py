"""Semantics that contradict themselves, or the batch they are for, are refused before Spark starts."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import from_json, to_json
from airflow_lake_provider.contracts.merge_engine import Deletes, MergeEngine, MergeRules
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.contracts.upsert_spec import UpsertSpec


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"sequence_groups": {"at": ("a",)}}, "belong to merge_engine='partial-update'"),
        ({"engine": MergeEngine.AGGREGATION}, "go together"),
        ({"aggregates": {"a": "sum"}}, "go together"),
        ({"engine": MergeEngine.AGGREGATION, "aggregates": {"a": "median"}}, r"no \['median'\]; it takes sum, max"),
        ({"engine": MergeEngine.PARTIAL_UPDATE, "ignore_stale": True}, "use sequence_groups"),
        ({"engine": MergeEngine.PARTIAL_UPDATE, "sequence_groups": {"g": ("a",), "h": ("A",)}}, "more than one place"),
    ],
)
def test_contradictions_are_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSpecError, match=told):
        MergeRules(**arguments)


STALE = MergeRules(ignore_stale=True)
EVENTS = Source(path="in/*.json", format="json", envelope="debezium", envelope_table="orders", name="s")


def aggregating(**functions: str) -> MergeRules:
    return MergeRules(engine=MergeEngine.AGGREGATION, aggregates=functions)


def grouped(order: str, *columns: str) -> MergeRules:
    return MergeRules(engine=MergeEngine.PARTIAL_UPDATE, sequence_groups={order: columns})


@pytest.mark.parametrize(
    ("merge_rules", "changes", "told"),
    [
        (STALE, {}, "give order_by"),
        (STALE, {"order_by": ("at",), "exclude_columns": ("at",)}, r"ignore_stale .* \['at'\]"),
        (grouped("g", "price"), {"exclude_columns": ("G",)}, r"sequence group .* \['g'\]"),
        (MergeRules(), {"exclude_columns": ("ID",)}, r"key columns .* \['id'\]"),
        (STALE, {"order_by": ("at",), "delete_when": "op = 'd'"}, "use deletes='soft'"),
        (STALE, {"source": EVENTS}, "carry whole rows"),
        (MergeRules(engine=MergeEngine.FIRST_ROW), {"source": EVENTS}, "carry whole rows"),
        (MergeRules(engine=MergeEngine.AGGREGATION, aggregates={"ID": "sum"}), {}, r"key columns \['id'\]"),
        (MergeRules(deletes=Deletes.SOFT, deleted_column="id"), {}, r"key columns \['id'\]"),
        (aggregating(at="min"), {"order_by": ("AT",)}, r"order_by columns \['at'\]"),
        (aggregating(at="max"), {"order_by": ("day", "at")}, r"order_by columns \['at'\]"),
        (grouped("at", "price"), {"order_by": ("lsn", "at")}, r"order_by columns \['at'\]"),
        (grouped("g", "at"), {"order_by": ("at",)}, r"order_by columns \['at'\]"),
    ],
)
def test_merge_rules_that_do_not_fit_the_batch_are_refused(
    merge_rules: MergeRules, changes: dict[str, Any], told: str
) -> None:
    arguments: dict[str, Any] = {
        "source": Source(path="in/*.json", format="json", name="s"),
        "keys": ("id",),
        **changes,
    }
    with pytest.raises(InvalidSpecError, match=told):
        UpsertSpec(catalog="c", table="a.b", run=RunIdentity.of("r"), merge_rules=merge_rules, **arguments)


@pytest.mark.parametrize(
    ("merge_rules", "order_by"),
    [(aggregating(at="max"), ("at", "n")), (aggregating(n="last"), ("at", "n")), (grouped("at", "price"), ("at",))],
)
def test_an_order_may_be_merged_as_that_of_the_last_row(merge_rules: MergeRules, order_by: tuple[str, ...]) -> None:
    source = Source(path="in/*.json", format="json", name="s")
    run = RunIdentity.of("r")
    spec = UpsertSpec(
        catalog="c", table="a.b", run=run, source=source, keys=("id",), merge_rules=merge_rules, order_by=order_by
    )
    assert spec.merge_rules is merge_rules


def test_merge_rules_cross_the_border_as_they_are() -> None:
    given = MergeRules(engine=MergeEngine.PARTIAL_UPDATE, sequence_groups={"g": ("a", "b")}, deletes=Deletes.SOFT)
    assert from_json(MergeRules, to_json(given)) == given
