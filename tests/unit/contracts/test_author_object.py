"""Author objects: checked when they are made, later where they are open, and the same after every border."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider import (
    Aggregation,
    Audits,
    Debezium,
    DebeziumTopic,
    Deduplicate,
    Files,
    FirstRow,
    LakeTable,
    PartialUpdate,
    Query,
    SchemaContract,
    TableLayout,
)
from airflow_lake_provider.contracts.author.merge_engines import MergeEngine, merge_engine
from airflow_lake_provider.contracts.author.schema_contract import schema_contract
from airflow_lake_provider.contracts.author.sources import Source, source
from airflow_lake_provider.contracts.author.table_layout import table_layout
from airflow_lake_provider.contracts.author_object import AuthorObject, is_open
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import from_json, to_json


class Reference:
    """Stands for a reference to XCom: Airflow asks for this method too."""

    def resolve(self, context: Any) -> str:
        return "in/resolved.csv"

    # An address would give a test another name in each worker of pytest.
    def __repr__(self) -> str:
        return "Reference()"


OBJECTS: list[AuthorObject] = [
    Files("in/*.csv", schema="id BIGINT", options={"header": True}, max_file_age="P30D", name="n"),
    LakeTable("shop.raw", on_source_change="fail"),
    Query("SELECT * FROM source", over="in/*.parquet"),
    Query("SELECT * FROM source", over=LakeTable("shop.raw"), name="n"),
    Debezium("in/*.json", table="public.orders", ordering="key", tombstone_retention=timedelta(days=3)),
    Debezium("a", table="t", decimal_handling_mode="string"),
    Debezium("a", table="t", binary_handling_mode="hex", unavailable_value_placeholder="hex:00ff", key_field_name="k"),
    DebeziumTopic("kafka", "t", table="public.orders", registry="r", ordering="key", max_records=5, catch_up=True),
    Deduplicate(ignore_stale=True, deletes="soft"),
    FirstRow(deletes="ignore"),
    PartialUpdate({"priced_at": ["price", "currency"]}),
    Aggregation({"total": "sum"}),
    TableLayout(partition_by=["months(at)"], target_file_size="256MB", properties={"a": 5}),
    SchemaContract(new_columns="freeze", missing_columns="keep", exclude_columns=["op"]),
    Audits({"none is negative": "SELECT * FROM batch WHERE n < 0"}, local=True),
]


@pytest.mark.parametrize("given_object", OBJECTS, ids=repr)
def test_an_object_is_the_same_after_json_and_after_its_own_mapping(given_object: AuthorObject) -> None:
    assert from_json(type(given_object), to_json(given_object)) == given_object
    plain = json.loads(json.dumps(given_object.to_mapping()))
    assert type(given_object).from_mapping(plain) == given_object
    assert given_object.checked() == given_object
    with pytest.raises(FrozenInstanceError):
        setattr(given_object, "kind", "other")  # noqa: B010  # what is refused


def test_values_are_normalised_when_the_object_is_made() -> None:
    assert Files("in/*.jsonl.gz").format == "json"
    numbers = Files("in/*", format="csv", options={"header": True, "maxColumns": 5})
    assert numbers.options == {"header": "true", "maxColumns": "5"}
    assert Files("in/*.csv", max_file_age="P30DT1H").max_file_age == timedelta(days=31)
    assert TableLayout(target_file_size="256MB").target_file_size == 256 * 1024**2
    assert TableLayout(partition_by=["a"]).partition_by == ("a",)
    below = Query("SELECT 1", over="in/*.csv").files
    assert below == Files("in/*.csv")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (lambda: source("in/*.parquet"), Files("in/*.parquet")),
        (lambda: merge_engine("first-row"), FirstRow()),
        (lambda: schema_contract("freeze"), SchemaContract(new_columns="freeze", wider_types="freeze")),
        (lambda: schema_contract("evolve"), SchemaContract()),
        (lambda: table_layout(True), TableLayout()),
        (lambda: table_layout("False"), None),
    ],
)
def test_a_text_is_enough_for_the_plain_case(text: Any, expected: AuthorObject | None) -> None:
    assert text() == expected


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: source({"path": "in/*.csv"}),
            "needs a type, one of 'files', 'lake-table', 'changes', 'debezium', .*'kafka-topic', 'jdbc-table', 'query'",
        ),
        (lambda: source({"type": "kafka"}), "got 'kafka'"),
        (lambda: source({"type": "files"}), "source needs path"),
        (
            lambda: source({"type": "files", "path": "a.csv", "schemas": ""}),
            r"has no \['schemas'\]; it takes name",
        ),
        (
            lambda: source(5),
            (
                "a path, a mapping with type, or one of Files, LakeTable, Changes, Debezium, .*KafkaTopic, JdbcTable, "
                "PySparkFunction, Query"
            ),
        ),
        (lambda: Files("in/*"), r"'in/\*' does not tell a format"),
        (
            lambda: Files("a.csv", format="xlsx"),
            r"Files\.format must be one of parquet, .*, got 'xlsx'",
        ),
        (lambda: Files("a.csv", schema="id"), r"Files\.schema 'id' is not a list of columns"),
        (lambda: Files("a.csv", max_file_age="30"), r"Files\.max_file_age must be a positive timedelta or ISO-8601"),
        (lambda: Files("a.csv", options={"header": None}), r"Files\.options\['header'\] must be a text, a number"),
        (lambda: LakeTable("orders"), "'orders' is not of the form namespace.table"),
        (lambda: Query("DROP TABLE x", over="a.csv"), r"Query\.sql must be one query"),
        (
            lambda: Query("SELECT 1", over=Debezium("a", table="t")),
            r"over must be Files, a LakeTable, Changes, a JdbcTable or a KafkaTopic",
        ),
        (lambda: Query("SELECT 1", over=Files("a.csv", name="n")), "belong to the Query, not to what it reads"),
        (lambda: Debezium("a", table="t", ordering="unknown"), r"Debezium\.ordering must be one of 'partition'"),
        (
            lambda: Debezium("a", table="t", binary_handling_mode="octal"),
            r"binary_handling_mode must be one of 'bytes'",
        ),
        (lambda: Debezium("a", table="t", unavailable_value_placeholder="hex:5f5"), "pairs of hexadecimal digits"),
        (lambda: Debezium("a", table="t", unavailable_value_placeholder="hex:"), "pairs of hexadecimal digits"),
        (lambda: TableLayout(target_file_size="half"), "must be a size such as '128MB'"),
        (lambda: TableLayout(partition_by="days(at)"), r"TableLayout\.partition_by must be a list of columns or"),
        (lambda: table_layout({"partitions": ["a"]}), r"create has no \['partitions'\]; it takes partition_by"),
        (
            lambda: schema_contract("none"),
            "must be one of 'evolve', 'freeze', 'quarantine', 'discard_value', got 'none'",
        ),
        (lambda: PartialUpdate({"{{ column }}": ["a"]}), "names are not templated, only what they map to"),
    ],
)
def test_what_cannot_be_is_refused_when_the_object_is_made(make: Any, said: str) -> None:
    with pytest.raises(InvalidSpecError, match=said):
        make()


@pytest.mark.parametrize(
    "value",
    ["{{ ds }}", "{% if x %}", Reference(), ["a", "{{ ds }}"], {"a": Reference()}, Files("{{ ds }}.csv"), ("{#x#}",)],
    ids=repr,
)
def test_templates_and_references_are_open_however_deep(value: Any) -> None:
    assert is_open(value)


@pytest.mark.parametrize(
    "value", ["in/{a,b}.csv", None, 5, True, PurePosixPath("a"), Files("a.csv"), {"a": "b"}], ids=repr
)
def test_what_is_known_is_not_open(value: Any) -> None:
    assert not is_open(value)


def test_an_open_field_waits_and_the_others_do_not() -> None:
    waiting = Files("{{ path }}")
    assert waiting.format is None
    assert replace(waiting, path="in/*.csv").format == "csv"
    with pytest.raises(InvalidSpecError, match="got 'xlsx'"):
        Files("{{ path }}", format="xlsx")
    with pytest.raises(InvalidSpecError, match="bloom filters"):
        TableLayout(sort_by=["{{ column }}"], bloom_filter_columns=["id"], file_format="orc")


def test_rendering_makes_another_object_which_is_checked_before_the_spec() -> None:
    written = Query("SELECT * FROM source", over=Files(Reference(), options={"sep": "{{ sep }}"}))  # type: ignore[arg-type]  # a reference

    def render(value: Any) -> Any:
        if isinstance(value, AuthorObject):
            return value.rendered(render)
        if isinstance(value, dict):
            return {name: render(item) for name, item in value.items()}
        return value.resolve({}) if isinstance(value, Reference) else str(value).replace("{{ sep }}", ";")

    rendered = written.rendered(render)
    assert rendered is not written
    assert is_open(written)
    assert rendered.checked() == Query("SELECT * FROM source", over=Files("in/resolved.csv", options={"sep": ";"}))
    wrong = Files("{{ path }}").rendered(lambda _: 5)
    with pytest.raises(InvalidSpecError, match=r"Files\.path must be a text, got 5"):
        wrong.checked()


def test_a_rendered_text_with_braces_is_data() -> None:
    assert Files("in/{{ ds }}.csv").checked().format == "csv"
    with pytest.raises(InvalidSpecError, match=r"got 'x\{\{y\}\}'"):
        Debezium("a", table="t", ordering="x{{y}}").checked()


def test_an_object_of_another_version_is_refused_in_words() -> None:
    for hint, text in (
        (Source, '{"type":"kafka"}'),
        (MergeEngine, "{}"),
        (Source, '{"type":"files","path":"a","x":1}'),
    ):
        with pytest.raises(InvalidSpecError, match="driver and worker differ in version"):
            from_json(hint, text)


@settings(deadline=None)
@given(st.timedeltas(timedelta(microseconds=1), timedelta(days=36_000)))
def test_any_duration_is_the_same_after_json(age: timedelta) -> None:
    events = Debezium("a", table="t", tombstone_retention=age)
    assert from_json(Source, to_json(events)) == events
