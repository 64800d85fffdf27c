"""Values of Avro: each decoded with its writer's schema, and all as one reader's schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.contracts.kafka_access import RegistryAccess
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.jvm.gateway import has_class
from airflow_lake_provider.spark_jobs.sources.kafka.records import UNSEEN, VALUE
from airflow_lake_provider.spark_jobs.sources.kafka.registry import SchemaRegistry

_AVRO = "org.apache.spark.sql.avro.AvroDataToCatalyst"
# A field that every record gets by its default. What cannot be decoded has NULL in all fields, in this one too.
_READ = "_lake_read"
_PREFIX, _DECODED = "_lake_prefix", "_lake_decoded"
# A byte of zero, and four of the id, which is not negative.
_PREFIX_BYTES = 5
_MOST_SCHEMAS = 200
_NO_FRAME = "a value that does not begin with the id of a schema"
_UNFIT = "a value that its writer's schema does not fit"
_NAMED = ("record", "enum", "fixed")
_SHOWN = 3

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class AvroValues:
    """Decoder of the values of a topic.

    :param access: of the registry; None where ``schema`` is the writer's.
    :param sample: some of the values, whose ids of schemas are taken for all that there are; None to look at all.
    """

    spark: SparkSession
    topic: str
    access: RegistryAccess | None
    schema: str | None
    sample: Sequence[bytes] | None = None

    def decode(self, rows: DataFrame) -> tuple[DataFrame, list[str]]:
        """Add the columns of the values, and return their names.

        :raises UnsupportedError: Spark's Avro is none of the job's jars.
        :raises LakeProviderError: the registry lacks a schema, or does not answer.
        """
        if not has_class(self.spark, _AVRO):
            raise UnsupportedError(
                f"{_AVRO}, which reads Avro, is in none of the job's jars; add org.apache.spark:spark-avro_2.13 in the "
                "release of your Spark to the jars of [lake] spark_jars, or to the operator's packages"
            )
        if self.access is None:
            reader = _record(str(self.schema), f"the schema of topic {self.topic}")
            return _flat(rows.withColumn(_DECODED, _decoded(sf.col(VALUE), reader, reader)), reader)
        framed = rows.withColumn(_PREFIX, sf.expr(_prefix_of(VALUE)))
        if self.sample is None:
            looked_at = framed.select(_PREFIX).distinct().limit(_MOST_SCHEMAS + 2)
            prefixes = {bytes(row[0]) for row in looked_at.collect() if row[0] is not None}
        else:
            prefixes = {value[:_PREFIX_BYTES] for value in self.sample if _is_framed(value)}
        if len(prefixes) > _MOST_SCHEMAS:
            raise BadInputError(f"topic {self.topic} has values of more than {_MOST_SCHEMAS} schemas; give max_records")
        registry = SchemaRegistry(self.access)
        ids = {int.from_bytes(prefix): prefix for prefix in sorted(prefixes)}
        writers = {number: _record(registry.writer(number), f"schema {number}") for number in ids}
        subject = f"{self.topic}-value"
        reader = with_lost_fields(_record(registry.latest(subject), f"subject {subject}"), writers)
        payload = sf.expr(f"substring({VALUE}, {_PREFIX_BYTES + 1})")
        decoded = sf.when(sf.lit(False), _decoded(payload, reader, reader))
        for number, writer in writers.items():
            decoded = decoded.when(sf.col(_PREFIX) == sf.lit(ids[number]), _decoded(payload, writer, reader))
        no_frame = sf.when(sf.col(VALUE).isNotNull() & sf.col(_PREFIX).isNull(), _NO_FRAME)
        faults = [sf.col(UNPARSABLE), no_frame]
        if self.sample is not None:
            faults.append(sf.when(~sf.col(_PREFIX).isin(list(ids.values())), UNSEEN))
        framed = framed.withColumn(UNPARSABLE, sf.coalesce(*faults))
        return _flat(framed.withColumn(_DECODED, decoded), reader)


def _prefix_of(value: str) -> str:
    """Return SQL of the bytes before a value that tell its schema; NULL where they are none."""
    # Bytes compare without a sign. To make a number of them would cost each record more than to decode some columns.
    is_framed = f"octet_length({value}) >= {_PREFIX_BYTES} AND substring({value}, 1, 2) < X'0080'"
    return f"CASE WHEN {is_framed} THEN substring({value}, 1, {_PREFIX_BYTES}) END"


def _is_framed(value: bytes) -> bool:
    return len(value) >= _PREFIX_BYTES and value[:2] < b"\x00\x80"


def _flat(rows: DataFrame, reader: Schema) -> tuple[DataFrame, list[str]]:
    # Those of the key are there, and are those of the key.
    there = {name.lower() for name in rows.columns}
    names = [name for field in reader["fields"] if (name := str(field["name"])).lower() not in there]
    is_unfit = sf.col(VALUE).isNotNull() & sf.col(f"{_DECODED}.{_READ}").isNull()
    flagged = rows.withColumn(UNPARSABLE, sf.coalesce(UNPARSABLE, sf.when(is_unfit, _UNFIT)))
    return flagged.select("*", *(sf.col(_DECODED).getField(name).alias(name) for name in names)), names


def _decoded(payload: Column, writer: Schema, reader: Schema) -> Column:
    from pyspark.sql.avro.functions import from_avro

    with_proof = {**reader, "fields": [*reader["fields"], {"name": _READ, "type": "boolean", "default": True}]}
    options = {"mode": "PERMISSIVE", "avroSchema": json.dumps(with_proof)}
    return from_avro(payload, json.dumps(writer), options)


def _record(schema: str, what: str) -> Schema:
    plain = json.loads(schema)
    if not isinstance(plain, dict) or plain.get("type") != "record":
        raise UnsupportedError(f"{what} is no record of Avro, so that it has no columns: {schema[:200]}")
    return plain


def _refuse_lost_inside(reader: Schema, writer: Schema, number: int, field: str, kind: Any) -> None:
    of_writer = next(each["type"] for each in writer["fields"] if each["name"] == field)
    if lost := list(_lost_inside(of_writer, kind, (_named_types(writer), _named_types(reader)), field, set())):
        raise UnsupportedError(
            f"schema {number} has {', '.join(lost[:_SHOWN])}, which the latest one lacks inside of {field!r}, so that "
            "the values would be lost; register a version that has the field, with a default"
        )


def _lost_inside(
    writer: Any, reader: Any, types: tuple[Schema, Schema], path: str, seen: set[tuple[str, str]]
) -> Iterator[str]:
    """Yield the paths of fields that the records inside a writer's type have, and those of the reader's lack.

    :param types: by name, of the writer and of the reader.
    :param seen: pairs of records that are looked at: a record may have itself inside.
    """
    writer, reader = (types[place].get(_last_name(each), each) for place, each in enumerate((writer, reader)))
    if isinstance(writer, list):
        for branch in writer:
            yield from _lost_inside(branch, reader, types, path, seen)
        return
    if isinstance(reader, list):
        branches = (types[1].get(_last_name(each), each) for each in reader)
        fitting = [each for each in branches if _kind_of(each) == _kind_of(writer)]
        # As Avro does: the branch of that name, else the first of its kind.
        fitting.sort(key=lambda each: _last_name(each) != _last_name(writer))
        reader = fitting[0] if fitting else None
    if not isinstance(writer, Mapping) or _kind_of(writer) != _kind_of(reader):
        return
    for inside in ("items", "values"):
        if inside in writer:
            yield from _lost_inside(writer[inside], reader[inside], types, path, seen)
    names = (_last_name(writer), _last_name(reader))
    if _kind_of(writer) != "record" or names in seen:
        return
    seen.add(names)
    there = {name: each["type"] for each in reader["fields"] for name in (each["name"], *each.get("aliases", ()))}
    for each in writer["fields"]:
        at = f"{path}.{each['name']}"
        if each["name"] not in there:
            yield at
        else:
            yield from _lost_inside(each["type"], there[each["name"]], types, at, seen)


def _kind_of(kind: Any) -> Any:
    return kind["type"] if isinstance(kind, Mapping) else kind


def _last_name(kind: Any) -> str:
    name = kind.get("name", "") if isinstance(kind, Mapping) else kind
    return name.rpartition(".")[2] if isinstance(name, str) else ""


def _named_types(kind: Any) -> dict[str, Any]:
    if isinstance(kind, list):
        return {name: each for branch in kind for name, each in _named_types(branch).items()}
    if not isinstance(kind, Mapping):
        return {}
    inside = [kind.get("items"), kind.get("values"), *(each["type"] for each in kind.get("fields", ()))]
    own = {_last_name(kind): kind} if kind["type"] in _NAMED else {}
    return {**own, **_named_types(inside)}


def with_lost_fields(reader: Schema, writers: Mapping[int, Schema]) -> Schema:
    """Return the reader's schema with the fields of writers that it lacks, so that no value is lost.

    :raises UnsupportedError: such a field has a type with a name, which may be there twice, or is inside another field.
    """
    fields = {field["name"]: field for field in reader["fields"]}
    for number, writer in sorted(writers.items(), reverse=True):
        for field in writer["fields"]:
            if field["name"] in fields:
                _refuse_lost_inside(reader, writer, number, str(field["name"]), fields[field["name"]]["type"])
                continue
            if any(f'"type": "{named}"' in json.dumps(field) for named in _NAMED):
                raise UnsupportedError(
                    f"schema {number} has the field {field['name']!r}, which the latest one lacks, and its type has a "
                    "name; register a version that has the field, with a default"
                )
            kind = field["type"]
            branches = kind if isinstance(kind, list) else [kind]
            optional = ["null", *(branch for branch in branches if branch != "null")]
            fields[field["name"]] = {"name": field["name"], "type": optional, "default": None}
    return {**reader, "fields": list(fields.values())}
