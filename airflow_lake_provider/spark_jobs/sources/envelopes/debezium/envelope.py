"""Texts of events to change events of one source table; every accepted form becomes the same columns.

Forms are those of ``event_texts.py``. Values stay JSON text here, so that nothing is lost before the types are known.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType

from airflow_lake_provider.contracts.applied.log_positions import PostgresLogPosition
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.cdc.events import is_delete, position_of
from airflow_lake_provider.spark_jobs.sources.cdc.renamed_table import spellings
from airflow_lake_provider.spark_jobs.sources.cdc.sink_file_names import Names, partition_label
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.event_texts import (
    CORRUPT,
    DebeziumStream,
    EventTexts,
    envelope_fields,
    row_fields,
)
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.json_numbers import (
    ambiguous_columns,
    keys_with_all_digits,
    with_all_digits,
)
from airflow_lake_provider.spark_jobs.sources.faulty_lines import fault_of_line
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl
from airflow_lake_provider.spark_jobs.sql.identifiers import any_of, matches, text_literal
from airflow_lake_provider.spark_jobs.sql.nested_types import key_twice
from airflow_lake_provider.spark_jobs.sql.older_pyspark import is_utf8, try_cast

_IMAGE = "MAP<STRING, STRING>"
# What is no number of JSON, and one beyond every double; and what becomes of them in a text.
_NO_NUMBER = r"[:,\[]\s*+([+-]?(?:NaN|INF|Infinity|[0-9.]++[eE]\+?[0-9]{3,}))"
_WORD = r'"(?:-?Infinity|NaN)"'
_STRING = r'"(?:[^"\\]++|\\.)*+"'


def read_events(texts: EventTexts, source: DebeziumStream, keys: Sequence[str], names: Names = ()) -> DataFrame:
    """Return one row per change event of the source's table and per text that is no change event at all.

    Also one per tombstone whose place in Kafka is known: ``op`` is NULL in it, and it is not ``bad``. Other records of
    the connector are left out.

    :param texts: of the batch.
    :param keys: key columns.
    :param names: what the name of each file tells.
    :return: ``events.event_columns``. The place has the two LSNs of ``source.sequence``, see ``PostgresLogPosition``.
        ``ts_ms`` is of the source's clock. ``types`` is a text per distinct connect schema.
    """
    kept = _events_of_table(texts, source.table, _IMAGE, names)
    line, doubles = sf.col("value"), _doubles(source.schema)
    before = keys_with_all_digits(sf.col("before"), line, doubles, keys, is_before=True)
    kept = kept.withColumns({"after": with_all_digits(sf.col("after"), line, doubles), "before": before})
    rows = _row_columns(source, keys, doubles)
    return kept.select(
        ARRIVAL, "bad", "op", "table", *_places(names), _record_key(source.key_field_name), "after", *rows
    )


def _doubles(schema: str | None) -> list[str]:
    # A FLOAT of the digits may be another one than that of their double.
    declared = parse_ddl(schema).fields if schema else []
    return [field.name.lower() for field in declared if isinstance(field.dataType, DoubleType)]


def read_images(texts: EventTexts, table: str) -> DataFrame:
    """Return ``after``, else ``before``, else the record's key, of the table's events as one column of JSON text."""
    return _events_of_table(texts, table, "STRING").select(sf.coalesce("after", "before", "key_text"))


def count_tables(texts: EventTexts, limit: int) -> dict[str, int]:
    """Return how many events of which tables the texts hold, whatever table is read; those with the most."""
    events = _parse(texts, "STRING").filter("op != 'm' AND source_table IS NOT NULL")
    table = sf.concat_ws(".", "source_schema", "source_table").alias("table")
    counts = events.groupBy(table).count().orderBy(sf.desc("count"), "table").limit(limit).collect()
    return {row["table"]: row["count"] for row in counts}


def mark_bad(texts: EventTexts, table: str) -> DataFrame:
    """Return every text's arrival and ``bad``, whether ``read_events`` counts it as no change event."""
    return _parse(texts, _IMAGE).select(ARRIVAL, (sf.col("bad") & _may_be_of(table)).alias("bad"))


def first_bad_text(texts: EventTexts, table: str) -> str:
    """Return the first text that ``read_events`` counts as no change event."""
    bad = _parse(texts, _IMAGE).filter(sf.col("bad") & _may_be_of(table))
    return str(bad.agg(sf.min_by("value", ARRIVAL)).collect()[0][0])


