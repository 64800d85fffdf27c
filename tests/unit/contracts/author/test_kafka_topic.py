"""A Kafka topic as authors give it: what is refused before Spark starts, and what a driver is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate, History
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import source
from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError, UnsupportedError
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec

ORDERS = KafkaTopic("kafka", "orders", schema="id BIGINT", name="s")
AVRO = json.dumps({"type": "record", "name": "o", "fields": [{"name": "id", "type": "long"}]})
MESSAGE: dict[str, Any] = {"value_format": "protobuf", "descriptors": "shop.desc", "message": "shop.Order"}
RUN = RunIdentity.of("dag", "run", "task", "-1")
LAKE: dict[str, Any] = {"catalog": "lake_default", "table": "shop.orders", "run": RUN}


def test_a_mapping_gives_what_the_class_gives() -> None:
    given = {"type": "kafka-topic", "connection": "kafka", "topic": "orders", "schema": "id BIGINT", "name": "s"}
    assert source(given) == ORDERS
    assert ORDERS.connections == Query("SELECT 1", over={"a": KafkaTopic("kafka", "o", schema="id INT")}).connections
    avro = KafkaTopic("kafka", "orders", value_format="avro", registry="registry")
    assert avro.connections == {"kafka": "kafka", "registry": "registry"}
    assert KafkaTopic("kafka", "orders", **{**MESSAGE, "descriptors": Path("a/b.desc")}).descriptors == "a/b.desc"
    assert "descriptors" not in AppendSpec(**LAKE, source=ORDERS).digest_text()
    open_values = KafkaTopic("kafka", "orders", **{**MESSAGE, "value_format": "{{ params.format }}"})
    with pytest.raises(InvalidSpecError, match="with value_format='protobuf' only"):
        replace(open_values, value_format="json", schema="id INT")
    named = [replace(avro, subject=subject) for subject in (None, "orders-value", "shop.Order")]
    assert [(topic.subject_of_values, topic.names_subject_by_topic) for topic in named] == [
        ("orders-value", True),
        ("orders-value", True),
        ("shop.Order", False),
    ]
    rendered: Any = "5"
    later = KafkaTopic("kafka", "orders", schema="id BIGINT", starting="2026-11-27T07:00+01:00", max_records=rendered)
    assert (later.starting, later.max_records) == ("2026-11-27T06:00:00+00:00", 5)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({}, InvalidSpecError, "of JSON takes schema, the fields to read as DDL"),
        ({"schema": "id BIGINT", "registry": "r"}, InvalidSpecError, "and no registry"),
        ({"schema": "id BIGINT NOT"}, InvalidSpecError, "KafkaTopic.schema"),
        ({"value_format": "avro"}, InvalidSpecError, "takes either registry, or schema"),
        ({"value_format": "avro", "registry": "r", "schema": AVRO}, InvalidSpecError, "takes either registry"),
        ({"value_format": "avro", "schema": "id BIGINT"}, InvalidSpecError, "is no schema of Avro"),
        ({"value_format": "avro", "schema": '"long"'}, InvalidSpecError, "must be a record of Avro"),
        ({"value_format": "avro", "schema": AVRO, "subject": "o"}, InvalidSpecError, "subject is a name in a registry"),
        ({"value_format": "binary", "schema": "id INT"}, InvalidSpecError, "has one column, value"),
        ({"value_format": "protobuf"}, InvalidSpecError, "takes descriptors, a file of protoc's, and message"),
        ({"value_format": "protobuf", "message": "shop.Order"}, InvalidSpecError, "got descriptors=None"),
        ({**MESSAGE, "schema": "id INT"}, InvalidSpecError, "and no schema and registry"),
        ({**MESSAGE, "registry": "r"}, InvalidSpecError, "and no schema and registry"),
        ({**MESSAGE, "value_format": "avro", "registry": "r"}, InvalidSpecError, "with value_format='protobuf' only"),
        ({"schema": "id INT", "message": "shop.Order"}, InvalidSpecError, "with value_format='protobuf' only"),
        ({"value_format": "debezium"}, InvalidSpecError, "DebeziumTopic.* applies them in an upsert"),
        ({"value_format": "text"}, InvalidSpecError, "must be one of 'json', 'avro', 'protobuf', 'binary'"),
        ({"schema": "id INT", "key_format": "avro"}, InvalidSpecError, "must be one of 'text', 'json'"),
        ({"schema": "id INT", "metadata_columns": ["ofset"]}, InvalidSpecError, "did you mean 'offset'"),
        ({"schema": "id INT", "metadata_columns": ["key", "key"]}, InvalidSpecError, "has a column twice"),
        ({"schema": "id INT", "starting": "latest"}, InvalidSpecError, "must be 'earliest' or a time with a zone"),
        ({"schema": "id INT", "starting": "2026-11-27T06:00:00"}, InvalidSpecError, "zone"),
        ({"schema": "id INT", "on_gap": "ignore"}, InvalidSpecError, "on_gap"),
        ({"schema": "id INT", "max_records": 0}, InvalidSpecError, "must be at least 1"),
        ({"schema": "id INT", "catch_up": True}, InvalidSpecError, "goes on after each max_records; give that"),
    ],
)
def test_what_says_no_columns_or_two_is_refused(
    given: dict[str, Any], error: type[LakeProviderError], says: str
) -> None:
    with pytest.raises(error, match=says):
        KafkaTopic("kafka", "orders", **given)


def test_loads_that_take_the_whole_of_a_source_are_refused() -> None:
    few = KafkaTopic("kafka", "orders", schema="id BIGINT", name="s", max_records=5)
    AppendSpec(**LAKE, source=few)
    with pytest.raises(InvalidSpecError, match="complete=True takes a source that has all"):
        UpsertSpec(**LAKE, source=ORDERS, keys=("id",), is_complete=True)
    with pytest.raises(InvalidSpecError, match="overwrite of partitions reads all of a source each time"):
        OverwritePartitionsSpec(**LAKE, source=ORDERS)
    with pytest.raises(InvalidSpecError, match="leave max_records out"):
        AppendSpec(**LAKE, source=few, on_repeat=OnRepeat.APPLY)
    whole = replace(few, catch_up=True)
    assert AppendSpec(**LAKE, source=whole).digest_text() == AppendSpec(**LAKE, source=few).digest_text()
    with pytest.raises(InvalidSpecError, match="which on_repeat='fail' refuses"):
        AppendSpec(**LAKE, source=whole, on_repeat=OnRepeat.FAIL)
    below = replace(whole, name=None)
    AppendSpec(**LAKE, source=Query("SELECT 1", over={"o": below}, name="s"))
    with pytest.raises(InvalidSpecError, match="catch_up goes with one input"):
        AppendSpec(**LAKE, source=Query("SELECT 1", over={"o": below, "b": "a.parquet"}, name="s"))
    with pytest.raises(UnsupportedError, match=r"Kafka is read by Spark 4\.1"):
        ORDERS.refuse_spark("3.5")


BY_KEY = KafkaTopic(
    "kafka",
    "orders",
    schema="at TIMESTAMP",
    key_schema="id BIGINT, `Region` STRING",
    key_format="json",
    metadata_columns=["timestamp"],
    name="s",
)
SKIPPED = replace(BY_KEY, tombstones="skip")
STALE = Deduplicate(ignore_stale=True)


def test_a_branch_is_refused_also_below_a_query_as_no_position_is_kept_for_it() -> None:
    below = replace(ORDERS, name=None)
    sources = [ORDERS, Query("SELECT 1", over=below, name="s"), Query("SELECT 1", over={"o": below}, name="s")]
    for each in sources:
        with pytest.raises(InvalidSpecError, match="topic orders of connection 'kafka' does not go with branch"):
            AppendSpec(**LAKE, source=each, branch="audit")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"order_by": ("at",)}, r"has NULL in \['at'\] of order_by.*metadata_columns=\['timestamp'\]"),
        ({"order_by": ("kafka_timestamp", "kafka_offset")}, r"has NULL in \['kafka_offset'\]"),
        ({"order_by": ("at",), "merge_engine": History()}, r"no delete would count"),
        ({"order_by": ("kafka_timestamp",), "merge_engine": STALE}, "ignore_stale cannot tell a late row of a key"),
        ({"order_by": ("KAFKA_TIMESTAMP", "region")}, None),
        ({"order_by": ("kafka_timestamp",), "merge_engine": Deduplicate(ignore_stale=True, deletes="soft")}, None),
        # Without deletes a value is an order.
        ({"order_by": ("at",), "merge_engine": Deduplicate(deletes="ignore")}, None),
        ({"order_by": ("at",), "source": SKIPPED}, None),
        ({"order_by": ("at",), "source": SKIPPED, "merge_engine": STALE}, None),
        # A record without a value is refused there: its key is not that of a row.
        ({"order_by": ("at",), "keys": ("id", "at")}, None),
    ],
)
def test_an_order_in_which_each_delete_is_the_oldest_is_refused_before_spark(
    given: dict[str, Any], says: str | None
) -> None:
    asked = {**LAKE, "source": BY_KEY, "keys": ("ID",), **given}
    if says is None:
        UpsertSpec(**asked)
        return
    with pytest.raises(InvalidSpecError, match=says):
        UpsertSpec(**asked)


def test_what_a_query_over_a_topic_leaves_of_deletes_counts_for_late_rows() -> None:
    made = Query("SELECT *, _change_type FROM source", over=replace(BY_KEY, name=None), name="s")
    with pytest.raises(InvalidSpecError, match="ignore_stale cannot tell a late row"):
        UpsertSpec(**LAKE, source=made, keys=("id",), order_by=("kafka_timestamp",), merge_engine=STALE)


def test_columns_of_the_key_are_those_of_its_schema_and_not_what_is_inside_them() -> None:
    schema = "id BIGINT, `a,``b` STRUCT<x INT, y: MAP<STRING, DECIMAL(12,2)>> NOT NULL COMMENT 'c, d INT', Z STRING"
    assert replace(BY_KEY, key_schema=schema).columns_of_key == {"id", "a,`b", "z"}
    assert ORDERS.columns_of_key == frozenset()


def test_what_is_done_about_gaps_and_how_much_is_read_at_a_time_makes_no_other_source() -> None:
    given: dict[str, Any] = {"schema": "id BIGINT", "name": "s"}
    policies = KafkaTopic("kafka", "orders", on_gap="skip", max_records=9, starting="2026-01-01T00:00:00Z", **given)
    assert policies.without_policy() == ORDERS.without_policy()
