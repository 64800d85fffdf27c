"""Orders of a topic of Protobuf as rows, by a function of the author's over the bytes."""

from __future__ import annotations

# [START function]
from collections.abc import Iterable, Iterator
from datetime import UTC
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

COLUMNS = pa.schema(
    {
        # A uint64 fits no BIGINT.
        "id": pa.decimal128(20, 0),
        "status": pa.string(),
        "at": pa.timestamp("us", "UTC"),
        "tags": pa.list_(pa.string()),
        "prices": pa.map_(pa.string(), pa.int64()),
        "note": pa.string(),
    }
)


def orders(spark: SparkSession, inputs: dict[str, DataFrame], params: dict[str, Any]) -> DataFrame:
    descriptors = Path(params["descriptors"]).read_bytes()
    return inputs["records"].mapInArrow(partial(decoded, descriptors, params["message"]), from_arrow_schema(COLUMNS))


def decoded(descriptors: bytes, message: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    kind = GetMessageClass(pool.FindMessageTypeByName(message))
    for batch in batches:
        rows = [row_at(kind, record) for record in batch.to_pylist()]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=COLUMNS)


def row_at(kind: type[Message], record: dict[str, Any]) -> dict[str, Any]:
    try:
        return row_of(kind.FromString(payload(record["value"])))
    except (DecodeError, ValueError) as error:
        place = f"partition {record['kafka_partition']}, offset {record['kafka_offset']}"
        raise ValueError(f"{place}: {error}") from error


def payload(value: bytes | None) -> bytes:
    """Cut what a serializer with a registry writes first; no message begins with a byte of zero."""
    if value is None:
        raise ValueError("a record without a value")
    if value[:1] != b"\0":
        return value
    # The id of the schema, and the place of the message in its file, where zero is the first.
    if value[5:6] != b"\0":
        raise ValueError("another message than the first of its file")
    return value[6:]


def row_of(order: Any) -> dict[str, Any]:
    # Of another message, or of a newer version, which the descriptors lack.
    if len(UnknownFieldSet(order)) > 0:
        raise ValueError("fields that the descriptor lacks")
    status = order.DESCRIPTOR.fields_by_name["status"].enum_type.values_by_number.get(order.status)
    if status is None:
        raise ValueError(f"status has no name for {order.status}")
    if order.at.nanos % 1_000:
        raise ValueError("a time with nanoseconds")
    return {
        "id": Decimal(order.id),
        "status": status.name,
        "at": order.at.ToDatetime(UTC) if order.HasField("at") else None,
        "tags": list(order.tags),
        "prices": list(order.prices.items()),
        # Of a oneof, or optional: what was not set is NULL. Other fields have their default.
        "note": order.note if order.HasField("note") else None,
    }


# [END function]