def _events_of_table(texts: EventTexts, table: str, image: str, names: Names | None = None) -> DataFrame:
    spellings = (sf.col("source_table"), sf.concat_ws(".", "source_schema", "source_table"), sf.col("table"))
    of_table = sf.lit(table).isin(*spellings)
    # A logical message ('m') may name a table and carries no row.
    wanted = sf.col("bad") | (of_table & ~is_message())
    parsed = _parse(texts, image, _may_be_of(table))
    if names is None:
        return parsed.filter(wanted)
    placed_tombstone = sf.col("tombstone") & partition_label(names).isNotNull()
    return parsed.filter(sf.coalesce(wanted, sf.lit(False)) | placed_tombstone)


def _may_be_of(table: str) -> Column:
    """Tell lines that plainly name another table: a stream of many tables is parsed once per table it is read for."""
    if not re.fullmatch(r"[\w.]+", table, re.ASCII):
        # An encoder may have escaped it.
        return sf.lit(True)
    names = "|".join(map(re.escape, spellings(table)))
    # A row that a transform took out of its envelope may have a column of that name.
    is_envelope = sf.contains(sf.col("value"), sf.lit('"op"')) | sf.contains(sf.col("value"), sf.lit('"source"'))
    names_other = sf.col("value").rlike(r'"table"\s*:') & is_envelope
    return sf.col("value").rlike(rf'"table"\s*:\s*"(?:{names})"') | ~names_other


def _parse(texts: EventTexts, image: str, where: Column | None = None) -> DataFrame:
    read = texts.read(envelope_fields(image), where).select(ARRIVAL, "value", *_event_columns(texts))
    # A row that some tool took out of its envelope may lack "value" or hold anything else there: that is no tombstone.
    says_null = sf.array_contains(sf.json_object_keys("value"), "value") & sf.col("no_value") & ~sf.col("corrupt")
    tombstone = sf.col("op").isNull() & sf.col("is_record") & sf.coalesce(says_null, sf.lit(False))
    # A transform may have taken the table's name away: an event that nobody can give to a table is none of another one.
    # A row without its envelope may have a column "op" that is 'm'. A message has a clock, with or without a table.
    of_no_table = sf.col("source_table").isNull() & (~is_message() | sf.col("ts_ms").isNull())
    if image == _IMAGE:
        read = read.withColumn("corrupt", sf.col("corrupt") | _is_misread())
    no_event = sf.when(tombstone, sf.lit(False)).otherwise(sf.col("corrupt") | ~is_service_record("value"))
    # An object that is cut off tells no columns of the key.
    broken_key = sf.col("key_text").startswith("{") & sf.json_object_keys("key_text").isNull()
    bad_event = sf.col("corrupt") | of_no_table | sf.coalesce(broken_key, sf.lit(False))
    bad = sf.when(sf.col("op").isNull(), no_event).otherwise(bad_event)
    full_name = sf.concat_ws(".", "source_db", "source_schema", "source_table")
    return read.withColumns({"tombstone": tombstone, "bad": bad, "table": full_name})


def _event_columns(texts: EventTexts) -> list[Column]:
    """The envelope wherever the text has it, its connect schema, and what tells a tombstone from nonsense."""
    fields = {f"source_{part}": f"source.{part}" for part in ("db", "schema", "table")}
    fields.update({name: f"source.{name}" for name in ("sequence", "ts_ms", "snapshot")})
    fields.update({name: name for name in ("before", "after", "op")})
    return [
        # At most one of the forms has any of an envelope's fields.
        *(sf.coalesce(*(sf.col(f"{form}.{field}") for form in texts.forms)).alias(n) for n, field in fields.items()),
        sf.coalesce(*(sf.col(f"{form}.schema") for form in texts.with_schema)).alias("schema"),
        _is_corrupt().alias("corrupt"),
        *texts.record_columns(),
    ]


def _is_misread() -> Column:
    """Return whether a row has a column twice, or a number of which Spark's parser makes a word in quotes."""
    images = ("before", "after")
    is_twice = any_of(map(key_twice, images))
    has_word = any_of(f"exists(map_values({each}), text -> {matches('text', _WORD)})" for each in images)
    # A text may hold such words, with their quotes, beside a great number. Without texts the line is sure.
    bare = f"regexp_extract_all(regexp_replace(value, {text_literal(_STRING)}, ''), {text_literal(_NO_NUMBER)}, 1)"
    # NaN is above infinity.
    is_none = f"exists({bare}, number -> abs(try_cast(number AS DOUBLE)) >= double('Infinity'))"
    # The text is looked through once for both rows, and few have one.
    of_number = f"{matches('value', _NO_NUMBER)} AND ({has_word}) AND {is_none}"
    return sf.expr(f"coalesce({is_twice}, false) OR coalesce({of_number}, false)")


