"""Values of Avro behind the id of their writer's schema, as Confluent's serializers frame them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.jvm.gateway import has_class

_AVRO = "org.apache.spark.sql.avro.AvroDataToCatalyst"
# A field that every record gets by its default. What cannot be decoded has NULL in all fields, in this one too.
READ = "_lake_read"
# A byte of zero, and four of the id, which is not negative.
PREFIX_BYTES = 5
# Each has its branch in the plan of a batch.
MOST_SCHEMAS = 200
NAMED = ("record", "enum", "fixed")

Schema = Mapping[str, Any]


def refuse_without_avro(spark: SparkSession) -> None:
    """Refuse a session that does not read Avro.

    :raises UnsupportedError: Spark's Avro is none of the job's jars.
    """
    if not has_class(spark, _AVRO):
        raise UnsupportedError(
            f"{_AVRO}, which reads Avro, is in none of the job's jars; add org.apache.spark:spark-avro_2.13 in the "
            "release of your Spark to the jars of [lake] spark_jars, or to the operator's packages"
        )


def prefix_of(value: str) -> str:
    """Return SQL of the bytes before a value that tell its schema; NULL where they are none."""
    # Bytes compare without a sign. To make a number of them would cost each record more than to decode some columns.
    is_framed = f"octet_length({value}) >= {PREFIX_BYTES} AND substring({value}, 1, 2) < X'0080'"
    return f"CASE WHEN {is_framed} THEN substring({value}, 1, {PREFIX_BYTES}) END"


def is_framed(value: bytes) -> bool:
    """Return whether a value begins with the id of a schema."""
    return len(value) >= PREFIX_BYTES and value[:2] < b"\x00\x80"


def decoded(payload: Column, writer: Schema, reader: Schema) -> Column:
    """Return a value as its reader's schema has it, with ``_lake_read``; all of it is NULL where it cannot be read."""
    from pyspark.sql.avro.functions import from_avro

    with_proof = {**reader, "fields": [*reader["fields"], {"name": READ, "type": "boolean", "default": True}]}
    options = {"mode": "PERMISSIVE", "avroSchema": json.dumps(with_proof)}
    return from_avro(payload, json.dumps(writer), options)


def record_schema(schema: str, what: str) -> Schema:
    """Return a schema of Avro.

    :param what: it is, for the message.
    :raises UnsupportedError: it is no record.
    """
    plain = json.loads(schema)
    if not isinstance(plain, dict) or plain.get("type") != "record":
        raise UnsupportedError(f"{what} is no record of Avro, so that it has no columns: {schema[:200]}")
    return plain


def last_name(kind: Any) -> str:
    """Return the name of a type without its namespace; empty where it has none."""
    name = kind.get("name", "") if isinstance(kind, Mapping) else kind
    return name.rpartition(".")[2] if isinstance(name, str) else ""


def named_types(kind: Any) -> dict[str, Any]:
    """Return the types with names inside a type, which others mean by their name."""
    if isinstance(kind, list):
        return {name: each for branch in kind for name, each in named_types(branch).items()}
    if not isinstance(kind, Mapping):
        return {}
    inside = [kind.get("items"), kind.get("values"), *(each["type"] for each in kind.get("fields", ()))]
    own = {last_name(kind): kind} if kind["type"] in NAMED else {}
    return {**own, **named_types(inside)}
