"""Topics of Avro of a real broker, with a registry's schemas or one of their own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.errors import BadInputError
from tests.spark.append_flow import append
from tests.spark.sources.kafka.schema_registry import encoded, framed, record, schema_registry
from tests.spark.sources.kafka.topic_writer import Cluster
from tests.spark.sources.session_settings import given
from tests.spark.upsert_flow import NewFlow

V1 = record("Order", id="long", name="string")
V2 = record("Order", id="long", name="string", amount=["null", "long"])
OLDER = record("Order", id="long", name="string", note="string")
RENAMED = record("Order", id="long", title="string")
REFUND = record("Refund", id="long", name="string")
RENAMED["fields"][1]["aliases"] = ["name"]


def test_avro_is_decoded_with_the_schema_of_each_writer(cluster: Cluster, new_flow: NewFlow) -> None:
    flow = new_flow()
    cluster.make("avro")
    values = [
        framed(1, encoded(V1, {"id": 1, "name": "é"})),
        framed(300, encoded(V2, {"id": -(2**63), "name": "", "amount": 5})),
        framed(7, encoded(OLDER, {"id": 3, "name": "c", "note": "of a field that is gone"})),
    ]
    # More than a sample of the last ones has.
    cluster.send("avro", *((0, None, value) for value in [*values, *[values[1]] * 60]))
    with (
        schema_registry({1: V1, 300: V2, 7: OLDER}, {"avro-value": 300}) as access,
        given(cluster.spark, access.to_settings("registry")),
    ):
        source = KafkaTopic("kafka", "avro", value_format="avro", registry="registry")
        append(flow, "run 1", source=source)
        added = sorted((tuple(row.values()) for row in flow.records()), key=lambda row: row[0])
        assert added == [
            *[(-(2**63), "", 5, None)] * 61,
            (1, "é", None, None),
            (3, "c", None, "of a field that is gone"),
        ]
        bad = [encoded(V1, {"id": 1, "name": "not framed"}), framed(2**31, b""), framed(1, b"\x02\x40cut"), b""]
        cluster.send("avro", *((0, None, value) for value in bad))
        without: dict[str, Any] = {"schema_contract": SchemaContract(missing_columns="null")}
        with pytest.raises(BadInputError, match="4 records of topic avro") as caught:
            append(flow, "run 2", source=source, **without)
        for place, fault in enumerate(["does not begin with the id", "does not begin with the id", "does not fit"], 63):
            assert f"partition 0, offset {place}: a value that" in str(caught.value)
            assert fault in str(caught.value)
        cluster.send("avro", (0, None, framed(9, b"\x02")))
        with pytest.raises(BadInputError, match=r"http://127.0.0.1:\d+ has no schema 9"):
            append(flow, "run 3", source=source, **without)
    cluster.make("bare")
    cluster.send("bare", (0, "4", encoded(V2, {"id": 4, "name": "d", "amount": None})))
    # A column of the key that the value has, too, is that of the key.
    bare = KafkaTopic("kafka", "bare", value_format="avro", schema=json.dumps(V2), key_schema="ID BIGINT")
    flow = new_flow()
    flow = replace(flow, table=f"{flow.table}_bare")
    append(flow, "run 1", source=bare)
    assert [tuple(row.values()) for row in flow.records()] == [(4, "d", None)]


def test_a_field_of_avro_that_was_renamed_has_the_values_of_older_records(cluster: Cluster, new_flow: NewFlow) -> None:
    flow = new_flow()
    cluster.make("renamed")
    cluster.send("renamed", (0, None, framed(1, encoded(V1, {"id": 1, "name": "é"}))))
    with (
        # As RecordNameStrategy names it.
        schema_registry({1: V1, 2: RENAMED, 3: REFUND}, {"shop.Order": 2}) as access,
        given(cluster.spark, access.to_settings("registry")),
    ):
        source = KafkaTopic("kafka", "renamed", value_format="avro", registry="registry")
        with pytest.raises(BadInputError, match=r"has no subject renamed-value.* subject='<namespace>\.<record>'"):
            append(flow, "run 1", source=source)
        source = replace(source, subject="shop.Order")
        append(flow, "run 2", source=source)
        # Avro would read it as an order: it looks at the names of fields alone.
        cluster.send("renamed", (0, None, framed(3, encoded(REFUND, {"id": 2, "name": "of another record"}))))
        with pytest.raises(BadInputError, match="offset 1: a value of another record than that of the subject"):
            append(flow, "run 3", source=source)
    assert flow.records() == [{"id": 1, "title": "é"}]
