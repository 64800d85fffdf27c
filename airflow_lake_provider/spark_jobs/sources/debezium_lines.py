"""Lines of text to change events of one source table; every accepted form becomes the same columns.

Forms: a bare envelope; ``{"schema", "payload"}``; a Kafka record ``{"topic", "key", "value"[, "headers"]}`` whose value
is either of them, or null, which is a tombstone. Values stay JSON text here, so that nothing is lost before the types
are known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.job_spec import Source
from airflow_lake_provider.contracts.source_position import InputFile
from airflow_lake_provider.spark_jobs.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.arrival import literal_paths, with_arrival

# What stands for a value the server did not send: as text, as base64 of bytes, as the bytes of an integer array, and
# as the one element of any other array.
_PLACEHOLDER = "__debezium_unavailable_value"
_PLACEHOLDERS = (
    _PLACEHOLDER,
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    "[" + ",".join(str(byte) for byte in _PLACEHOLDER.encode()) + "]",
    f'["{_PLACEHOLDER}"]',
)

_CONNECT_TYPE = "type: STRING, name: STRING, parameters: MAP<STRING, STRING>"
_SCHEMA = (
    "STRUCT<fields: ARRAY<STRUCT<field: STRING, fields: ARRAY<STRUCT<field: STRING, "
    f"{_CONNECT_TYPE}, items: STRUCT<{_CONNECT_TYPE}>>>>>>"
)
_CORRUPT = "_lake_corrupt"


def _line_schema(image: str) -> str:
    envelope = (
        f"before: {image}, after: {image}, op: STRING, "
        "source: STRUCT<`schema`: STRING, `table`: STRING, sequence: STRING>"
    )
    value = f"{envelope}, `schema`: {_SCHEMA}, payload: STRUCT<{envelope}>"
    line = f"{value}, topic: STRING, `key`: STRING, headers: MAP<STRING, STRING>, `value`: STRUCT<{value}>"
    return f"STRUCT<{line}, {_CORRUPT}: STRING>"


def read_lines(spark: SparkSession, source: Source, files: tuple[InputFile, ...]) -> DataFrame:
    """Return the non-empty lines as ``value`` with their arrival.

    :param source: its options go to Spark's text reader (``lineSep``).
    """
    lines = spark.read.options(**source.options).text(literal_paths(files))
    return with_arrival(spark, lines, files).filter(sf.length(sf.trim("value")) > 0)


def parse_events(lines: DataFrame, table: str, keys: Sequence[str], text_images: bool = False) -> DataFrame:
    """Return one row per change event of ``table`` and per line that is no change event at all.

    :param lines: see :func:`read_lines`.
    :param table: ``table`` or ``schema.table`` of the event's source.
    :param keys: key columns.
    :param text_images: give ``before`` and ``after`` as JSON text, without the columns that are made of them.
    :return: ``_lake_arrival``; ``bad`` (no change event); ``op``; ``sequence`` (array of two numbers as text);
        ``after`` (column -> JSON text); ``image`` (names in ``after``, or in ``before`` for a delete); ``holes`` (names
        of unavailable values); ``key``, ``key_before``, ``old_key`` (texts in the order of ``keys``, or NULL);
        ``types`` (text per distinct connect schema, NULL without one).
    """
    of_table = (sf.col("event.source.table") == table) | (
        sf.concat_ws(".", "event.source.schema", "event.source.table") == table
    )
    # A logical message ('m') may name a table and carries no row.
    kept = _parse(_may_be_of(lines, table), "STRING" if text_images else "MAP<STRING, STRING>").filter(
        sf.col("bad") | (of_table & (sf.col("event.op") != "m"))
    )
    sequence = sf.from_json("event.source.sequence", "ARRAY<STRING>").alias("sequence")
    columns = [sf.col(ARRIVAL), sf.col("bad"), sf.col("event.op").alias("op"), sequence]
    if text_images:
        return kept.select(*columns, "event.before", "event.after")
    return kept.select(*columns, sf.col("event.after").alias("after"), *_row_columns(keys))


def _may_be_of(lines: DataFrame, table: str) -> DataFrame:
    """Drop lines that plainly name another table: a stream of many tables is parsed once per table it is read for."""
    name = table.rpartition(".")[2]
    if not re.fullmatch(r"\w+", name, re.ASCII):
        # An encoder may have escaped it.
        return lines
    names_it, names_any = sf.col("value").rlike(rf'"table"\s*:\s*"{name}"'), sf.col("value").rlike(r'"table"\s*:')
    return lines.filter(names_it | ~names_any)


def mark_bad(lines: DataFrame) -> DataFrame:
    """Return every line's arrival and ``bad``, whether it is neither a change event nor a tombstone."""
    return _parse(lines, "STRING").select(ARRIVAL, "bad")