def _is_corrupt() -> Column:
    is_parsed = sf.col("line").isNotNull() & sf.col(f"line.{CORRUPT}").isNull()
    # The parser of JSON puts a mark in the place of bytes that are no UTF-8, and says nothing.
    return ~(is_parsed & is_utf8("value")) | sf.expr(f"{fault_of_line('value')} IS NOT NULL")


def _row_columns(source: DebeziumStream, keys: Sequence[str], doubles: Sequence[str]) -> list[Column]:
    # Without an old image, the record's key still tells whose row is gone.
    key = sf.map_filter(_key_fields("key_text"), lambda name, _: name != source.key_field_name)
    # A line has the record's key before it was parsed. Beside a row it is not looked at.
    key = keys_with_all_digits(key, sf.concat("value", "key_text"), doubles, keys)
    image = sf.when(is_delete(), sf.coalesce("before", key)).otherwise(sf.col("after"))
    line = sf.when(is_delete() & sf.col("before").isNull(), sf.col("key_text")).otherwise(sf.col("value"))
    holes = sf.map_keys(sf.map_filter("after", lambda _, text: is_placeholder(text, source.unavailable_value)))
    return [
        sf.map_keys(image).alias("image"),
        sf.coalesce(holes, sf.array().cast("ARRAY<STRING>")).alias("holes"),
        ambiguous_columns(source, image, line).alias("ambiguous"),
        _texts(image, keys).alias("key"),
        sf.when(sf.col("before").isNotNull(), _texts(sf.col("before"), keys)).alias("key_before"),
        key_texts("old_key", keys, doubles).alias("old_key"),
        key_texts("new_key", keys, doubles).alias("new_key"),
        _types_text().alias("types"),
    ]


def _texts(image: Column, keys: Sequence[str]) -> Column:
    return sf.array(*(sf.element_at(image, key) for key in keys))


def _places(names: Names) -> list[Column | str]:
    """Return the place of the event in the source, and that of its record in Kafka."""
    sequence = sf.from_json("sequence", "ARRAY<STRING>")
    lsn = try_cast(sf.get(sequence, sf.lit(1)), "bigint")
    last_commit = try_cast(sf.get(sequence, sf.lit(0)), "bigint")
    # Before the first commit there is none to name: what a snapshot reads stands at its own place.
    own_lsn = sf.when(sf.get(sequence, sf.lit(0)).isNull(), lsn)
    offset = try_cast(sf.col("offset"), "bigint")
    # An incremental snapshot has the connector's clock, which may be long after the place in the log.
    of_server = sf.coalesce(sf.col("snapshot") != "incremental", sf.lit(True))
    return [
        position_of(PostgresLogPosition, last_commit_lsn=sf.coalesce(own_lsn, last_commit), lsn=lsn).alias("position"),
        lsn.alias("ordinal"),
        last_commit.alias("last_commit"),
        sf.when(of_server, try_cast(sf.col("ts_ms"), "bigint")).alias("ts_ms"),
        partition_label(names).alias("partition"),
        sf.when(offset >= 0, offset).alias("offset"),
    ]


def _record_key(added: str) -> Column:
    """Names of the columns of the record's key; a bare value, and text of another converter, have none to tell.

    :param added: field that a transform adds to the key, and no row has.
    """
    names = sf.json_object_keys("key_text")
    wrapped = sf.get_json_object("key_text", "$.payload")
    payload = sf.when(wrapped.isNull(), sf.array().cast("ARRAY<STRING>")).otherwise(sf.json_object_keys(wrapped))
    named = sf.when(sf.array_contains(names, "payload") & sf.array_contains(names, "schema"), payload).otherwise(names)
    # A sink may write records without their keys, which tells nothing.
    keyless = sf.when(sf.col("tells_key"), sf.array().cast("ARRAY<STRING>"))
    columns = sf.when(sf.col("key_text").isNull(), keyless).otherwise(sf.array_sort(sf.array_remove(named, added)))
    return sf.when(sf.col("of_record"), columns).alias("record_key")


def key_texts(name: str, keys: Sequence[str], doubles: Sequence[str] = ()) -> Column:
    """Return the texts of the key columns in a record's key, or in a header with one; NULL where one is missing.

    :param doubles: names of columns that become a double, in lower case.
    """
    texts = _texts(keys_with_all_digits(_key_fields(name), sf.col(name), doubles, keys), keys)
    return sf.when(~sf.exists(texts, lambda text: text.isNull()), texts)


def _key_fields(text: str) -> Column:
    """Return the fields of a key, which may stand beside its schema."""
    plain = sf.from_json(text, _IMAGE)
    return sf.coalesce(sf.from_json(sf.element_at(plain, "payload"), _IMAGE), plain)


