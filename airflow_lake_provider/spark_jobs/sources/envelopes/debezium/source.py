"""Debezium's change events as an envelope, and the source of it; and what to do about a record that is no event."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, DataType, NumericType, StringType, StructType, TimestampNTZType, TimestampType

from airflow_lake_provider.contracts.applied.log_positions import PostgresLogPosition, TuplePosition
from airflow_lake_provider.contracts.author.debezium_connector import BinaryHandling
from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.jvm.gateway import java_rows, java_session, jvm_of
from airflow_lake_provider.spark_jobs.sources.cdc.envelope import Envelope, EnvelopeWords, EventColumns, element_type
from airflow_lake_provider.spark_jobs.sources.cdc.event_survey import EventSurvey
from airflow_lake_provider.spark_jobs.sources.cdc.sink_file_names import Names
from airflow_lake_provider.spark_jobs.sources.cdc.source import ChangeEventsSource
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium import envelope
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.envelope import read_images
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.event_texts import (
    DebeziumStream,
    EventTexts,
    LinesOfFiles,
)
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.values import (
    DECIMAL,
    ConnectType,
    common_type,
    convert,
    inferred_type,
    not_converted,
    parse_types,
)
from airflow_lake_provider.spark_jobs.sources.faulty_lines import repeated
from airflow_lake_provider.spark_jobs.sources.text_schema import declared_types

_BASE64 = re.compile(r'(?:^|")(?=[^"])(?:[0-9A-Za-z+/]{4})*(?:[0-9A-Za-z+/]{2}==|[0-9A-Za-z+/]{3}=)?(?:$|")')
_ABOUT_BYTES = (
    "The events do not tell how these bytes are written. Give the source binary_handling_mode='hex', 'base64' or "
    "'base64-url-safe', as the connector's binary.handling.mode is; or declare the column STRING"
)
_ABOUT_UNITS = (
    "A number tells no time unless the events carry their connect schema, which says its unit: let the converter write "
    "it (value.converter.schemas.enable=true), or the connector texts (time.precision.mode=isostring); or declare the "
    "column BIGINT in the source's schema"
)
_ABOUT_DECIMALS = (
    "By default the connector sends a decimal as its bytes in base64, and only the events' schema tells its scale. Let "
    "the converter write the schema (value.converter.schemas.enable=true), or the connector texts "
    "(decimal.handling.mode=string)"
)
# Before the id of a schema, in values that a registry's converter writes.
_FRAME = "\0"
# The id has four bytes.
_FRAMED_JSON = re.compile(r"\0.{4}\{", re.DOTALL)
_READ = "postgresql"
_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class DebeziumColumns(EventColumns):
    """Types of the columns of a batch of events, by the connect schema that each event may carry.

    :param connect_types: by text of the connect schema, each column's connect type.
    :param schemaless: some events carry no connect schema.
    :param binary: how bytes are written as text, where the author says it.
    """

    connect_types: dict[str, dict[str, ConnectType]]
    schemaless: bool
    binary: BinaryHandling | None = None

    def value(self, column: str, text: Column, types: Column) -> Column:
        """Return the typed value of a JSON text, by the connect schema of its event."""
        # None first: events without a schema have no hash to be told by.
        texts: dict[ConnectType | None, list[str]] = {None: []} if self.schemaless else {}
        for schema_text, fields in self.connect_types.items():
            texts.setdefault(fields.get(column), []).append(schema_text)
        kinds = list(texts)
        result = convert(text, self.types[column], kinds[-1], self.binary)
        for kind in kinds[:-1]:
            hashes = [sf.xxhash64(sf.lit(schema_text)) for schema_text in texts[kind]]
            is_kind = sf.coalesce(types.isin(*hashes), sf.lit(kind is None))
            result = sf.when(is_kind, convert(text, self.types[column], kind, self.binary)).otherwise(result)
        return result

    def lost(self, column: str, text: Column, value: Column) -> Column:
        """Return whether a text was there and gave no value, or an element of it."""
        return not_converted(text, value, self.types[column])

    def remedy(self, lost: Mapping[str, str]) -> str:
        """Return what to do about texts that gave no value."""
        if self.schemaless and any(_is_number_for_time(self.types[name], text) for name, text in lost.items()):
            return _ABOUT_UNITS
        if any(isinstance(element_type(self.types[name]), BinaryType) for name in lost):
            return _ABOUT_BYTES
        if self.schemaless and any(self._is_base64_number(name, text) for name, text in lost.items()):
            return _ABOUT_DECIMALS
        return super().remedy(lost)

    def _is_base64_number(self, column: str, text: str) -> bool:
        return isinstance(element_type(self.types[column]), NumericType) and bool(_BASE64.search(text))


def find_columns(
    spark: SparkSession,
    source: DebeziumStream,
    texts: EventTexts,
    surveyed: EventSurvey,
    table_schema: StructType | None,
) -> DebeziumColumns:
    """Give each column of the events a type: declared, else the table's, else the connect schema's, else inferred.

    Inferring takes a second pass over the text.

    :param texts: that the events are in.
    :raises BadInputError: a column whose connect types have nothing in common, numbers that may be bytes.
    """
    declared = declared_types(source.schema, table_schema)
    rank = {name: place for place, name in enumerate(declared)}
    columns = sorted(surveyed.columns, key=lambda name: rank.get(name.lower(), len(rank)))
    connect_types = {text: parse_types(text) for text in surveyed.types}
    types = {name: declared.get(name.lower()) or _connect_type(connect_types, name) for name in columns}
    if None in types.values():
        inferred = _inferred(spark, read_images(texts, source.table))
        # Spark leaves out objects without a field.
        types = {name: kind or inferred.get(name, StringType()) for name, kind in types.items()}
    _refuse_ambiguous(source.table, surveyed, connect_types, types)
    return DebeziumColumns(
        types={name: kind for name, kind in types.items() if kind is not None},
        connect_types=connect_types,
        schemaless=surveyed.typeless > 0 or not connect_types,
        binary=BinaryHandling(source.binary_handling_mode) if source.binary_handling_mode else None,
    )


def _refuse_ambiguous(
    table: str,
    surveyed: EventSurvey,
    connect_types: Mapping[str, Mapping[str, ConnectType]],
    types: Mapping[str, DataType | None],
) -> None:
    kinds = {name: types[name] for name in surveyed.ambiguous_columns if name in types}
    bare = [
        name for name in kinds if any(name in fields and _is_decimal(fields[name]) for fields in connect_types.values())
    ]
    if bare:
        raise BadInputError(
            f"events of {table} have numbers without quotes in {bare}, which are bytes by the events' schema: the "
            "converter writes decimals as numbers. Set value.converter.decimal.format=BASE64, its default, or "
            "decimal.handling.mode=string in the connector"
        )
    in_quotes = [name for name, kind in kinds.items() if kind and isinstance(element_type(kind), NumericType)]
    if in_quotes:
        raise BadInputError(
            f"events of {table} carry no schema, and have numbers in quotes in {in_quotes} that may as well be bytes "
            "in base64. Give the source decimal_handling_mode='string', if the connector's decimal.handling.mode is "
            f"that. {_ABOUT_DECIMALS}"
        )


def _is_decimal(connect: ConnectType) -> bool:
    return connect.name == DECIMAL or bool(connect.items and connect.items.name == DECIMAL)


def _connect_type(connect_types: Mapping[str, Mapping[str, ConnectType]], column: str) -> DataType | None:
    kinds = [fields[column] for fields in connect_types.values() if column in fields]
    return common_type(column, kinds) if kinds else None


def _inferred(spark: SparkSession, images: DataFrame) -> dict[str, DataType]:
    # PySpark's json() takes text only as a Python RDD, which would send every line through Python.
    texts = getattr(java_rows(images), "as")(jvm_of(spark).org.apache.spark.sql.Encoders.STRING())
    schema = DataFrame(java_session(spark).read().json(texts), spark).schema
    return {field.name: inferred_type(field.dataType) for field in schema.fields}


def _is_number_for_time(kind: DataType, text: str) -> bool:
    return isinstance(kind, (TimestampType, TimestampNTZType)) and text.strip().lstrip("+-").isdecimal()


class DebeziumEnvelope(Envelope):
    """Events of Debezium, of the PostgreSQL connector."""

    log: ClassVar[type[TuplePosition]] = PostgresLogPosition
    words: ClassVar[EnvelopeWords] = EnvelopeWords(
        events="Debezium change events, which are JSON with op and source.table",
        operations="c, r, u, d, m and t",
        truncation="a truncation (op 't')",
        no_truncations="With skipped.operations=t the connector leaves the next one out, and all rows stay in the lake",
        place=(
            "source.sequence with two positions, which orders them; the PostgreSQL connector writes it, other "
            "connectors are not supported yet"
        ),
        no_key=(
            "REPLICA IDENTITY FULL does not help. Give the table a primary key, or name columns that are unique in the "
            "connector's message.key.columns"
        ),
        key_change=(
            "the connector splits such an update into a delete and a create only for the primary key, so give the "
            "primary key as keys"
        ),
    )
    source: DebeziumStream

    @property
    def texts(self) -> EventTexts:
        """Texts that the events are in: lines of the files."""
        assert isinstance(self.source, Debezium)
        return LinesOfFiles(self.spark, self.source, self.files)

    def events(self, keys: Sequence[str], names: Names) -> DataFrame:
        """Return one row per change event of the source's table, per tombstone with a place, and per bad text."""
        return envelope.read_events(self.texts, self.source, keys, names)

    def columns(self, surveyed: EventSurvey, table_schema: StructType | None) -> EventColumns:
        """Give each column a type; one that nobody tells is inferred, in a second pass over the text."""
        return find_columns(self.spark, self.source, self.texts, surveyed, table_schema)

    def count_tables(self, limit: int) -> dict[str, int]:
        """Return the tables with the most events."""
        return envelope.count_tables(self.texts, limit)

    def checked_lines(self, keys: Sequence[str]) -> DataFrame:  # noqa: ARG002  # others need them
        """Return every text's arrival and whether it is ``bad``; no other column is parsed."""
        return envelope.mark_bad(self.texts, self.source.table)

    def remedy_of_bad(self, keys: Sequence[str]) -> str:  # noqa: ARG002  # others need them
        """Return what to do about the first text that is no event."""
        return _remedy(envelope.first_bad_text(self.texts, self.source.table))

    def refuse_other_keys(self, surveyed: EventSurvey, keys: Sequence[str]) -> None:
        """Add what a transform may have done to the records' keys."""
        table = self.source.table
        if self.source.key_field_name in surveyed.columns:
            raise BadInputError(
                f"rows of {table} have a column {self.source.key_field_name}, so it is no field that a transform adds "
                "to the key, as key_field_name says of it; give key_field_name the name of that field, or leave it out"
            )
        others = [names for names in surveyed.record_keys if set(names) != set(keys)]
        added = sorted({name for names in others for name in names} - set(surveyed.columns))
        if added and () not in surveyed.record_keys:
            raise BadInputError(
                f"events of {table} are keyed by {list(others[0])}, and their rows have no {added}. Where a transform "
                f"adds it to the key, such as ByLogicalTableRouter, give the source key_field_name={added[0]!r}. Where "
                "the connector leaves the column out of the rows, let it send the column: the rows have no key without "
                "it"
            )
        super().refuse_other_keys(surveyed, keys)


