"""Keys and values of a topic that serializers of a registry have framed, without a broker."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.dead_letter import DeadLetter
from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.spark_jobs.sources.dead_letters import without_dead_letters
from airflow_lake_provider.spark_jobs.sources.kafka.avro_values import AvroValues
from airflow_lake_provider.spark_jobs.sources.kafka.records import read_records
from tests.spark.sources.kafka.schema_registry import record
from tests.spark.sources.kafka.topic_writer import add_connector

AT = datetime(2026, 11, 30, tzinfo=UTC)
OF_READER = "key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP"
VALUE = {
    "JSON Schema": (b'\0\0\0\0\x07{"id": 1}', "JSON behind the id of a schema.*kafka.connect.json.JsonConverter"),
    "an id of many bits": (b'\0\0\0\xc8\xff{"id": 1}', "JSON behind the id of a schema"),
    "Avro": (b"\0\0\0\0\x07\x02\x06abc", "a value behind the id of a schema.*value_format='avro' with registry"),
    "of an id that is a brace": (b"\0\0\0\0{\x02", "a value behind the id of a schema"),
    "a zero alone": (b"\0", "no JSON object in UTF-8"),
}


def refuse(spark: SparkSession, records: list[tuple[bytes | None, bytes | None]], **arguments: Any) -> None:
    rows = [(key, value, 0, offset, AT) for offset, (key, value) in enumerate(records)]
    source = KafkaTopic("kafka", "orders", **arguments)
    batch = read_records(source, spark.createDataFrame(rows, OF_READER), None, deletes=False, has_order=True)
    batch.refuse_unparsable(batch.rows.filter("_lake_unparsable IS NOT NULL").count())


@pytest.mark.parametrize("name", VALUE)
def test_a_value_that_is_framed_is_told_with_what_has_framed_it(spark: SparkSession, name: str) -> None:
    value, says = VALUE[name]
    with pytest.raises(BadInputError, match=rf"1 records .*offset 1: .*{says}"):
        refuse(spark, [(None, b'{"id": 1}'), (None, value)], schema="id INT")


def test_too_many_letters_are_told_with_what_has_framed_them(spark: SparkSession) -> None:
    rows = [(None, VALUE["Avro"][0], 0, 0, AT)]
    source = KafkaTopic("kafka", "orders", schema="id INT", name="orders")
    records = spark.createDataFrame(rows, OF_READER)
    batch = read_records(source, records, None, deletes=False, has_order=True, keeps_records=True)
    run = RunIdentity.of("dag", "run", "task", "-1")
    spec = AppendSpec(catalog="lake_default", table="shop.orders", run=run, source=source, dead_letter=DeadLetter())
    with pytest.raises(BadInputError, match=r"1 of 1 records .*a value behind the id of a schema: a serializer of"):
        without_dead_letters(spec, batch, (), None)


@pytest.mark.parametrize("key", [b"\0\0\0\0\7orders", b"\0\0\0\0\0\0\0\x07", b"\x1f"])
def test_a_key_of_text_that_begins_with_control_bytes_is_refused(spark: SparkSession, key: bytes) -> None:
    says = "1 records .*offset 1: a key that begins with control bytes, as behind the id of a schema.*StringConverter"
    with pytest.raises(BadInputError, match=says):
        refuse(spark, [(b" 7", b'{"id": 1}'), (key, b'{"id": 1}')], schema="id INT", key_schema="k STRING")


def test_a_key_of_json_behind_the_id_of_a_schema_is_refused(spark: SparkSession) -> None:
    keyed = {"schema": "id INT", "key_schema": "k STRING", "key_format": "json"}
    with pytest.raises(BadInputError, match="offset 0: JSON behind the id of a schema, in key"):
        refuse(spark, [(b'\0\0\0\0\7{"k": "a"}', b'{"id": 1}')], **keyed)


@pytest.mark.parametrize("key_format", ["text", "json"])
def test_values_whose_fields_are_all_in_the_key_are_put_aside_where_they_are_no_objects(
    spark: SparkSession, key_format: str
) -> None:
    key = b"7" if key_format == "text" else b'{"id": 7}'
    values = (b'{"id": 7}', b"{}", b'{"id": 7', b"poison", None)
    rows = [(key, value, 0, offset, AT) for offset, value in enumerate(values)]
    source = KafkaTopic("kafka", "orders", schema="id INT", key_schema="id INT", key_format=key_format)
    records = spark.createDataFrame(rows, OF_READER)
    batch = read_records(source, records, None, deletes=True, has_order=True, keeps_records=True)
    faults = {row["_lake_place"]["offset"]: (row["id"], row["_lake_unparsable"]) for row in batch.rows.collect()}
    batch.rows.unpersist()
    no_object = [(7, "no JSON object"), (7, "no JSON object in UTF-8")]
    assert [faults[offset] for offset in sorted(faults)] == [(7, None), (7, None), *no_object, (7, None)]


def test_a_value_of_avro_that_claims_gigabytes_is_refused_and_ends_no_driver(spark: SparkSession) -> None:
    add_connector(spark)
    lists, texts = {"type": "array", "items": "string"}, {"type": "map", "values": "string"}
    schema = json.dumps(record("Order", name="string", picture="bytes", lines=lists, notes=texts))
    claim = zigzag(1_900_000_000)
    values = [b"\x02a\x02b\x00\x00", claim + b"a", b"\x02a" + claim, b"\x02a\x02b" + claim, b"\x02a\x02b\x00" + claim]
    rows = [(None, value, 0, offset, AT) for offset, value in enumerate(values)]
    source = KafkaTopic("kafka", "orders", value_format="avro", schema=schema)
    records = spark.createDataFrame(rows, OF_READER)
    decode = AvroValues(spark, source, None).decode
    batch = read_records(source, records, decode, deletes=False, has_order=True, keeps_records=True)
    read = {row["_lake_place"]["offset"]: row for row in batch.rows.collect()}
    assert [read[0][name] for name in ("name", "picture", "lines", "notes")] == ["a", b"b", [], {}]
    assert {read[offset]["_lake_unparsable"] for offset in range(1, len(values))} == {
        "a value that its writer's schema does not fit"
    }


def zigzag(number: int) -> bytes:
    """Return a long as Avro writes it."""
    rest, written = number << 1, bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])
