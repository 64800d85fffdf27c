"""Dead letters of a batch: records that cannot be applied, each with its place and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StructType, TimestampNTZType, TimestampType

from airflow_lake_provider.contracts.argument_validation import share_of
from airflow_lake_provider.contracts.author.reader_options import TEXT_FORMATS
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reserved_columns import CHANGE_TYPE
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.spark_jobs.batch.change_batch import (
    ARRIVAL,
    LETTER_ID,
    PLACE,
    RECORD,
    REPLAYED_AT,
    TEXTS_OF_TIMES,
    UNPARSABLE,
    DeadLetters,
    Fault,
)
from airflow_lake_provider.spark_jobs.sources.faulty_lines import CHANGED_VALUE, ROUNDED
from airflow_lake_provider.spark_jobs.sources.raw_batch import IDENTITY, NOTE, RawBatch
from airflow_lake_provider.spark_jobs.sources.unreadable_files import refuse_disguised
from airflow_lake_provider.spark_jobs.sql.identifiers import any_of, quoted_name, text_literal
from airflow_lake_provider.spark_jobs.sql.nested_types import conditions_inside

_REASON, _CLASS = "_lake_reason", "_lake_error_class"
_UNREADABLE = "UNREADABLE_RECORD"
_SHOWN = 3
_LOCAL = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_ZONED = f"{_LOCAL}XXX"
_IN_SIX = {"timestampFormat": _ZONED, "timestampNTZFormat": _LOCAL}


def without_dead_letters(
    spec: LoadSpec, raw: RawBatch, keys: Sequence[str], table_schema: StructType | None, broken: Sequence[Fault] = ()
) -> tuple[RawBatch, DeadLetters | None]:
    """Return the records of a batch that can be applied, and the others; one job counts them.

    :param keys: columns that may not be NULL, as the batch spells them.
    :param table_schema: of the target, whose required columns each record has to fill; None where it need not.
    :param broken: what breaks the schema contract.
    :raises BadInputError: the others are a greater share than ``max_share``, of which it shows what is wrong with them;
        or a file with some is no text.
    """
    assert spec.dead_letter is not None, "else records that cannot be applied are refused"
    faults = [*_faults(spec, raw, keys, table_schema), *broken]
    reason, kind = (" ".join(f"WHEN {fault[0]} THEN {fault[place]}" for fault in faults) for place in (1, 2))
    judged = raw.rows.withColumns(
        {_REASON: sf.expr(f"CASE {reason} END"), _CLASS: sf.expr(f"CASE {kind} END")}
        if faults
        else {_REASON: sf.lit(None).cast("string"), _CLASS: sf.lit(None).cast("string")}
    )
    # Of each record there may be another reason.
    counts = {row[_CLASS]: row["count"] for row in judged.groupBy(_CLASS).count().collect()}
    read, dead = sum(counts.values()), sum(count for kind, count in counts.items() if kind is not None)
    if _UNREADABLE in counts:
        _refuse_disguised(spec, judged, raw)
    if dead > share_of(read, spec.dead_letter.max_share):
        _refuse(spec, judged, raw, dead, read)
    hidden = (RECORD, PLACE, NOTE, TEXTS_OF_TIMES, UNPARSABLE, _REASON, _CLASS)
    without = replace(raw, in_any_order=None, may_be_unparsable=False)
    letters = DeadLetters(target=spec.table, count=dead, rows=raw.rows.limit(0), judged=raw.rows)
    if not dead:
        return replace(without, rows=raw.rows.drop(*hidden)), letters
    kept = judged.filter(f"{_REASON} IS NULL").drop(*hidden)
    of_dead = _letters(spec, judged.filter(f"{_REASON} IS NOT NULL"), raw)
    return replace(without, rows=kept), replace(letters, rows=of_dead)


def _faults(spec: LoadSpec, raw: RawBatch, keys: Sequence[str], table_schema: StructType | None) -> Iterator[Fault]:
    """Yield conditions with SQL of what is wrong with a record in words, and of its class."""
    if raw.may_be_unparsable:
        is_lost = any_of(f"startswith({UNPARSABLE}, {text_literal(fault)})" for fault in (CHANGED_VALUE, ROUNDED))
        kind = f"IF({is_lost}, 'LOST_VALUE', '{_UNREADABLE}')"
        yield f"{UNPARSABLE} IS NOT NULL", UNPARSABLE, kind
    for key in keys:
        yield (
            f"{quoted_name(key)} IS NULL",
            text_literal(f"NULL in the column {key}, which tells rows apart"),
            "'NULL_KEY'",
        )
    # A row that deletes may have its key alone.
    is_row = f" AND coalesce({CHANGE_TYPE}, '') <> 'delete'" if raw.has_change_type else ""
    for name in _required(spec, raw.rows.columns, table_schema):
        yield (
            f"{quoted_name(name)} IS NULL{is_row}",
            text_literal(f"NULL in the column {name}, which the table requires"),
            "'NULL_VALUE'",
        )


def _required(spec: LoadSpec, columns: Sequence[str], table_schema: StructType | None) -> list[str]:
    """Return the columns of a batch in which the table takes no NULL."""
    required = {field.name.lower() for field in table_schema or () if not field.nullable}
    excluded = {name.lower() for name in spec.exclude_columns}
    return [name for name in columns if name.lower() in required - excluded]


def _refuse(spec: LoadSpec, judged: DataFrame, raw: RawBatch, dead: int, read: int) -> None:
    letter: Any = spec.dead_letter
    is_dead = sf.col(_REASON).isNotNull()
    by_reason = judged.filter(is_dead).groupBy(_REASON).count()
    worst = by_reason.orderBy(sf.desc("count"), sf.desc(_REASON)).limit(_SHOWN).collect()
    reasons = "; ".join(f"{row[_REASON]}: {row['count']}" for row in worst)
    place, remedies = raw.first_place(judged, is_dead), raw.remedies_of([str(row[_REASON]) for row in worst])
    raise BadInputError(
        f"{spec.table}: {dead} of {read} records cannot be applied, which is more than max_share={letter.max_share:g} "
        f"of dead_letter takes ({reasons}): {place}. Nothing was written, nor to {letter.table}. Look whether schema "
        "and options of the source fit what it reads; where they do, give a greater max_share for this run"
        f"{remedies}"
    )


def _refuse_disguised(spec: LoadSpec, judged: DataFrame, raw: RawBatch) -> None:
    """Refuse a file that is no text, of which lines that nobody wrote would be letters, or rows.

    :raises BadInputError: naming the file, and what it is.
    """
    source = spec.source.files
    if source is None or source.format not in TEXT_FORMATS:
        return
    unreadable = judged.filter(f"{_CLASS} = '{_UNREADABLE}'")
    numbers = {row["file"] for row in unreadable.select(f"{ARRIVAL}.file").distinct().collect()}
    files = [raw.files[number] for number in sorted(numbers)]
    refuse_disguised(judged.sparkSession, files, source.options, skips_gone=True)


def _letters(spec: LoadSpec, dead: DataFrame, raw: RawBatch) -> DataFrame:
    """Return the rows of the table of dead letters, whose ids depend on the input alone."""
    record = sf.col(RECORD) if RECORD in dead.columns else json_of_rows(dead)
    placed = raw.placed(dead.withColumn("record", record))
    # Rows have other numbers in another try: the same text is told apart by how often it came before in its input.
    same = Window.partitionBy(IDENTITY, "record").orderBy(PLACE)
    of_load = (sf.lit(spec.table), sf.lit(spec.source_name))
    parts = [*of_load, sf.col(IDENTITY), sf.col("record"), sf.row_number().over(same)]
    return placed.select(
        sf.sha2(sf.concat_ws("\x1f", *parts), 256).alias(LETTER_ID),
        sf.lit(spec.table).alias("target"),
        sf.lit(spec.source_name).alias("source"),
        "file",
        "line",
        "record",
        sf.concat_ws("; ", _REASON, NOTE).alias("reason"),
        sf.col(_CLASS).alias("error_class"),
        sf.lit(datetime.now(UTC)).alias("put_aside_at"),
        sf.lit(spec.run.label).alias("run"),
        sf.lit(None).cast("string").alias("repaired"),
        sf.lit(None).cast("timestamp").alias(REPLAYED_AT),
    )


def json_of_rows(rows: DataFrame) -> Column:
    """Return each row as JSON. Times of whole milliseconds have three digits: the ids of letters depend on it."""
    fields = [field for field in rows.schema if not field.name.startswith("_lake_")]
    values = {field.name: quoted_name(field.name) for field in fields}
    finer = [each for field in fields for each in conditions_inside(values[field.name], field.dataType, _is_finer)]
    cases = [(any_of(finer), _json(values.values(), _IN_SIX))]
    if TEXTS_OF_TIMES in rows.columns:
        texts = {field.name: text for field in fields if (text := _text_of_time(field.name, field.dataType))}
        cases = [(f"{TEXTS_OF_TIMES} IS NOT NULL", _json({**values, **texts}.values(), _IN_SIX)), *cases]
    whens = " ".join(f"WHEN {condition} THEN {made}" for condition, made in cases)
    return sf.expr(f"CASE {whens} ELSE {_json(values.values(), {})} END")


def texts_of_nanoseconds(kinds: Mapping[str, DataType]) -> str:
    """Return SQL of a map of texts by lower-case name, for rows with a time that no table holds.

    :param kinds: types that the columns are to have, by the names of the numbers.
    """
    entries = ", ".join(f"{text_literal(name.lower())}, {_text(name, kind)}" for name, kind in kinds.items())
    return f"map({entries})"


def _text(column: str, kind: DataType) -> str:
    name = quoted_name(column)
    rest = f"pmod({name}, 1000)"
    micros = f"date_format(timestamp_micros(({name} - {rest}) DIV 1000), {text_literal(_LOCAL)})"
    zone = "Z" if isinstance(kind, TimestampType) else ""
    return f"concat({micros}, lpad({rest}, 3, '0'), '{zone}')"


def _text_of_time(name: str, kind: DataType) -> str | None:
    """Return SQL of a time as text, in nanoseconds where its file has them; None for other types."""
    if not isinstance(kind, (TimestampType, TimestampNTZType)):
        return None
    form = _ZONED if isinstance(kind, TimestampType) else _LOCAL
    in_six = f"date_format({quoted_name(name)}, {text_literal(form)})"
    return f"coalesce(try_element_at({TEXTS_OF_TIMES}, {text_literal(name.lower())}), {in_six}) AS {quoted_name(name)}"


def _is_finer(value: str, kind: DataType) -> str | None:
    """Return the condition that a time is no whole number of milliseconds; None for other types."""
    if isinstance(kind, (TimestampType, TimestampNTZType)):
        return f"coalesce(extract(SECOND FROM {value}) % 0.001 <> 0, false)"
    return None


def _json(values: Iterable[str], formats: Mapping[str, str]) -> str:
    options = {"ignoreNullFields": "false", **formats}
    given = ", ".join(f"'{name}', {text_literal(value)}" for name, value in options.items())
    return f"to_json(struct({', '.join(values)}), map({given}))"
