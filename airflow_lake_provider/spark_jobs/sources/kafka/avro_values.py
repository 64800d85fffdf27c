"""Values of Avro: each decoded with its writer's schema, and all as one reader's schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.contracts.source_access import RegistryAccess
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.sources.kafka.avro_units import with_units_of
from airflow_lake_provider.spark_jobs.sources.kafka.framed_avro import (
    MOST_SCHEMAS,
    NAMED,
    PREFIX_BYTES,
    READ,
    Schema,
    decoded,
    full_name,
    is_framed,
    kind_of,
    last_name,
    limit_lengths,
    meant,
    named_types,
    nearest,
    prefix_of,
    record_schema,
    refuse_without_avro,
)
from airflow_lake_provider.spark_jobs.sources.kafka.records import DECODED, UNSEEN, VALUE, with_fields
from airflow_lake_provider.spark_jobs.sources.kafka.registry import SchemaRegistry

_PREFIX = "_lake_prefix"
_NO_FRAME = "a value that does not begin with the id of a schema"
_UNFIT = "a value that its writer's schema does not fit"
_OTHER_RECORD = "a value of another record than that of the subject"
_NO_SCHEMA = "a value of a schema that cannot be read"
_OTHER_NAMES = (
    "Where they name subjects by the record (RecordNameStrategy, TopicRecordNameStrategy), give the source "
    "subject='<namespace>.<record>', or '<topic>-<namespace>.<record>'"
)
_SHOWN = 3


@dataclass(frozen=True)
class AvroValues:
    """Decoder of the values of a topic.

    :param source: topic; the latest version of its subject is the reader's schema.
    :param access: of the registry; None where the source's ``schema`` is the writer's.
    :param sample: some of the values, whose ids of schemas are taken for all that there are; None to look at all.
    :param puts_aside: whether values are put aside whose schema the registry lacks, or is none of a record.
    """

    spark: SparkSession
    source: KafkaTopic
    access: RegistryAccess | None
    sample: Sequence[bytes] | None = None
    puts_aside: bool = False

    def decode(self, rows: DataFrame) -> tuple[DataFrame, list[str]]:
        """Add the columns of the values, and return their names.

        :raises UnsupportedError: Spark's Avro is none of the job's jars.
        :raises LakeProviderError: the registry lacks a schema, or does not answer.
        """
        refuse_without_avro(self.spark)
        limit_lengths(self.spark)
        topic, subject = self.source.topic, self.source.subject_of_values
        if self.access is None:
            reader = record_schema(str(self.source.schema), f"the schema of topic {topic}")
            return _flat(rows.withColumn(DECODED, decoded(sf.col(VALUE), reader, reader)), reader)
        framed = rows.withColumn(_PREFIX, sf.expr(prefix_of(VALUE)))
        if self.sample is None:
            looked_at = framed.select(_PREFIX).distinct().limit(MOST_SCHEMAS + 2)
            prefixes = {bytes(row[0]) for row in looked_at.collect() if row[0] is not None}
        else:
            prefixes = {value[:PREFIX_BYTES] for value in self.sample if is_framed(value)}
        if len(prefixes) > MOST_SCHEMAS:
            raise BadInputError(f"topic {topic} has values of more than {MOST_SCHEMAS} schemas; give max_records")
        registry = SchemaRegistry(self.access)
        ids = {int.from_bytes(prefix): prefix for prefix in sorted(prefixes)}
        writers, unread = self._writers(registry, ids)
        # Others are named by a record, of which a topic may have several: Avro would read one as another.
        is_by_topic = self.source.names_subject_by_topic
        latest = record_schema(registry.latest(subject, _OTHER_NAMES if is_by_topic else ""), subject)
        named = {full_name(latest), *latest.get("aliases", ())}
        others = [] if is_by_topic else [number for number in writers if full_name(writers[number]) not in named]
        writers = {number: writer for number, writer in writers.items() if number not in others}
        reader = with_lost_fields(latest, writers)
        payload = sf.expr(f"substring({VALUE}, {PREFIX_BYTES + 1})")
        value = sf.when(sf.lit(False), decoded(payload, reader, reader))
        for number, writer in writers.items():
            own = decoded(payload, writer, with_units_of(writer, reader, number))
            value = value.when(sf.col(_PREFIX) == sf.lit(ids[number]), own)
        no_frame = sf.when(sf.col(VALUE).isNotNull() & sf.col(_PREFIX).isNull(), _NO_FRAME)
        of_other = sf.when(sf.col(_PREFIX).isin([ids[number] for number in others]), _OTHER_RECORD)
        faults = [sf.col(UNPARSABLE), no_frame, *([of_other] if others else [])]
        faults += [sf.when(sf.col(_PREFIX) == sf.lit(ids[number]), fault) for number, fault in unread.items()]
        if self.sample is not None:
            faults.append(sf.when(~sf.col(_PREFIX).isin(list(ids.values())), UNSEEN))
        framed = framed.withColumn(UNPARSABLE, sf.coalesce(*faults))
        return _flat(framed.withColumn(DECODED, value), reader)

    def _writers(self, registry: SchemaRegistry, ids: Iterable[int]) -> tuple[dict[int, Schema], dict[int, str]]:
        """Return the schemas of values, and what is wrong with those that are put aside for theirs.

        :raises LakeProviderError: the registry does not answer, or lacks a schema of values that are not.
        """
        writers: dict[int, Schema] = {}
        unread: dict[int, str] = {}
        for number in ids:
            try:
                writers[number] = record_schema(registry.writer(number), f"schema {number}")
            except (BadInputError, UnsupportedError) as error:
                if not self.puts_aside:
                    raise
                unread[number] = f"{_NO_SCHEMA}: {error}"
        return writers, unread


def _flat(rows: DataFrame, reader: Schema) -> tuple[DataFrame, list[str]]:
    is_unfit = sf.col(VALUE).isNotNull() & sf.col(f"{DECODED}.{READ}").isNull()
    return with_fields(rows, [str(field["name"]) for field in reader["fields"]], sf.when(is_unfit, _UNFIT))


def _refuse_lost_inside(reader: Schema, writer: Schema, number: int, field: str, kind: Any) -> None:
    of_writer = next(each["type"] for each in writer["fields"] if each["name"] == field)
    if lost := list(_lost_inside(of_writer, kind, (named_types(writer), named_types(reader)), field, set())):
        raise UnsupportedError(
            f"schema {number} has {', '.join(lost[:_SHOWN])}, which the latest one lacks inside of {field!r}, so that "
            "the values would be lost; register a version that has the field, with a default"
        )


def _lost_inside(
    writer: Any, reader: Any, types: tuple[Schema, Schema], path: str, seen: set[tuple[str, str]]
) -> Iterator[str]:
    """Yield the paths of fields that the records inside a writer's type have, and those of the reader's lack.

    :param types: by full name, of the writer and of the reader.
    :param seen: pairs of records that are looked at: a record may have itself inside.
    """
    writer, reader = (meant(each, types[place]) for place, each in enumerate((writer, reader)))
    if isinstance(writer, list):
        for branch in writer:
            yield from _lost_inside(branch, reader, types, path, seen)
        return
    if isinstance(reader, list):
        reader = nearest(writer, [meant(each, types[1]) for each in reader])
    if not isinstance(writer, Mapping) or kind_of(writer) != kind_of(reader):
        return
    for inside in ("items", "values"):
        if inside in writer:
            yield from _lost_inside(writer[inside], reader[inside], types, path, seen)
    names = (full_name(writer), full_name(reader))
    if kind_of(writer) != "record" or names in seen:
        return
    seen.add(names)
    there = {name: each["type"] for each in reader["fields"] for name in (each["name"], *each.get("aliases", ()))}
    for each in writer["fields"]:
        at = f"{path}.{each['name']}"
        if each["name"] not in there:
            yield at
        else:
            yield from _lost_inside(each["type"], there[each["name"]], types, at, seen)


def _by_names_of(types: Mapping[str, Any], kind: Any, of_writer: Mapping[str, Any]) -> Any:
    """Return a type of a writer, whose names are those of the reader.

    :param types: of the reader, by full name.
    :raises LookupError: it has a name that the reader lacks, or may lack.
    """
    if isinstance(kind, list):
        return [_by_names_of(types, branch, of_writer) for branch in kind]
    if isinstance(kind, Mapping):
        if kind["type"] in NAMED:
            raise LookupError(full_name(kind))
        # A type of its own is spelled {"type": {"type": ...}}; a word that is none of the writer's names stays.
        inside = (part for part in ("items", "values", "type") if part in kind)
        return {**kind, **{part: _by_names_of(types, kind[part], of_writer) for part in inside}}
    if kind not in of_writer or kind in types:
        return kind
    # The namespace may have changed.
    moved = [name for name, each in types.items() if last_name(each) == last_name(of_writer[kind])]
    if len(moved) != 1:
        raise LookupError(kind)
    return moved[0]


def with_lost_fields(reader: Schema, writers: Mapping[int, Schema]) -> Schema:
    """Return the reader's schema with the fields of writers that it lacks, so that no value is lost.

    :raises UnsupportedError: such a field has a type with a name, which may be there twice, or is inside another field.
    """
    aliases = {alias: field for field in reader["fields"] for alias in field.get("aliases", ())}
    fields = {**aliases, **{field["name"]: field for field in reader["fields"]}}
    lost, types = [], named_types(reader)
    for number, writer in sorted(writers.items(), reverse=True):
        for field in writer["fields"]:
            if field["name"] in fields:
                _refuse_lost_inside(reader, writer, number, str(field["name"]), fields[field["name"]]["type"])
                continue
            try:
                kind = _by_names_of(types, field["type"], named_types(writer))
            except LookupError as error:
                raise UnsupportedError(
                    f"schema {number} has the field {field['name']!r}, which the latest one lacks, and its type has a "
                    f"name, {error.args[0]}; register a version that has the field, with a default"
                ) from error
            branches = kind if isinstance(kind, list) else [kind]
            optional = ["null", *(branch for branch in branches if branch != "null")]
            fields[field["name"]] = {"name": field["name"], "type": optional, "default": None}
            lost.append(fields[field["name"]])
    return {**reader, "fields": [*reader["fields"], *lost]}