class DebeziumSource(ChangeEventsSource):
    """Change events of Debezium in files."""

    envelope: ClassVar[type[Envelope]] = DebeziumEnvelope
    source: Debezium


def _remedy(text: str) -> str:
    """Return what the first record that is no event seems to be, and what to do; empty where nothing tells.

    :param text: of the record, or of the line.
    """
    if _FRAMED_JSON.match(text):
        return (
            "It begins as a value of JSON Schema behind the id of its schema, which is not read: set the connector's "
            "value.converter to org.apache.kafka.connect.json.JsonConverter, or to one of Avro"
        )
    if text.startswith(_FRAME):
        return (
            "It begins as a value of Avro behind the id of its schema: give registry, and read a topic, not files; or "
            "let the connector's converter write JSON"
        )
    faults: list[str] = []
    try:
        value = _unwrapped(_loaded(text, faults))
    # Too many levels end Python's parser, too.
    except (ValueError, RecursionError):
        return ""
    if faults:
        return f"It has {'; '.join(faults[:_SHOWN])}"
    if not isinstance(value, Mapping):
        return ""
    source = value.get("source")
    if "specversion" in value:
        return (
            "It is a CloudEvent: set the connector's value.converter to "
            "org.apache.kafka.connect.json.JsonConverter, or to one of Avro"
        )
    if isinstance(source, Mapping):
        if (connector := source.get("connector", _READ)) != _READ:
            return f"It is of the connector {connector!r}, and events of the PostgreSQL connector alone are read"
        return "" if source.get("table") else "Its source names no table: let no transform take source.table away"
    return (
        "It is a row without its envelope, or another tool's record: take ExtractNewRecordState out of the connector, "
        "as the envelope alone has the place in the log"
    )


def _loaded(text: str, faults: list[str]) -> Any:
    """Return a value of JSON, and add what Spark's parser takes in it and reads wrong.

    :raises ValueError: it is none.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = repeated(name for name, _ in pairs)
        faults.extend(f"the field {name!r} twice, of which one would be lost: write it once" for name in twice)
        return dict(pairs)

    def number(digits: str) -> float:
        if isinf(value := float(digits)):
            faults.append(f"the number {digits}, which no DOUBLE holds: write it as text, in quotes")
        return value

    def constant(name: str) -> float:
        faults.append(f"{name} without quotes, which is no JSON: write it as text")
        return 0

    return json.loads(text, object_pairs_hook=members, parse_float=number, parse_constant=constant)


def _unwrapped(value: Any) -> Any:
    """Return the value of a record, or what is beside its schema."""
    for names in ({"key", "value"}, {"topic", "value"}, {"schema", "payload"}):
        if isinstance(value, Mapping) and names <= value.keys():
            value = value["payload" if "payload" in names else "value"]
    return value
