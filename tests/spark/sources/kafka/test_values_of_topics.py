"""Values, keys and headers of the records of a real broker, each right or named with its place."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.errors import (
    BadInputError,
)
from airflow_lake_provider.spark_jobs.sources.base import open_source
from airflow_lake_provider.spark_jobs.sources.kafka.source import KafkaSource
from airflow_lake_provider.spark_jobs.sql.older_pyspark import to_arrow
from tests.spark.append_flow import append
from tests.spark.sources.kafka.topic_writer import Cluster, rows, topic
from tests.spark.upsert_flow import NewFlow

PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}


# A value, and what is wrong with it.
BAD = [
    (b'{"id": 1', "no JSON"),
    (b'{"id": "x"}', "no JSON, or has a field that its type does not hold"),
    (b'{"id": 1} {"id": 2}', "more than one value"),
    (b'{"id": 1, "name": "\xff"}', "no JSON object in UTF-8"),
    (b'{"total": 1.005}', "a value that its type does not hold, in total"),
    (b'{"at": "2024-01-02T10:00:00.1234567Z"}', "a value that its type does not hold, in at"),
    (b'{"name": "\\ud800"}', "half of a surrogate pair"),
    (b"", "no JSON object"),
    (b"null", "no JSON object"),
    (b'[{"id": 1}]', "no JSON object"),
    (b'\t[{"id": 1}]', "no JSON object"),
    (b"\n\t", "no JSON object"),
    (None, "a record without a value"),
]
GOOD = [
    (b'{"id": 1, "name": "\xc3\xa9 {}", "total": 1.50, "at": "2024-01-02T10:00:00Z", "other": 1}', 1),
    (b' {"id":9223372036854775807,"tags":["a"]}\n', 2**63 - 1),
    (b"{}", None),
    (b'\n\t\r {"id": 5}\r\n', 5),
]


def test_a_value_is_right_or_named_with_partition_and_offset(cluster: Cluster, new_flow: NewFlow) -> None:
    cluster.make("values")
    cluster.send("values", *((0, None, value) for value, _ in [*GOOD, *BAD]))
    source = topic("values", schema="id BIGINT, name STRING, total DECIMAL(9,2), at TIMESTAMP, tags ARRAY<STRING>")
    read = new_flow(**PLAIN).spec(source=source)
    opened = open_source(cluster.spark, read)
    assert isinstance(opened, KafkaSource)
    batch = opened.raw(opened.list(), None)
    found = to_arrow(batch.rows).to_pylist()
    assert [row["id"] for row in found[: len(GOOD)]] == [number for _, number in GOOD]
    assert found[0]["name"] == "é {}"
    assert str(found[0]["total"]) == "1.50"
    assert [row["_lake_unparsable"] for row in found[: len(GOOD)]] == [None] * len(GOOD)
    for place, (_, fault) in enumerate(BAD, start=len(GOOD)):
        said = found[place]["_lake_unparsable"]
        assert said is not None, place
        assert said.startswith(f"partition 0, offset {place}: ")
        assert fault in said
    with pytest.raises(BadInputError, match=rf"{len(BAD)} records of topic values cannot be read: partition 0, offset"):
        append(new_flow(), "run 1", source=source)


def test_keys_are_exact_and_bytes_are_taken_as_they_are(cluster: Cluster, new_flow: NewFlow) -> None:
    flow = new_flow(keys=("id",), **PLAIN)
    cluster.make("bytes")
    cluster.send("bytes", (0, "1", b"\x00"), (0, "2", b"a"), (0, "2", b"\xff"), (0, "1", None))
    source = KafkaTopic("kafka", "bytes", value_format="binary", key_schema="id BIGINT")
    flow.apply(source=source)
    assert rows(flow) == [(2, b"\xff")]
    for key in ("x", "1.5", None, b"\xff", ""):
        cluster.send("bytes", (0, key, b"b"))
    faults = "type does not hold, in id; .*type does not hold, in id; .*a record without a key, and 2 others"
    with pytest.raises(BadInputError, match=f"5 records of topic bytes cannot be read: .*offset 4: .*{faults}"):
        flow.apply("run 2", source=source)
    # What is deleted has to be found by its key.
    with pytest.raises(BadInputError, match=r"3 records of topic bytes.*offset 3: a record without a value"):
        new_flow(**PLAIN).apply(source=replace(source, key_schema="other STRING", name="s"), keys=("other", "value"))


def test_key_headers_and_place_become_columns(cluster: Cluster, new_flow: NewFlow) -> None:
    flow = new_flow()
    cluster.make("placed")
    cluster.send(
        "placed", (0, {"id": 7, "region": "eu"}, {"name": "a", "id": 1}, {"trace": b"\x00\xff"}), (0, "{}", None)
    )
    every = ["key", "partition", "offset", "timestamp", "headers"]
    keyed = {"key_schema": "id BIGINT, region STRING", "key_format": "json", "tombstones": "skip"}
    append(flow, "run 1", source=topic("placed", metadata_columns=every, **keyed))
    (row,) = flow.records()
    assert (row["id"], row["region"], row["name"]) == (7, "eu", "a")
    assert (row["kafka_key"], row["kafka_partition"], row["kafka_offset"]) == ('{"id": 7, "region": "eu"}', 0, 0)
    assert row["kafka_headers"] == [{"key": "trace", "value": b"\x00\xff"}]
    assert abs(row["kafka_timestamp"].timestamp() - time.time()) < 600
