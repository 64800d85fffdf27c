"""Merge engines that contradict themselves, or the batch they are for, are refused before Spark starts."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.merge_engines import (
    Aggregation,
    Deduplicate,
    Deletes,
    FirstRow,
    MergeEngine,
    PartialUpdate,
    merge_engine,
)
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Debezium, Files
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import from_json, to_json
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("newest", r"merge_engine needs a type, one of 'deduplicate', .*, got 'newest'"),
        ("aggregation", "merge_engine needs aggregates"),
        (
            {"type": "deduplicate", "sequence_groups": {"at": ["a"]}},
            r"no \['sequence_groups'\]; .*ignore_stale",
        ),
        ({"type": "first-row", "aggregates": {"a": "sum"}}, r"no \['aggregates'\]"),
        ({"type": "aggregation", "aggregates": {}}, "one or more columns"),
        ({"type": "aggregation", "aggregates": {"a": "median"}}, r"no \['median'\]; it takes sum, max"),
        ({"type": "partial-update", "ignore_stale": True}, r"no \['ignore_stale'\]; it takes .*sequence_groups"),
        ({"type": "partial-update", "sequence_groups": {"g": ["a"], "h": ["A"]}}, "more than one place"),
        ({"type": "first-row", "deletes": "never"}, "FirstRow.deletes must be one of 'hard', 'soft', 'ignore'"),
    ],
)
def test_contradictions_are_refused(given: Any, told: str) -> None:
    with pytest.raises(InvalidSpecError, match=told):
        merge_engine(given)


STALE = Deduplicate(ignore_stale=True)
EVENTS = Debezium(path="in/*.json", table="orders", name="s")


def aggregating(**functions: str) -> MergeEngine:
    return Aggregation(aggregates=functions)


def grouped(order: str, *columns: str) -> MergeEngine:
    return PartialUpdate(sequence_groups={order: columns})


@pytest.mark.parametrize(
    ("engine", "changes", "told"),
    [
        (STALE, {}, "give order_by"),
        (STALE, {"order_by": ("at",), "exclude_columns": ("at",)}, r"ignore_stale .* \['at'\]"),
        (grouped("g", "price"), {"exclude_columns": ("G",)}, r"sequence group .* \['g'\]"),
        (Deduplicate(), {"exclude_columns": ("ID",)}, r"key columns .* \['id'\]"),
        (STALE, {"order_by": ("at",), "delete_when": "op = 'd'"}, "use deletes='soft'"),
        (STALE, {"source": EVENTS}, "carry whole rows"),
        (FirstRow(), {"source": EVENTS}, "carry whole rows"),
        (Aggregation(aggregates={"ID": "sum"}), {}, r"key columns \['id'\]"),
        (Deduplicate(deletes=Deletes.SOFT, deleted_column="id"), {}, r"key columns \['id'\]"),
        (aggregating(at="min"), {"order_by": ("AT",)}, r"order_by columns \['at'\]"),
        (aggregating(at="max"), {"order_by": ("day", "at")}, r"order_by columns \['at'\]"),
        (grouped("at", "price"), {"order_by": ("lsn", "at")}, r"order_by columns \['at'\]"),
        (grouped("g", "at"), {"order_by": ("at",)}, r"order_by columns \['at'\]"),
    ],
)
def test_engines_that_do_not_fit_the_batch_are_refused(engine: MergeEngine, changes: dict[str, Any], told: str) -> None:
    arguments: dict[str, Any] = {
        "source": Files(path="in/*.json", format="json", name="s"),
        "keys": ("id",),
        **changes,
    }
    arguments["schema_contract"] = SchemaContract(exclude_columns=arguments.pop("exclude_columns", ()))
    with pytest.raises(InvalidSpecError, match=told):
        UpsertSpec(catalog="c", table="a.b", run=RunIdentity.of("r"), merge_engine=engine, **arguments)


@pytest.mark.parametrize(
    ("engine", "order_by"),
    [(aggregating(at="max"), ("at", "n")), (aggregating(n="last"), ("at", "n")), (grouped("at", "price"), ("at",))],
)
def test_an_order_may_be_merged_as_that_of_the_last_row(engine: MergeEngine, order_by: tuple[str, ...]) -> None:
    source = Files(path="in/*.json", format="json", name="s")
    run = RunIdentity.of("r")
    spec = UpsertSpec(
        catalog="c", table="a.b", run=run, source=source, keys=("id",), merge_engine=engine, order_by=order_by
    )
    assert spec.merge_engine == engine


def test_engines_cross_the_border_as_they_are() -> None:
    given = PartialUpdate(sequence_groups={"g": ("a", "b")}, deletes=Deletes.SOFT)
    assert from_json(MergeEngine, to_json(given)) == given
