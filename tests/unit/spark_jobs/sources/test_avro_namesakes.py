"""Types of Avro with one simple name in two namespaces: each is itself, wherever it is meant."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.avro_events import connect_fields
from airflow_lake_provider.spark_jobs.sources.kafka.avro_units import with_units_of
from airflow_lake_provider.spark_jobs.sources.kafka.avro_values import with_lost_fields
from airflow_lake_provider.spark_jobs.sources.kafka.framed_avro import Schema, record_schema


def record(name: str, namespace: str | None = None, **fields: Any) -> dict[str, Any]:
    listed = [{"name": each, "type": kind} for each, kind in fields.items()]
    return {"type": "record", "name": name, **({"namespace": namespace} if namespace else {}), "fields": listed}


def decimal_of(scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": scale}


def as_read(schema: Any) -> Schema:
    return record_schema(json.dumps(schema), "a schema")


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
TWO_TIMES = record("Order", created=record("Time", "com.a", at=MILLIS), updated=record("Time", "com.b", at=MICROS))
TWO_SCALES = record(
    "Order", net=record("Money", "com.a", sum=decimal_of(2)), rate=record("Money", "com.b", sum=decimal_of(4))
)
# Of a name without a dot, the namespace is that of the record around it.
INHERITED = record(
    "Order",
    "com.a",
    created=record("Time", at=MILLIS),
    updated=record("com.b.Box", inner=record("Time", at=MICROS), again="Time"),
    last=["null", "Time"],
)
IN_A_UNION = record("Order", at=["null", record("Time", "com.a", at=MILLIS), record("Time", "com.b", at=MICROS)])
BY_REFERENCE = record("Order", **{name: TWO_TIMES["fields"][i]["type"] for i, name in enumerate("ab")})
BY_REFERENCE["fields"] += [{"name": "c", "type": ["null", "com.a.Time", "com.b.Time"]}]


@pytest.mark.parametrize("schema", [TWO_TIMES, TWO_SCALES, INHERITED, IN_A_UNION, BY_REFERENCE])
def test_a_schema_is_in_its_own_units(schema: Any) -> None:
    read = as_read(schema)
    assert with_units_of(read, read, 1) == read
    assert with_lost_fields(read, {1: read}) == read


def test_the_units_are_those_of_the_namesake_that_the_writer_has_there() -> None:
    both = record("Order", created=record("Time", "com.a", at=MICROS), updated=record("Time", "com.b", at=MICROS))
    assert with_units_of(TWO_TIMES, both, 1) == TWO_TIMES


def test_a_type_of_another_namespace_is_the_same_where_it_is_alone() -> None:
    def moved(name: str, unit: Any) -> Any:
        return record("Order", at=["null", record(name, at=unit)])

    assert with_units_of(moved("v1.Time", MILLIS), moved("v2.Time", MICROS), 1) == moved("v2.Time", MILLIS)


def test_a_union_of_records_has_each_in_the_units_of_its_own() -> None:
    branches = [record("Net", sum=decimal_of(2)), record("Rate", sum=decimal_of(4))]
    older, latest = record("Order", v=["null", branches[0]]), record("Order", v=["null", *branches])
    assert with_units_of(older, latest, 1) == latest


@pytest.mark.parametrize(
    "new",
    [
        lambda meta: ["null", meta],
        lambda meta: {"type": "array", "items": meta},
        lambda meta: ["null", record("Wrapper", inner={"type": "map", "values": ["null", meta]})],
    ],
)
def test_a_type_that_is_defined_in_a_field_without_a_writer_has_the_units_of_its_later_places(new: Any) -> None:
    def latest(unit: Any) -> Any:
        return record("Order", a=new(record("Meta", "com.a", ts=unit)), b="com.a.Meta")

    older = record("Order", b=record("Meta", "com.a", ts=MILLIS))
    assert with_units_of(older, latest(MICROS), 1) == latest(MILLIS)
    # Its namespace may be another one.
    assert with_units_of(record("Order", b=record("Meta", "v0", ts=MILLIS)), latest(MICROS), 1) == latest(MILLIS)
    # What the writer has no type for is as it is.
    assert with_units_of(record("Order", c=record("Other", ts=MILLIS)), latest(MICROS), 1) == latest(MICROS)


def test_a_type_in_a_branch_that_the_writer_lacks_has_the_units_of_its_later_places() -> None:
    def latest(unit: Any) -> Any:
        return record("Order", a=["null", "string", record("Meta", ts=unit)], b=["null", "Meta"])

    older = record("Order", a=["null", "string"], b=["null", record("Meta", ts=MILLIS)])
    assert with_units_of(older, latest(MICROS), 1) == latest(MILLIS)


def test_names_are_resolved_as_avro_does() -> None:
    fields = as_read(INHERITED)["fields"]
    assert fields[0]["type"]["namespace"] == "com.a"
    assert [each["type"] for each in fields[1]["type"]["fields"]][1] == "com.b.Time"
    assert fields[2]["type"] == ["null", "com.a.Time"]
    # What the namespace lacks may be of none.
    plain = record("Order", a=record("Time", at=MILLIS), b=record("com.b.Box", inner="Time", text="string"))
    assert as_read(plain) == plain


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "record", "name": "r", "fields": [{"name": "a"}]}, "a type lacks 'type'"),
        ({"type": "record", "name": "r"}, "a type lacks 'fields'"),
        (record("r", a={"type": "enum", "symbols": ["x"]}), "a type lacks 'name'"),
        (record("r", a=None), "a part of it is no type"),
        ({"type": "record", "name": "r", "fields": ["a"]}, "a part of it is no type"),
        ({"type": "record", "name": 3, "fields": []}, "a part of it is no type"),
    ],
)
def test_what_is_no_schema_is_refused_with_what_it_lacks(schema: Any, says: str) -> None:
    with pytest.raises(UnsupportedError, match=f"^a schema is no schema of Avro, as {says}: "):
        as_read(schema)


def test_a_field_that_a_namesake_has_is_lost_in_the_other() -> None:
    street, vat = {"street": "string"}, {"vat": "string"}
    ship = record("Address", "com.b", **street)
    writer = record("Order", bill=record("Address", "com.a", **street, **vat), ship=ship)
    latest = record("Order", bill=record("Address", "com.a", **street), ship=ship)
    with pytest.raises(UnsupportedError, match=r"schema 7 has bill\.vat, which the latest one lacks inside of 'bill'"):
        with_lost_fields(latest, {7: writer})
    inside = record("Order", bill=["null", record("Address", "com.a", next=["null", ship], **street)])
    deeper = record("Order", bill=["null", record("Address", "com.a", next=["null", {**ship, "fields": []}], **street)])
    with pytest.raises(UnsupportedError, match=r"bill\.next\.street"):
        with_lost_fields(deeper, {7: inside})


def test_a_lost_field_means_the_type_that_the_latest_schema_has_by_that_name() -> None:
    def order(namespace: str, **more: Any) -> Schema:
        return as_read(record("Order", namespace, a=record("Meta", id="long"), **more))

    listed = {"type": "array", "items": ["null", "Meta"]}
    for namespace, meant in (("com.a", "com.a.Meta"), ("com.b", "com.b.Meta")):
        (*_, field) = with_lost_fields(order(namespace), {1: order("com.a", b=listed)})["fields"]
        assert field["type"] == ["null", {"type": "array", "items": ["null", meant]}]
    two = as_read(record("Order", a=record("com.b.Meta", id="long"), c=record("com.c.Meta", id="long")))
    with pytest.raises(UnsupportedError, match=r"schema 1 has the field 'b', .* its type has a name, com\.a\.Meta"):
        with_lost_fields(two, {1: order("com.a", b="Meta", c="Meta")})
    with pytest.raises(UnsupportedError, match="its type has a name, Kind"):
        with_lost_fields(two, {1: record("Order", k={"type": {"type": "enum", "name": "Kind", "symbols": ["x"]}})})


def test_the_row_of_an_event_is_that_of_its_own_namespace() -> None:
    envelope = record(
        "Envelope",
        "shop.orders",
        before=["null", record("Value", id="long")],
        after=["null", "Value"],
        source=record("Value", "io.debezium", version="string"),
    )
    (after,) = connect_fields(as_read(envelope))
    assert after == {"field": "after", "fields": [{"field": "id", "type": "int64"}]}
