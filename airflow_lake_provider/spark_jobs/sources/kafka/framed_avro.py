"""Values of Avro behind the id of their writer's schema, as Confluent's serializers frame them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.jvm.gateway import empty_array, has_class, jvm_of, load_class, once_a_driver

_AVRO = "org.apache.spark.sql.avro.AvroDataToCatalyst"
# Of one value. A broken body may claim any length, and Avro makes room for it before it reads.
_LIMITS = {
    "org.apache.avro.limits.string.maxLength": 64 * 1024**2,
    "org.apache.avro.limits.bytes.maxLength": 64 * 1024**2,
    "org.apache.avro.limits.collectionItems.maxLength": 16 * 1024**2,
}
_KEPT_LIMITS = "org.apache.avro.SystemLimitException"
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


@once_a_driver
def limit_lengths(spark: SparkSession) -> None:
    """Bound the lengths that Avro takes in the JVM of the driver, which is the executor of a local master.

    Limits that the driver was started with stay as they are.
    """
    jvm = jvm_of(spark)
    for name, limit in _LIMITS.items():
        if jvm.java.lang.System.getProperty(name) is None:
            jvm.java.lang.System.setProperty(name, str(limit))
    # Avro before 1.11.3, as of Spark 3.5.0, asks for the limit of bytes each time, and has no others.
    if not has_class(spark, _KEPT_LIMITS):
        return
    # Another source may have read Avro before.
    read_again = load_class(spark, _KEPT_LIMITS).getDeclaredMethod(
        "resetLimits", empty_array(spark, "java.lang.Class", 0)
    )
    read_again.setAccessible(True)
    read_again.invoke(None, empty_array(spark, "java.lang.Object", 0))


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
    """Return a schema of Avro, in which no name depends on the types around it.

    :param what: it is, for the message.
    :raises UnsupportedError: it is no record, or no schema that Avro takes.
    """
    plain = json.loads(schema)
    if not isinstance(plain, dict) or plain.get("type") != "record":
        raise UnsupportedError(f"{what} is no record of Avro, so that it has no columns: {schema[:200]}")
    try:
        qualified: Schema = _qualified(plain, "", set())
    # Nothing that Avro's parser takes lacks a part, or has another thing in its place.
    except (KeyError, TypeError, AttributeError) as error:
        lacks = f"a type lacks {error}" if isinstance(error, KeyError) else "a part of it is no type"
        raise UnsupportedError(f"{what} is no schema of Avro, as {lacks}: {schema[:200]}") from None
    return qualified


def _qualified(kind: Any, within: str, defined: set[str]) -> Any:
    """Return a type with the namespace of the type around it, where it has none of its own.

    :param within: namespace of the type around it; empty for none.
    :param defined: full names of the types before it.
    """
    if isinstance(kind, list):
        return [_qualified(branch, within, defined) for branch in kind]
    if isinstance(kind, str):
        # What the namespace lacks is of none, or Avro's own.
        return name if (name := f"{within}.{kind}") in defined else kind
    if kind["type"] in NAMED:
        if "." not in kind["name"] and within and kind.get("namespace") is None:
            kind = {**kind, "namespace": within}
        # Before its fields: it may have itself inside.
        defined.add(full_name(kind))
        within = full_name(kind).rpartition(".")[0]
    parts = ["items", "values", *([] if isinstance(kind["type"], str) else ["type"])]
    inside = {part: _qualified(kind[part], within, defined) for part in parts if part in kind}
    if kind["type"] == "record":
        inside["fields"] = [{**each, "type": _qualified(each["type"], within, defined)} for each in kind["fields"]]
    return {**kind, **inside}


def full_name(kind: Any) -> str:
    """Return the name of a type with its namespace; empty where it has none."""
    name = kind.get("name", "") if isinstance(kind, Mapping) else ""
    own, _, last = name.rpartition(".")
    namespace = own if "." in name else kind.get("namespace") if name else ""
    return f"{namespace}.{last}" if namespace else last


def last_name(kind: Any) -> str:
    """Return the name of a type without its namespace; empty where it has none."""
    return full_name(kind).rpartition(".")[2]


def named_types(kind: Any) -> dict[str, Any]:
    """Return the types with names inside a type, by full name, by which others mean them."""
    if isinstance(kind, list):
        return {name: each for branch in kind for name, each in named_types(branch).items()}
    if not isinstance(kind, Mapping):
        return {}
    inside = [kind.get("items"), kind.get("values"), *(each["type"] for each in kind.get("fields", ()))]
    own = {full_name(kind): kind} if kind["type"] in NAMED else {}
    return {**own, **named_types(inside)}


def meant(kind: Any, types: Mapping[str, Any]) -> Any:
    """Return the type that a name means; any other one is itself.

    :param types: by full name.
    """
    return types.get(kind, kind) if isinstance(kind, str) else kind


def kind_of(kind: Any) -> Any:
    """Return what a type is, whatever its name and its unit."""
    return kind["type"] if isinstance(kind, Mapping) else kind


def nearest(kind: Any, branches: Sequence[Any]) -> Any:
    """Return the branch of a union that Avro takes for a type; None where none fits.

    That is the one of its full name, else the last of its name without namespace, else the first of its kind.

    :param branches: none of them a name.
    """
    of_kind = [each for each in branches if kind_of(each) == kind_of(kind)]
    for name_of in (full_name, last_name):
        if namesakes := [each for each in of_kind if name_of(each) and name_of(each) == name_of(kind)]:
            return namesakes[-1]
    widened = (each for each in branches if {kind_of(each), kind_of(kind)} == {"int", "long"})
    return of_kind[0] if of_kind else next(widened, None)
