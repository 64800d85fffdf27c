"""Columns of a topic's records: made of keys and values, each exact, or a fault that names partition and offset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from airflow_lake_provider.contracts.author.kafka_topic import (
    METADATA_PREFIX,
    KafkaTopic,
    KeyFormat,
    Tombstones,
    ValueFormat,
)
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reserved_columns import CHANGE_TYPE
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL, PLACE, RECORD, UNPARSABLE
from airflow_lake_provider.spark_jobs.sources.faulty_lines import CHANGED_VALUE, FAULTS, begins_with, fault_of_line
from airflow_lake_provider.spark_jobs.sources.kafka.framed_avro import PREFIX_BYTES, prefix_of
from airflow_lake_provider.spark_jobs.sources.line_records import fault_of_object
from airflow_lake_provider.spark_jobs.sources.raw_batch import IDENTITY, IN_COLUMN, NOTE, RawBatch, UndecidedTextError
from airflow_lake_provider.spark_jobs.sources.read_text import typed_rows
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl, refuse_other_keys
from airflow_lake_provider.spark_jobs.sources.text_values import read_as
from airflow_lake_provider.spark_jobs.sql.identifiers import columns_text, matches, quoted, quoted_name, text_literal

KEY, VALUE, DECODED = "_lake_record_key", "_lake_record_value", "_lake_decoded"
_PLACE, _TEXT, _NAMES, _PARSED = "_lake_place_in_topic", "_lake_text", "_lake_names", "_lake_parsed"
_PLACED_FAULT = f"concat('partition ', {_PLACE}.partition, ', offset ', {_PLACE}.offset, ': ', {UNPARSABLE})"
_TOMBSTONE = "a record without a value"
_NO_OBJECT = "no JSON object in UTF-8"
_NO_TEXT = "no text in UTF-8"
_FRAMED_JSON = "JSON behind the id of a schema"
_FRAMED = "a value behind the id of a schema"
_FRAMED_KEY = "a key that begins with control bytes, as behind the id of a schema"
_NO_KEY = "a record without a key"
_OTHER_CASE = "a name that the schema spells in another case"
_NO_FIELD = "none of the declared fields"
_UNFIT = "a value that is no JSON, or has a field that its type does not hold"
# A tab and the ends of lines are part of texts.
_CONTROLS = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
# Not a fault of the record: then all of them are looked at.
UNSEEN = "a schema that a sample of the records did not have"
_SHOWN = 3
# Of Protobuf, before what Google's library says of it.
UNFIT_MESSAGE = "a value that its message does not fit"
_REMEDIES = {
    **FAULTS,
    _FRAMED_JSON: "a serializer of a registry has written it, of JSON Schema, which is not read; write plain JSON, in "
    "Connect by org.apache.kafka.connect.json.JsonConverter",
    _FRAMED: "a serializer of a registry has written it; values of Avro are read by value_format='avro' with registry, "
    "keys are text or JSON",
    _FRAMED_KEY: "write keys as text, by StringSerializer, or in Connect by org.apache.kafka.connect.storage."
    "StringConverter",
    UNFIT_MESSAGE: "give descriptors of the newest version of the message, made by protoc --include_imports",
}
# Kafka's columns, and ours of them.
_METADATA = {
    "key": f"CAST({KEY} AS STRING)",
    "partition": f"{_PLACE}.partition",
    "offset": f"{_PLACE}.offset",
    "timestamp": f"{_PLACE}.timestamp",
    "headers": f"{_PLACE}.headers",
}

Decode = Callable[[DataFrame], tuple[DataFrame, list[str]]]


@dataclass(frozen=True, kw_only=True)
class RecordBatch(RawBatch):
    """Records of a topic.

    :param topic: for messages.
    :param topic_id: of a topic that was made anew it is another one.
    """

    remedies: ClassVar[Mapping[str, str]] = _REMEDIES
    topic: str
    topic_id: str = ""

    def first_place(self, rows: DataFrame, is_bad: Column) -> str:
        """Return topic, partition and offset of the first bad record, for a message."""
        first = rows.filter(is_bad).select(sf.min(PLACE).alias("first")).collect()[0]["first"]
        return f"the first is offset {first['offset']} of partition {first['partition']} of topic {self.topic}"

    def placed(self, rows: DataFrame) -> DataFrame:
        """Return records with their partition as the file, and their offset as the line."""
        identity = (text_literal(self.topic_id), f"{PLACE}.partition", f"{PLACE}.offset")
        return rows.selectExpr(
            "*",
            f"concat({text_literal(f'{self.topic}/')}, {PLACE}.partition) AS file",
            f"{PLACE}.offset AS line",
            f"concat_ws('/', {', '.join(identity)}) AS {IDENTITY}",
        )

    def refuse_unparsable(self, count: int) -> None:
        """Refuse records that cannot be read as they are declared.

        :raises BadInputError: above 0; it names partition and offset of the first ones.
        :raises UndecidedTextError: records have schemas that were not looked for yet.
        """
        if not count:
            return
        faulty = self.rows.filter(sf.col(UNPARSABLE).isNotNull()).select(UNPARSABLE)
        if not faulty.filter(sf.col(UNPARSABLE).endswith(UNSEEN)).isEmpty():
            raise UndecidedTextError
        shown = [str(row[0]) for row in faulty.orderBy(UNPARSABLE).limit(_SHOWN).collect()]
        more = f", and {count - len(shown)} others" if count > len(shown) else ""
        raise BadInputError(
            f"{count} records of topic {self.topic} cannot be read: {'; '.join(shown)}{more}. Give the schema that "
            "they have; a record without a value deletes a row in an upsert whose KafkaTopic has key_schema, and "
            f"tombstones='skip' leaves it out{self.remedies_of(shown)}"
        )


def read_records(
    source: KafkaTopic,
    records: DataFrame,
    decode: Decode | None,
    *,
    deletes: bool,
    has_order: bool,
    topic_id: str = "",
    keeps_records: bool = False,
) -> RecordBatch:
    """Return the records of Kafka's reader as rows, lazily.

    :param records: of Spark's reader.
    :param decode: makes columns of values of Avro or Protobuf; None for other formats.
    :param deletes: whether a record without a value is a delete.
    :param has_order: whether offsets order the records of each key.
    :param keeps_records: whether bad ones are put aside: ``_lake_unparsable`` has no place then, which stands beside
        it. The names of fields are looked at in each record.
    """
    if source.tombstones == Tombstones.SKIP:
        records = records.filter("value IS NOT NULL")
    headers = ", headers" if "headers" in source.metadata_columns else ""
    rows = records.selectExpr(
        f"key AS {KEY}",
        f"value AS {VALUE}",
        f"struct(partition, offset, timestamp{headers}) AS {_PLACE}",
        _first_fault(source, deletes=deletes),
    )
    rows, names = _with_keys(rows, source, is_each=keeps_records)
    rows, values = _with_values(rows, source, decode, names, is_each=keeps_records)
    bytes_of_value = [f"{VALUE} AS value"] if source.value_format == ValueFormat.BINARY else []
    metadata = [f"{_METADATA[name]} AS {METADATA_PREFIX}{name}" for name in source.metadata_columns]
    made = rows.selectExpr(
        *map(quoted_name, [*names, *values]),
        *bytes_of_value,
        *metadata,
        *([f"CASE WHEN {VALUE} IS NULL THEN 'delete' ELSE 'insert' END AS {CHANGE_TYPE}"] if deletes else []),
        *([f"struct({_PLACE}.offset, {_PLACE}.partition) AS {ARRIVAL}"] if has_order else []),
        UNPARSABLE if keeps_records else f"CASE WHEN {UNPARSABLE} IS NOT NULL THEN {_PLACED_FAULT} END AS {UNPARSABLE}",
        *(_of_letters(source) if keeps_records else []),
    )
    return RecordBatch(
        rows=made.persist(),
        has_arrival=has_order,
        may_be_unparsable=True,
        has_change_type=deletes,
        has_bare_deletes=deletes,
        topic=source.topic,
        topic_id=topic_id,
    )


def _with_keys(rows: DataFrame, source: KafkaTopic, *, is_each: bool) -> tuple[DataFrame, list[str]]:
    """Add the columns of the key, and return their names."""
    keys = list(parse_ddl(source.key_schema)) if source.key_schema else []
    if keys:
        is_text = source.key_format == KeyFormat.TEXT
        rows = _with_text_key(rows, keys) if is_text else _with_json(rows, KEY, keys, is_each=is_each)
    return rows, [field.name for field in keys]


def _with_values(
    rows: DataFrame, source: KafkaTopic, decode: Decode | None, of_key: Sequence[str], *, is_each: bool
) -> tuple[DataFrame, list[str]]:
    """Add the columns that are made of values, and return their names without those of the key."""
    lower = {name.lower() for name in of_key}
    if source.value_format == ValueFormat.JSON:
        fields = [field for field in parse_ddl(str(source.schema)) if field.name.lower() not in lower]
        refuse_other_keys(StructType(fields), f"records of topic {source.topic}")
        return _with_json(rows, VALUE, fields, is_each=is_each), [field.name for field in fields]
    if decode is None:
        return rows, []
    rows, decoded = decode(rows)
    return rows, [name for name in decoded if name.lower() not in lower]


def _of_letters(source: KafkaTopic) -> list[str]:
    """Return SQL of what the letter of a record needs: its value as text, its place, and its key where that is read."""
    key = f"concat('its key is ', {_as_text(KEY)})" if source.key_schema else "CAST(NULL AS STRING)"
    place = f"struct({_PLACE}.partition, {_PLACE}.offset) AS {PLACE}"
    return [f"{_as_text(VALUE)} AS {RECORD}", place, f"{key} AS {NOTE}"]


def _as_text(value: str) -> str:
    text = f"CAST({value} AS STRING)"
    # Of Avro and Protobuf the bytes of one record are text, and those of another one are none.
    is_text = f"is_valid_utf8({text}) AND NOT {matches(text, _CONTROLS)}"
    return f"CASE WHEN {is_text} THEN {text} ELSE concat('hex:', hex({value})) END"


def with_fields(rows: DataFrame, names: Sequence[str], fault: Column) -> tuple[DataFrame, list[str]]:
    """Add the fields of ``DECODED`` as columns, and return their names.

    :param names: of all fields; those of the key are there, and are those of the key.
    :param fault: of a value that cannot be decoded; NULL for others.
    """
    there = {name.lower() for name in rows.columns}
    added = [name for name in names if name.lower() not in there]
    flagged = rows.withColumn(UNPARSABLE, sf.coalesce(UNPARSABLE, fault))
    return flagged.select("*", *(sf.col(DECODED).getField(name).alias(name) for name in added)), added


def _first_fault(source: KafkaTopic, *, deletes: bool) -> str:
    faults = [] if deletes else [("value IS NULL", _TOMBSTONE)]
    if source.key_schema:
        faults.append(("key IS NULL", _NO_KEY))
    if "key" in source.metadata_columns:
        faults.append(("NOT is_valid_utf8(CAST(key AS STRING))", f"{_NO_TEXT}{IN_COLUMN}key"))
    cases = " ".join(f"WHEN {condition} THEN {text_literal(fault)}" for condition, fault in faults)
    return f"{f'CASE {cases} END' if cases else 'CAST(NULL AS STRING)'} AS {UNPARSABLE}"


def _with_text_key(rows: DataFrame, fields: Sequence[StructField]) -> DataFrame:
    if len(fields) != 1:
        names = [field.name for field in fields]
        raise BadInputError(f"a key that is text has one column; give key_format='json', or one of {names}")
    (field,) = fields
    had = StructType([StructField(field.name, StringType())])
    # Text of a framed key, or of the bytes of a number, would be another key than the text of it.
    is_framed = (
        "false" if isinstance(field.dataType, BinaryType) else f"substring({KEY}, 1, 1) < X'20' AND {KEY} != X''"
    )
    fault = (
        f"CASE WHEN {is_framed} THEN {text_literal(_FRAMED_KEY)} "
        f"WHEN NOT is_valid_utf8({quoted_name(field.name)}) THEN {text_literal(f'{_NO_TEXT}, in key')} END"
    )
    texted = rows.selectExpr("*", f"CAST({KEY} AS STRING) AS {quoted_name(field.name)}")
    flagged = texted.withColumn(UNPARSABLE, sf.expr(f"coalesce({UNPARSABLE}, {fault})"))
    typed = typed_rows(flagged, had, StructType([field]), "csv")
    # In CSV nothing is NULL; a key is never.
    is_lost = sf.col(KEY).isNotNull() & quoted(field.name).isNull()
    fault_of_type = sf.when(is_lost, f"{CHANGED_VALUE}{IN_COLUMN}{field.name}")
    return typed.withColumn(UNPARSABLE, sf.coalesce(UNPARSABLE, fault_of_type))


def _with_json(rows: DataFrame, column: str, fields: Sequence[StructField], *, is_each: bool) -> DataFrame:
    """Add the fields of JSON objects, parsed as those of files are.

    :param is_each: whether faults are those of one record, which are told as of a line of a file.
    """
    plain = StructType([StructField(field.name, read_as(field.dataType, "json", {})) for field in fields])
    flagged = columns_text(StructType([*plain, StructField(UNPARSABLE, StringType())]))
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', {text_literal(UNPARSABLE)})"
    kept = [quoted_name(name) for name in rows.columns if name != UNPARSABLE]
    texted = rows.selectExpr("*", f"CAST({column} AS STRING) AS {_TEXT}")
    if is_each:
        # In a step of its own, so that it is made once.
        texted = texted.selectExpr("*", f"json_object_keys({_TEXT}) AS {_NAMES}")
    parsed = texted.selectExpr("*", f"from_json({_TEXT}, {text_literal(flagged)}, {options}) AS {_PARSED}")
    what = "" if column == VALUE else f"{IN_COLUMN}key"
    is_framed = f"{prefix_of(column)} IS NOT NULL"
    unfit, misnamed = text_literal(_UNFIT + what), ""
    if is_each:
        unfit, misnamed = fault_of_object(_TEXT, _PARSED, {}, plain), _fault_of_names(plain.names, what)
    is_object = f"is_valid_utf8({_TEXT}) AND {begins_with(_TEXT, '{')}"
    fault = (
        f"CASE WHEN {_TEXT} IS NULL THEN NULL "
        f"WHEN {is_framed} AND substring({column}, {PREFIX_BYTES + 1}, 1) = X'7B' "
        f"THEN {text_literal(_FRAMED_JSON + what)} "
        f"WHEN {is_framed} THEN {text_literal(_FRAMED + what)} "
        f"WHEN NOT ({is_object}) THEN {text_literal(_NO_OBJECT + what)} "
        f"WHEN {_PARSED}.{UNPARSABLE} IS NOT NULL THEN {unfit} "
        f"{misnamed}ELSE {fault_of_line(_TEXT)} END"
    )
    flat = parsed.selectExpr(
        *kept,
        *(f"{_PARSED}.{quoted_name(name)} AS {quoted_name(name)}" for name in plain.names),
        f"coalesce({UNPARSABLE}, {fault}) AS {UNPARSABLE}",
        _TEXT,
    )
    return typed_rows(flat, plain, StructType(list(fields)), "json", line=_TEXT).drop(_TEXT)


def _fault_of_names(names: Sequence[str], what: str) -> str:
    """Return cases of objects whose names are not those that are declared, and which would be rows of NULL."""
    if not names:
        return ""
    declared = f"array({', '.join(map(text_literal, names))})"
    lacking, others = (
        f"transform(array_except({these}, {those}), name -> lower(name))"
        for these, those in ((declared, _NAMES), (_NAMES, declared))
    )
    is_other_case = f"arrays_overlap({lacking}, {others})"
    is_unlike = f"size({_NAMES}) > 0 AND NOT arrays_overlap({_NAMES}, {declared})"
    cases = {is_other_case: _OTHER_CASE, is_unlike: _NO_FIELD}
    return "".join(f"WHEN {condition} THEN {text_literal(fault + what)} " for condition, fault in cases.items())
