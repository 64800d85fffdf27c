"""Rows of files that are no text, as the JSON of their dead letters, with all digits of each time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, TimestampNTZType, TimestampType

from airflow_lake_provider.spark_jobs.batch.change_batch import TEXTS_OF_TIMES
from airflow_lake_provider.spark_jobs.sql.identifiers import any_of, quoted_name, text_literal
from airflow_lake_provider.spark_jobs.sql.nested_types import conditions_inside

_LOCAL = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_ZONED = f"{_LOCAL}XXX"
_IN_SIX = {"timestampFormat": _ZONED, "timestampNTZFormat": _LOCAL}


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