def _parse(lines: DataFrame, image: str) -> DataFrame:
    parsed = sf.from_json("value", _line_schema(image), {"columnNameOfCorruptRecord": _CORRUPT})
    # Two steps, since from_json is evaluated once for each of its fields that a single projection takes.
    read = lines.select(ARRIVAL, parsed.alias("line")).select(ARRIVAL, *_event_columns())
    no_event = sf.col("event.op").isNull()
    tombstone = no_event & sf.col("is_record") & sf.col("no_value") & ~sf.col("corrupt")
    return read.withColumn("bad", (sf.col("corrupt") | no_event) & ~tombstone)


def _event_columns() -> list[Column]:
    """The envelope wherever the line has it, its connect schema, and what tells a tombstone from nonsense."""
    forms = ("line.value.payload", "line.value", "line.payload", "line")
    names = ("before", "after", "op", "source")
    choices = [(sf.col(f"{form}.op"), sf.struct(*(sf.col(f"{form}.{name}") for name in names))) for form in forms]
    event = sf.coalesce(*(sf.when(op.isNotNull(), envelope) for op, envelope in choices))
    return [
        event.alias("event"),
        sf.coalesce("line.value.schema", "line.schema").alias("schema"),
        sf.element_at("line.headers", "__debezium.oldkey").alias("old_key"),
        (sf.col("line").isNull() | sf.col(f"line.{_CORRUPT}").isNotNull()).alias("corrupt"),
        (sf.col("line.topic").isNotNull() | sf.col("line.key").isNotNull()).alias("is_record"),
        (sf.col("line.value").isNull() | sf.col("line.value.payload").isNull()).alias("no_value"),
    ]


def _row_columns(keys: Sequence[str]) -> list[Column]:
    image = sf.when(sf.col("event.op") == "d", sf.col("event.before")).otherwise(sf.col("event.after"))
    holes = sf.map_keys(sf.map_filter("event.after", lambda _, text: _is_placeholder(text)))
    return [
        sf.map_keys(image).alias("image"),
        sf.coalesce(holes, sf.array().cast("ARRAY<STRING>")).alias("holes"),
        _texts(image, keys).alias("key"),
        sf.when(sf.col("event.before").isNotNull(), _texts(sf.col("event.before"), keys)).alias("key_before"),
        _old_key(keys).alias("old_key"),
        _types_text().alias("types"),
    ]


def _is_placeholder(text: Column) -> Column:
    # Only an array can hold spaces that some rewriting tool put there, and the longest placeholder has 107 characters.
    short_array = text.startswith("[") & (sf.length(text) < 200)
    compact = sf.when(short_array, sf.replace(text, sf.lit(" "), sf.lit(""))).otherwise(text)
    return sf.coalesce(compact.isin(*_PLACEHOLDERS), sf.lit(False))


def _texts(image: Column, keys: Sequence[str]) -> Column:
    return sf.array(*(sf.element_at(image, key) for key in keys))


def _old_key(keys: Sequence[str]) -> Column:
    """The header of a create that comes from a key change; NULL unless it has all key columns."""
    plain = sf.from_json("old_key", "MAP<STRING, STRING>")
    payload = sf.from_json(sf.element_at(plain, "payload"), "MAP<STRING, STRING>")
    texts = _texts(sf.coalesce(payload, plain), keys)
    return sf.when(~sf.exists(texts, lambda text: text.isNull()), texts)


def _types_text() -> Column:
    """The connect types of the row, ``[["name", [type, name, scale, precision], [the same of items]], ...]``."""
    fields = sf.filter("schema.fields", lambda field: field["field"] == "after")[0]["fields"]

    def described(connect: Column) -> Column:
        scale = sf.element_at(connect["parameters"], "scale")
        precision = sf.element_at(connect["parameters"], "connect.decimal.precision")
        return sf.array(connect["type"], connect["name"], scale, precision)

    return sf.to_json(
        sf.transform(
            fields,
            lambda field: sf.struct(
                field["field"].alias("column"), described(field).alias("self"), described(field["items"]).alias("items")
            ),
        )
    )
