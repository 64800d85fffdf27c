"""Events of Avro as the texts that Connect's converter of JSON would have written of them, each with its schema.

Logical types are left aside while a value is decoded. So bytes, days and ticks are as JSON has them. The names of
Connect's types stand in the schema of Avro, too, and tell what they mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.kafka.framed_avro import (
    MOST_SCHEMAS,
    PREFIX_BYTES,
    READ,
    Schema,
    decoded,
    limit_lengths,
    meant,
    named_types,
    prefix_of,
    record_schema,
    refuse_without_avro,
)
from airflow_lake_provider.spark_jobs.sources.kafka.registry import SchemaRegistry

# No JSON, so that the record is one that cannot be read.
_UNREAD = "a key or a value that its schema does not fit"
_KINDS = {"int": "int32", "long": "int64", "float": "float", "double": "double", "record": "struct", "enum": "string"}
_KINDS |= {"fixed": "bytes"}
# Of converters that write no name of Connect.
_LOGICAL = {
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
}


@dataclass(frozen=True)
class AvroEvents:
    """Keys and values of a topic, behind the ids of their schemas.

    :param topic: for messages.
    """

    spark: SparkSession
    topic: str
    registry: SchemaRegistry

    def texts(self, records: DataFrame) -> DataFrame:
        """Return the records with keys and values as text of JSON, in two passes.

        :raises LakeProviderError: the registry lacks a schema, or does not answer.
        :raises BadInputError: the records have more schemas than a plan can hold.
        """
        refuse_without_avro(self.spark)
        limit_lengths(self.spark)
        prefixes = [sf.expr(prefix_of(name)).alias(name) for name in ("key", "value")]
        pairs = records.select(*prefixes).distinct().limit(MOST_SCHEMAS + 1).collect()
        if len(pairs) > MOST_SCHEMAS:
            raise BadInputError(f"topic {self.topic} has events of more than {MOST_SCHEMAS} schemas; give max_records")
        of_keys, of_values = (sorted({bytes(row[place]) for row in pairs if row[place]}) for place in (0, 1))
        key = self._text("key", of_keys, with_schema=False)
        value = self._text("value", of_values, with_schema=True)
        is_unread = (sf.col("key").isNotNull() & key.isNull()) | (sf.col("value").isNotNull() & value.isNull())
        return records.withColumns({"key": key, "value": sf.when(is_unread, _UNREAD).otherwise(value)})

    def _text(self, name: str, prefixes: Sequence[bytes], *, with_schema: bool) -> Column:
        payload, text = sf.expr(f"substring({name}, {PREFIX_BYTES + 1})"), sf.lit(None).cast("string")
        for prefix in prefixes:
            number = int.from_bytes(prefix)
            schema = record_schema(self.registry.writer(number), f"schema {number}")
            of_schema = _json_of(payload, schema, with_schema=with_schema)
            text = sf.when(sf.expr(prefix_of(name)) == sf.lit(prefix), of_schema).otherwise(text)
        return text


def _json_of(payload: Column, schema: Schema, *, with_schema: bool) -> Column:
    plain = _without_logical_types(schema)
    value = decoded(payload, plain, plain)
    text = sf.to_json(value.dropFields(READ), {"ignoreNullFields": "false"})
    if with_schema:
        connect = json.dumps({"fields": list(connect_fields(schema))})
        text = sf.concat(sf.lit(f'{{"schema":{connect},"payload":'), text, sf.lit("}"))
    return sf.when(value[READ].isNotNull(), text)


def _without_logical_types(kind: Any) -> Any:
    if isinstance(kind, list):
        return [_without_logical_types(each) for each in kind]
    if not isinstance(kind, Mapping):
        return kind
    return {name: _without_logical_types(each) for name, each in kind.items() if name != "logicalType"}


def connect_fields(envelope: Schema) -> Iterator[dict[str, Any]]:
    """Yield the field ``after`` of Connect's schema, as its converter of JSON writes it.

    :param envelope: schema of Avro, as :func:`record_schema` returns it.
    """
    named = named_types(envelope)
    for field in envelope["fields"]:
        row = _value_type(field["type"], named)
        if field["name"] == "after" and row.get("type") == "record":
            columns = [{"field": each["name"], **_connect(each["type"], named)} for each in row["fields"]]
            yield {"field": "after", "fields": columns}


def _value_type(kind: Any, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a value is that is not NULL, as an object; a named type may be meant by its name."""
    if isinstance(kind, list):
        return _value_type(next((each for each in kind if each != "null"), "null"), named)
    if isinstance(kind, str):
        of_name = meant(kind, named)
        return of_name if isinstance(of_name, Mapping) else {"type": kind}
    # Spelled {"type": {"type": "array"}}.
    return _value_type(kind["type"], named) if isinstance(kind["type"], (Mapping, list)) else kind


def _connect(given: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    kind = _value_type(given, named)
    described: dict[str, Any] = {"type": kind.get("connect.type") or _KINDS.get(kind["type"], kind["type"])}
    if name := kind.get("connect.name") or _LOGICAL.get(kind.get("logicalType", "")):
        described["name"] = name
    is_decimal = kind.get("logicalType") == "decimal"
    scale = {"scale": kind.get("scale", 0), "connect.decimal.precision": kind.get("precision")} if is_decimal else {}
    parameters = {**scale, **kind.get("connect.parameters", {})}
    if texts := {key: str(value) for key, value in parameters.items() if value is not None}:
        described["parameters"] = texts
    return {**described, "items": _connect(kind["items"], named)} if "items" in kind else described