def _types_text() -> Column:
    """The connect types of the row, ``[["name", [type, name, scale, precision], [the same of items]], ...]``."""

    def described(connect: Column) -> Column:
        scale = sf.element_at(connect["parameters"], "scale")
        precision = sf.element_at(connect["parameters"], "connect.decimal.precision")
        return sf.array(connect["type"], connect["name"], scale, precision)

    return sf.to_json(
        sf.transform(
            row_fields(),
            lambda field: sf.struct(
                field["field"].alias("column"), described(field).alias("self"), described(field["items"]).alias("items")
            ),
        )
    )


def is_message() -> Column:
    """Tell whether an event concerns no row."""
    return sf.col("op") == "m"


def is_placeholder(text: Column, unavailable: bytes) -> Column:
    """Return whether the JSON text of a value is one of the placeholder's forms.

    :param unavailable: the connector's placeholder.
    """
    forms = list(dict.fromkeys(_forms(unavailable)))
    compact = [form.replace(" ", "") for form in forms if form[:1] in ("[", "{")]
    # Every value of every event is looked at, and most of a long one need not be.
    is_short = sf.octet_length(text) <= 2 * max(len(form.encode()) for form in forms)
    # Only an array or a map can hold spaces that some rewriting tool put there.
    is_nested = text.startswith("[") | text.startswith("{")
    is_form = text.isin(*forms) | (is_nested & sf.replace(text, sf.lit(" "), sf.lit("")).isin(*compact))
    return sf.coalesce(is_short & is_form, sf.lit(False))


def _forms(unavailable: bytes) -> Iterator[str]:
    text = unavailable.decode(errors="replace")
    scalars = [
        text,
        unavailable.hex(),
        unavailable.hex().upper(),
        base64.b64encode(unavailable).decode(),
        base64.urlsafe_b64encode(unavailable).decode(),
    ]
    yield from scalars
    # Of numbers and of dates: the placeholder's bytes, which Java takes for signed ones. Of decimals each is unscaled.
    signed = [byte - 256 if byte > 127 else byte for byte in unavailable]
    unscaled = [base64.b64encode(bytes([byte])).decode() for byte in unavailable]
    for numbers in (signed, [float(number) for number in signed], unscaled):
        yield from _json(numbers)
    yield from _json([{"scale": 0, "value": number} for number in unscaled])
    for element in (*scalars, _uuid(unavailable)):
        yield from _json([element])
    # Of hstore, as a map and as JSON.
    yield from _json({text: text})


def _uuid(unavailable: bytes) -> str:
    """Return the name-based UUID of bytes without a namespace, as Java's ``UUID.nameUUIDFromBytes``."""
    digest = hashlib.md5(unavailable, usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def _json(value: object) -> Iterator[str]:
    for is_ascii in (True, False):
        yield json.dumps(value, separators=(",", ":"), ensure_ascii=is_ascii)


class _Fields(NamedTuple):
    """Fields of one kind of record: those it always has, and those it may have.

    :param statuses: values that ``status`` may have; empty where the kind has no such field.
    """

    needed: tuple[str, ...]
    others: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()


_KINDS = (
    # Heartbeat.
    _Fields(("ts_ms",)),
    # Begin or end of a transaction. A row without its envelope may have the same columns.
    _Fields(("status", "id"), ("event_count", "data_collections", "ts_ms"), ("BEGIN", "END")),
    # Schema change; of connectors that have no schema of tables, without schemaName.
    _Fields(("source", "tableChanges"), ("ts_ms", "databaseName", "schemaName", "ddl")),
    _Fields(("source", "ddl"), ("ts_ms", "databaseName", "schemaName", "tableChanges")),
    # Notification.
    _Fields(("id", "aggregate_type", "type"), ("additional_data", "timestamp")),
)


def is_service_record(line: str) -> Column:
    """Return whether a line of JSON is such a record, in any of the forms that events have.

    :param line: column of text that is no change event.
    """
    forms = ("$.value.payload", "$.value", "$.payload")
    value = sf.coalesce(*(sf.get_json_object(line, form) for form in forms), sf.col(line))
    names = sf.json_object_keys(value)
    return sf.coalesce(reduce(or_, (_has(value, names, fields) for fields in _KINDS)), sf.lit(False))


def _has(value: Column, names: Column, fields: _Fields) -> Column:
    needed = sf.array(*map(sf.lit, fields.needed))
    allowed = sf.array(*map(sf.lit, (*fields.needed, *fields.others)))
    of_kind = (sf.size(sf.array_except(needed, names)) == 0) & (sf.size(sf.array_except(names, allowed)) == 0)
    return of_kind & sf.get_json_object(value, "$.status").isin(*fields.statuses) if fields.statuses else of_kind
