"""Schemas of writers beside the latest one: no value of a field that the latest one lacks is lost without a word."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.sources.kafka.avro_values import with_lost_fields

ADDRESS = {"type": "record", "name": "shop.Address", "fields": [{"name": "city", "type": "string"}]}
OLDER = {**ADDRESS, "fields": [*ADDRESS["fields"], {"name": "zip", "type": "string"}]}
RENAMED = {**ADDRESS, "fields": [*ADDRESS["fields"], {"name": "code", "aliases": ["zip"], "type": "string"}]}
OTHER = {"type": "record", "name": "shop.Other", "fields": []}


def order(**fields: Any) -> dict[str, Any]:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "Order", "fields": listed}


def test_fields_of_writers_are_kept_beside_those_of_the_latest_schema() -> None:
    latest, older = order(id="long"), order(id="int", note="string", tags={"type": "array", "items": "string"})
    assert with_lost_fields(latest, {1: older})["fields"][1:] == [
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": ["null", {"type": "array", "items": "string"}], "default": None},
    ]


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (order(a=OLDER), order(a=ADDRESS)),
        (order(a=["null", OLDER]), order(a=["null", OTHER, ADDRESS])),
        (order(a={"type": "array", "items": OLDER}), order(a={"type": "array", "items": ["null", ADDRESS]})),
        (order(a={"type": "map", "values": OLDER}), order(a={"type": "map", "values": ADDRESS})),
        (order(b=OLDER, a="shop.Address"), order(b=OLDER, a={**ADDRESS, "name": "Short"})),
    ],
)
def test_a_field_that_the_latest_schema_lacks_inside_another_one_is_refused(writer: Any, reader: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"schema 7 has a\.zip, which the latest one lacks inside of 'a'"):
        with_lost_fields(reader, {7: writer})
    # The other way round it has its default, or the value cannot be decoded.
    assert with_lost_fields(writer, {7: reader}) == writer


def test_a_field_that_the_latest_schema_has_under_a_new_name_is_no_second_column() -> None:
    latest = order(id="long", code="string", a=ADDRESS)
    latest["fields"][1]["aliases"] = ["zip"]
    latest["fields"][2]["aliases"] = ["place"]
    assert with_lost_fields(latest, {1: order(id="long", zip="string", place=ADDRESS)}) == latest
    with pytest.raises(UnsupportedError, match=r"schema 7 has place\.zip, which the latest one lacks"):
        with_lost_fields(latest, {7: order(place=OLDER)})


def test_a_field_by_another_name_and_a_record_inside_itself_are_no_loss() -> None:
    assert with_lost_fields(order(a=RENAMED), {1: order(a=OLDER)}) == order(a=RENAMED)
    node = order(next={"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]})
    assert with_lost_fields(node, {1: node}) == node
