"""Arguments that are right once they are rendered are taken while a DAG is parsed, whichever of them are open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import combinations
from typing import Any

import pytest

from airflow_lake_provider import (
    Aggregation,
    Audits,
    Changes,
    DeadLetter,
    Debezium,
    DebeziumTopic,
    Deduplicate,
    Files,
    FirstRow,
    History,
    JdbcTable,
    KafkaTopic,
    LakeTable,
    PartialUpdate,
    PySparkFunction,
    Query,
    RepairedLetters,
    SchemaContract,
    TableLayout,
)
from airflow_lake_provider.contracts.author_object import AuthorObject
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import (
    CompactionSpec,
    OrphanFilesSpec,
    RowExpirySpec,
    SnapshotExpirySpec,
)
from airflow_lake_provider.contracts.specs.metadata_changes import CreateTagSpec, PublishBranchSpec, RollbackSpec
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec

TEMPLATE = "{{ params.x or '' }}"
AVRO = '{"type": "record", "name": "r", "fields": []}'
SOME = LakeTable("shop.raw", columns=["id", "v"])
JDBC = JdbcTable("pg", "public.orders", columns=["id", "v"])
TOPIC = KafkaTopic("k", "t", schema="id BIGINT", key_schema="id BIGINT", metadata_columns=["timestamp"])
OF_BYTES = KafkaTopic("k", "t", value_format="binary", max_records=5, catch_up=True)
AVRO_TOPIC = KafkaTopic("k", "t", value_format="avro", registry="r")


def upsert(source: Any = "in/a.json", **arguments: Any) -> UpsertSpec:
    return UpsertSpec(**{"table": "shop.orders", "source": source, "keys": ["id"], **arguments})


def append(source: Any = "in/a.json", **arguments: Any) -> AppendSpec:
    return AppendSpec(**{"table": "shop.orders", "source": source, **arguments})


def overwrite(**arguments: Any) -> OverwritePartitionsSpec:
    return OverwritePartitionsSpec(**{"table": "shop.orders", "source": "in/a.json", **arguments})


def delete(**arguments: Any) -> DeleteRowsSpec:
    return DeleteRowsSpec(**{"table": "shop.orders", **arguments})


def incremental(**arguments: Any) -> IncrementalSpec:
    return IncrementalSpec(**{"table": "a.b", "source": "a.c", "consumer": "c", "keys": ["key"], **arguments})


def compaction(**arguments: Any) -> CompactionSpec:
    return CompactionSpec(**{"table": "shop.orders", **arguments})


RIGHT: list[JobSpec] = [
    upsert(SOME, order_by=["v"]),
    upsert(JDBC, order_by=["v"]),
    upsert(JdbcTable("pg", sql="SELECT 1", watermark="v", overlap="PT10M")),
    upsert(schema_contract="quarantine", dead_letter=DeadLetter()),
    upsert(schema_contract=SchemaContract(by_column={"v": "quarantine"}), dead_letter=DeadLetter(table="a.letters")),
    upsert(schema_contract={"exclude_columns": ["key"]}),
    upsert(merge_engine="history", order_by=["key"]),
    upsert(merge_engine=History(at="2026-11-01T00:00:00+00:00", track=["key"]), is_complete=True),
    upsert(Changes("shop.raw"), merge_engine=History(at="2026-11-01T00:00:00+00:00")),
    upsert(merge_engine=Deduplicate(ignore_stale=True), order_by=["at"]),
    upsert(merge_engine=Deduplicate(ignore_stale=True, deletes="soft"), order_by=["at"], delete_when="op = 'd'"),
    upsert(TOPIC, merge_engine=Deduplicate(ignore_stale=True, deletes="soft"), order_by=["kafka_timestamp"]),
    upsert(TOPIC, order_by=["kafka_timestamp"]),
    upsert(replace(TOPIC, tombstones="skip"), order_by=["at"]),
    upsert(TOPIC, order_by=["at"], merge_engine=FirstRow(deletes="ignore")),
    upsert(OF_BYTES),
    upsert(AVRO_TOPIC),
    upsert(KafkaTopic("k", "t", value_format="avro", schema=AVRO)),
    upsert(Files("in/folder", format="json")),
    upsert(Files("a.xml", options={"rowTag": "order"})),
    upsert(Files("a.csv", format="xml", options={"rowTag": "order"})),
    upsert(Files("a.csv", options={"header": "true"}), is_complete=True),
    upsert(Debezium("in/*", table="orders", ordering="key")),
    upsert(Debezium("in/*", table="orders"), branch="b"),
    upsert(Debezium("in/*", table="orders"), strategy="equality"),
    upsert(DebeziumTopic("k", "t", table="orders", registry="r", max_records=5, catch_up=True)),
    upsert(merge_engine=Aggregation({"key": "sum"})),
    upsert(merge_engine=Aggregation({"v": "max"}), order_by=["v"]),
    upsert(merge_engine=PartialUpdate({"at": ["key"]}), schema_contract={"missing_columns": "null"}),
    upsert(merge_engine={"type": "deduplicate", "deletes": "soft", "deleted_column": "key"}),
    upsert(audits=Audits({"a": "SELECT * FROM batch"}), batch_id="b"),
    upsert(Query("SELECT * FROM source", over=SOME), create=TableLayout(sort_by=["id"])),
    upsert(Query("SELECT * FROM a", over={"a": Changes("shop.raw"), "b": Files("a.csv")})),
    upsert(PySparkFunction("m:f", {"a": SOME}, {"n": 5})),
    upsert(PySparkFunction("m:f"), batch_id="b"),
    upsert(RepairedLetters()),
    upsert(on_repeat="apply", strategy="merge"),
    append(SOME, deduplicate_by=["v"], deduplicate_against="P3D"),
    append(JDBC, deduplicate_by=["id"], deduplicate_against="5"),
    append(JDBC, batch_id="b"),
    append(replace(JDBC, watermark="v")),
    append(replace(JDBC, watermark="v", overlap="PT10M"), deduplicate_by=["id"], deduplicate_against="P3D"),
    append(Query("SELECT * FROM a", over={"a": JDBC, "b": Files("a.csv")})),
    append(AVRO_TOPIC, on_repeat="apply"),
    append(OF_BYTES, on_repeat="skip"),
    append(branch="b"),
    overwrite(where="day = DATE '2026-11-01'", keys=["id"], empty="delete", allow_rows=True),
    overwrite(),
    delete(where="id = 3"),
    delete(keys_from=SOME, keys=["v"]),
    delete(keys_from="in/a.csv", keys=["id"]),
    UpdateRowsSpec(table="shop.orders", assignments={"n": "1"}, where="id = 3"),
    incremental(query="SELECT * FROM changes"),
    incremental(transform="module:function"),
    compaction(),
    compaction(strategy="sort", sort_by=["at DESC"]),
    compaction(strategy="zorder", sort_by=["id", "v"], where="id = 3"),
    compaction(strategy="hilbert", sort_by=["id", "v"]),
    RollbackSpec(table="shop.orders", snapshot_id="5", expected_snapshot_id="6"),
    RollbackSpec(table="shop.orders", timestamp="2026-11-01T00:00:00+00:00"),  # type: ignore[arg-type]  # as authors do
    RollbackSpec(table="shop.orders", tag="t"),
    CreateTagSpec(table="shop.orders", tag="t", snapshot_id="5"),
    PublishBranchSpec(table="shop.orders", branch="b"),
    SnapshotExpirySpec(table="shop.orders", older_than="P5D"),  # type: ignore[arg-type]  # as authors do
    OrphanFilesSpec(table="shop.orders", older_than="P5D"),  # type: ignore[arg-type]  # as authors do
    RowExpirySpec(table="shop.orders", column="at", keep="P90D"),  # type: ignore[arg-type]  # as authors do
]

# A path down to a value: names of fields and keys of mappings.
Place = tuple[str, ...]
# Code is no template's.
NEVER_OPEN = {("source", "function"), ("source", "function_code")}


def places(spec: JobSpec, *, with_defaults: bool = True) -> Iterator[Place]:
    """Places whose value a template may make; those of defaults, too, or not."""
    for argument in spec.arguments():
        value = getattr(spec, argument.name)
        if argument.is_templated and (with_defaults or value != argument.field.default):
            yield from _places(value, (argument.name,), with_defaults)


def _places(value: Any, place: Place, with_defaults: bool) -> Iterator[Place]:
    # A mapping of views has a source for each.
    if not isinstance(value, Mapping) or not any(isinstance(each, AuthorObject) for each in value.values()):
        yield place
    below = value if isinstance(value, Mapping) else {}
    if isinstance(value, AuthorObject):
        given = {each: getattr(value, each.name) for each in fields(value)}
        below = {each.name: item for each, item in given.items() if with_defaults or item != each.default}
    is_input = "over" in place
    for name, each in below.items():
        # What a query reads has no name and no policy of its own.
        if (*place, name) not in NEVER_OPEN and not (is_input and name in ("name", "on_source_change")):
            yield from _places(each, (*place, name), with_defaults)


def opened(value: Any, place: Place) -> Any:
    """Return a value with a template at a place, made anew as an author makes it."""
    if not place:
        return TEMPLATE
    name, *rest = place
    if isinstance(value, Mapping):
        return {**value, name: opened(value[name], tuple(rest))}
    return replace(value, **{name: opened(getattr(value, name), tuple(rest))})


def refusal(spec: JobSpec, chosen: Iterable[Place]) -> str | None:
    try:
        # The inner ones first: there is nothing inside a template.
        for place in sorted(chosen, key=len, reverse=True):
            spec = opened(spec, place)
    except (InvalidSpecError, UnsupportedError) as error:
        return f"{chosen}: {error}"
    return None


@pytest.mark.parametrize("spec", RIGHT, ids=lambda spec: f"{spec.action}-{RIGHT.index(spec)}")
def test_what_is_right_when_it_is_rendered_is_taken_whichever_arguments_are_open(spec: JobSpec) -> None:
    every = list(places(spec))
    inner, outer = [place for place in every if len(place) > 1], [place for place in every if len(place) == 1]
    chosen = [*combinations(every, 1), *combinations(places(spec, with_defaults=False), 2), inner, outer]
    assert not [refused for each in chosen if (refused := refusal(spec, each))]


WRONG = [
    (lambda: RollbackSpec(table="a.b", snapshot_id="5", tag="t", timestamp=TEMPLATE), "only one"),  # type: ignore[arg-type]  # a template
    (lambda: delete(where=TEMPLATE, keys=["id"]), "keys_from needs one or more different key columns"),
    (lambda: compaction(level=TEMPLATE, sort_by=["id"]), "sort_by needs strategy"),
    (lambda: incremental(query="SELECT 1", transform="m:f", full_refresh=TEMPLATE), "not both or none"),
    (lambda: upsert(SOME, keys=[TEMPLATE], order_by=["w"]), r"columns of LakeTable .* lack \['w'\]"),
    (lambda: upsert(JDBC, order_by=[TEMPLATE], keys=["w"]), r"columns of JdbcTable .* lack \['w'\]"),
    (lambda: upsert(merge_engine=Deduplicate(ignore_stale=True, deletes=TEMPLATE)), "give order_by"),
    (lambda: upsert(Files(TEMPLATE), schema_contract="quarantine"), "give dead_letter"),
    (lambda: upsert(merge_engine=History(valid_to=TEMPLATE)), "needs the time of each row"),
    (lambda: append(replace(JDBC, connection=TEMPLATE)), "would add them twice"),
    (lambda: append(SOME, deduplicate_against=TEMPLATE, branch="main"), "reserved"),
    (lambda: append(deduplicate_against="P3D", batch_id=TEMPLATE), "give these, too"),
    (lambda: KafkaTopic("k", TEMPLATE, registry=TEMPLATE), "KafkaTopic of JSON takes schema"),
    (lambda: KafkaTopic("k", TEMPLATE, value_format="avro"), "either registry, or schema"),
    (lambda: KafkaTopic("k", TEMPLATE, value_format="binary", registry="r"), "no schema and registry"),
    (lambda: KafkaTopic("k", TEMPLATE, schema="id BIGINT", catch_up=True), "give that, too"),
    (lambda: Files(TEMPLATE, format="csv", options={"allowComments": "true"}), "is not known"),
    (lambda: Files(TEMPLATE, format="xml"), "needs the name of the element"),
    (lambda: Files("in/folder", schema=TEMPLATE), "does not tell a format"),
    (lambda: JdbcTable(TEMPLATE, table="a", sql="SELECT 1"), "either table or sql"),
    (lambda: Query(TEMPLATE, over={"a": Files("a.csv", on_source_change=TEMPLATE)}), "belong to the Query"),
    (lambda: upsert(PySparkFunction("m:f", params={"n": TEMPLATE})), "nothing tells"),
]


@pytest.mark.parametrize(("make", "refusal"), WRONG)
def test_what_no_rendering_mends_is_refused_at_once(make: Callable[[], Any], refusal: str) -> None:
    with pytest.raises(InvalidSpecError, match=refusal):
        make()
