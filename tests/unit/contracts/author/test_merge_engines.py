"""Merge engines that contradict themselves, or the batch they are for, are refused before Spark starts."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.lake_tables import Changes
from airflow_lake_provider.contracts.author.merge_engines import (
    Aggregation,
    Deduplicate,
    Deletes,
    FirstRow,
    History,
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
        ({"type": "aggregation", "aggregates": {"v": "max", "V": "sum"}}, r"compared without case: \['V', 'v'\]"),
        ({"type": "partial-update", "ignore_stale": True}, r"no \['ignore_stale'\]; it takes .*sequence_groups"),
        ({"type": "partial-update", "sequence_groups": {"g": ["a"], "h": ["A"]}}, "more than one place"),
        ({"type": "first-row", "deletes": "never"}, "FirstRow.deletes must be one of 'hard', 'soft', 'ignore'"),
        ({"type": "history", "track": []}, "track must name one or more columns"),
        ({"type": "history", "current": "VALID_TO"}, "must be different columns"),
        ({"type": "history", "deletes": "soft"}, "deletes='soft' does not go with a History"),
        ({"type": "history", "at": "2026-01-01"}, "History.at must be a time with a zone"),
        ({"type": "history", "at": "today"}, "History.at looks like a time and is none"),
    ],
)
def test_contradictions_are_refused(given: Any, told: str) -> None:
    with pytest.raises(InvalidSpecError, match=told):
        merge_engine(given)


STALE = Deduplicate(ignore_stale=True)
NOON = "2026-01-01T12:00:00+00:00"
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
        (History(), {}, "needs the time of each row"),
        (History(), {"order_by": ("ID",)}, r"the time of a row, 'ID', cannot be one of its keys"),
        (History(), {"order_by": ("at",), "is_complete": True}, r"History\(at='{{ data_interval_end }}'\)"),
        (History(at=NOON, deletes=Deletes.IGNORE), {"is_complete": True}, "leave out deletes"),
        (History(), {"order_by": ("at",), "source": Changes("a.source", name="s")}, "give the time of the batch"),
        (History(), {"order_by": ("at",), "source": EVENTS}, "bring their own order and deletes"),
        (History(at=NOON), {"source": EVENTS}, r"a History takes all of them: read their files by Query"),
        (History(at=NOON), {"missing_columns": "keep"}, "missing_columns='keep' does not go with a History"),
        (History(), {"order_by": ("at",), "exclude_columns": ("AT",)}, r"order_by, which a History .* \['at'\]"),
        (History(track=["a"], at=NOON), {"exclude_columns": ("A",)}, r"columns of track .* \['a'\]"),
        (History(valid_from="AT"), {"order_by": ("at",)}, r"\['at'\] are written by the History .* order_by"),
        (History(current="id", at=NOON), {}, r"\['id'\] are written by the History and cannot be in keys"),
        (History(track=["ID"], at=NOON), {}, r"key columns \['id'\] identify a row and cannot be in track"),
    ],
)
def test_engines_that_do_not_fit_the_batch_are_refused(engine: MergeEngine, changes: dict[str, Any], told: str) -> None:
    arguments: dict[str, Any] = {
        "source": Files(path="in/*.json", format="json", name="s"),
        "keys": ("id",),
        **changes,
    }
    columns = {name: arguments.pop(name) for name in ("exclude_columns", "missing_columns") if name in arguments}
    arguments["schema_contract"] = SchemaContract(**columns)
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


@pytest.mark.parametrize(
    "given",
    [
        PartialUpdate(sequence_groups={"g": ("a", "b")}, deletes=Deletes.SOFT),
        History(current=None, track=("a",), at="2026-01-01 13:00:00+01:00"),
    ],
)
def test_engines_cross_the_border_as_they_are(given: MergeEngine) -> None:
    assert from_json(MergeEngine, to_json(given)) == given


def test_the_time_of_a_batch_may_be_a_template_and_is_kept_in_utc() -> None:
    open_ = History(at="{{ data_interval_end }}")
    assert open_.at == "{{ data_interval_end }}"
    assert open_.rendered(lambda _: "2026-01-01 13:00:00+01:00").checked().at == NOON
