"""Change events in Avro of a real broker, applied as the driver does and compared with the table of the source."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.debezium_topic import DebeziumTopic
from airflow_lake_provider.contracts.errors import BadInputError
from tests.spark.sources.debezium.event_writer import PLACEHOLDER
from tests.spark.sources.kafka.schema_registry import encoded, framed, record, schema_registry
from tests.spark.sources.kafka.topic_writer import Cluster
from tests.spark.sources.session_settings import given
from tests.spark.upsert_flow import NewFlow

PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}
SCHEMA = "id INT, n INT, note STRING"
DECIMAL = "org.apache.kafka.connect.data.Decimal"


def events(name: str, **arguments: Any) -> DebeziumTopic:
    return DebeziumTopic("kafka", name, **{"table": "public.items", "schema": SCHEMA, **arguments})


VARIABLE: dict[str, Any] = {
    **record("VariableScaleDecimal", scale="int", value="bytes"),
    "namespace": "io.debezium.data",
    "connect.name": "io.debezium.data.VariableScaleDecimal",
}
ROW = record(
    "Value",
    id="int",
    price={"type": "bytes", "scale": 2, "precision": 9, "logicalType": "decimal"},
    total=["null", {"type": "bytes", "connect.name": DECIMAL, "connect.parameters": {"scale": "2"}}],
    share=["null", VARIABLE],
    other=["null", "io.debezium.data.VariableScaleDecimal"],
    day={"type": "int", "connect.name": "io.debezium.time.Date"},
    at={"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"},
    seen={"type": "long", "logicalType": "timestamp-millis"},
    raw="bytes",
    weight="double",
    big="long",
    ok="boolean",
    tags={"type": "array", "items": ["null", "string"]},
    note=["null", "string"],
)
ENVELOPE = record(
    "Envelope",
    before=["null", ROW],
    after=["null", "Value"],
    source=record("Source", schema="string", table="string", sequence=["null", "string"], ts_ms="long"),
    op="string",
)
KEY = record("Key", id="int")
FULL: dict[str, Any] = {
    "id": 1,
    "price": (-1234).to_bytes(2, signed=True),
    "total": (10**9).to_bytes(5),
    "share": {"scale": 4, "value": (12345).to_bytes(2)},
    "other": {"scale": 0, "value": b"\x07"},
    "day": 19_000,
    "at": 1_700_000_000_123_456,
    "seen": 1_700_000_000_123,
    "raw": b"\x00\xff",
    "weight": 0.1,
    "big": -(2**63),
    "ok": True,
    "tags": ["a", None, '"'],
    "note": PLACEHOLDER,
}


def of_avro(op: str, row: dict[str, Any], at: int) -> tuple[Any, ...]:
    source = {"schema": "public", "table": "items", "sequence": f'["{at - 1}","{at}"]', "ts_ms": 1_760_000_000_000 + at}
    event = {"before": row if op == "d" else None, "after": None if op == "d" else row, "source": source, "op": op}
    return 0, framed(3, encoded(KEY, row)), framed(300, encoded(ENVELOPE, event))


def test_events_of_avro_have_the_values_of_their_schema(cluster: Cluster, new_flow: NewFlow) -> None:
    flow = new_flow(**PLAIN)
    cluster.make("framed")
    created = {**FULL, "note": "long"}
    cluster.send("framed", of_avro("c", created, 10), of_avro("c", {**created, "id": 2}, 20), of_avro("u", FULL, 30))
    cluster.send("framed", of_avro("d", {**created, "id": 2}, 40), (0, framed(3, encoded(KEY, {"id": 2})), None))
    with (
        schema_registry({3: KEY, 300: ENVELOPE}, {}) as access,
        given(cluster.spark, access.to_settings("registry")),
    ):
        source = replace(events("framed", schema="share DECIMAL(9,4), other DECIMAL(9,4)"), registry="registry")
        flow.apply("run 1", source=source)
        (row,) = flow.records()
        assert row == {
            "id": 1,
            "price": Decimal("-12.34"),
            "total": Decimal("10000000.00"),
            "share": Decimal("1.2345"),
            "other": Decimal("7.0000"),
            "day": date(2022, 1, 8),
            "at": datetime.fromisoformat("2023-11-14T22:13:20.123456"),
            "seen": datetime.fromisoformat("2023-11-14T22:13:20.123"),
            "raw": b"\x00\xff",
            "weight": 0.1,
            "big": -(2**63),
            "ok": True,
            "tags": ["a", None, '"'],
            # What the update left out.
            "note": "long",
        }
        key, value = of_avro("u", FULL, 50)[1:]
        for bad in [(0, key, b"not framed"), (0, key, value[:40]), (0, b"1", value)]:
            cluster.send("framed", bad)
        with pytest.raises(BadInputError, match=r"3 lines are no .*first is offset 5 of partition 0"):
            flow.apply("run 2", source=source)
