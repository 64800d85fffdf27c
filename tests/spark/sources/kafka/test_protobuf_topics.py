"""The function of the guide that decodes Protobuf, over a topic that Google's library has written."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP

from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.author.pyspark_function import PySparkFunction
from airflow_lake_provider.contracts.reports.job import Outcome
from tests.spark.append_flow import append
from tests.spark.sources.kafka.protobuf_orders import row_at
from tests.spark.sources.kafka.topic_writer import Cluster
from tests.spark.upsert_flow import NewFlow

CODE = Path(__file__).with_name("protobuf_orders.py").read_text()
PLACE = ["partition", "offset"]


def descriptors() -> FileDescriptorSet:
    """Return what ``protoc --include_imports --descriptor_set_out`` writes of a file with one message."""
    file = FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3", dependency=[TIMESTAMP.name])
    status = file.enum_type.add(name="Status")
    for number, name in enumerate(["NEW", "PAID"]):
        status.value.add(name=name, number=number)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="PricesEntry")
    entry.options.map_entry = True
    of = FieldDescriptorProto
    entry.field.add(name="key", number=1, type=of.TYPE_STRING, label=of.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=of.TYPE_UINT32, label=of.LABEL_OPTIONAL)
    order.oneof_decl.add(name="more")
    order.field.add(name="id", number=1, type=of.TYPE_UINT64, label=of.LABEL_OPTIONAL)
    order.field.add(name="status", number=2, type=of.TYPE_ENUM, type_name=".shop.Status", label=of.LABEL_OPTIONAL)
    time = ".google.protobuf.Timestamp"
    order.field.add(name="at", number=3, type=of.TYPE_MESSAGE, type_name=time, label=of.LABEL_OPTIONAL)
    order.field.add(name="tags", number=4, type=of.TYPE_STRING, label=of.LABEL_REPEATED)
    entries = ".shop.Order.PricesEntry"
    order.field.add(name="prices", number=5, type=of.TYPE_MESSAGE, type_name=entries, label=of.LABEL_REPEATED)
    order.field.add(name="note", number=6, type=of.TYPE_STRING, label=of.LABEL_OPTIONAL, oneof_index=0)
    made = FileDescriptorSet(file=[file])
    TIMESTAMP.CopyToProto(made.file.add())
    made.file.reverse()
    return made


def order_kind() -> Any:
    """Return the class of the message."""
    pool = DescriptorPool()
    for file in descriptors().file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf_is_decoded_as_googles_library_wrote_it(cluster: Cluster, new_flow: NewFlow, tmp_path: Path) -> None:
    flow, order = new_flow(), order_kind()
    full = order(id=2**64 - 1, status=1, tags=["a", ""], prices={"eur": 2**32 - 1}, note="")
    moment = datetime(2026, 11, 28, 5, 0, 0, 123_456, tzinfo=UTC)
    full.at.FromDatetime(moment)
    place = tmp_path / "orders.desc"
    place.write_bytes(descriptors().SerializeToString())
    source = PySparkFunction(
        "loads:orders",
        over={"records": KafkaTopic("kafka", "protobuf", value_format="binary", metadata_columns=PLACE)},
        params={"descriptors": str(place), "message": "shop.Order"},
        function_code=CODE,
        name="orders",
    )
    cluster.make("protobuf")
    plain, framed = full.SerializeToString(), b"\0\0\0\1\2\0" + order(id=1).SerializeToString()
    cluster.send("protobuf", (0, None, plain), (0, None, framed))
    append(flow, "run 1", source=source)
    rows = sorted(flow.records(), key=lambda row: row["id"])
    assert [dict(row, prices=dict(row["prices"])) for row in rows] == [
        {"id": 1, "status": "NEW", "at": None, "tags": [], "prices": {}, "note": None},
        {
            "id": Decimal(2**64 - 1),
            "status": "PAID",
            "at": moment,
            "tags": ["a", ""],
            "prices": {"eur": 2**32 - 1},
            "note": "",
        },
    ]
    assert append(flow, "run 2", source=source).outcome is Outcome.NOTHING_NEW


def test_a_value_that_is_none_of_the_message_is_named_with_its_place() -> None:
    order = order_kind()
    plain = order(id=5, note="a").SerializeToString()
    faults = {
        None: "a record without a value",
        plain[:-1]: "Error parsing message",
        plain + b"\x7a\x01a": "fields that the descriptor lacks",
        b"\0\0\0\1\2\2\2": "another message than the first",
        order(status=7).SerializeToString(): "status has no name for 7",
        order(at={"nanos": 1}).SerializeToString(): "a time with nanoseconds",
    }
    for value, fault in faults.items():
        with pytest.raises(ValueError, match=f"partition 3, offset 17: .*{fault}"):
            row_at(order, {"value": value, "kafka_partition": 3, "kafka_offset": 17})
