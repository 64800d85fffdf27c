"""Make the rows of a batch fit a table: nested columns in the types of the table's, write defaults, and strict values.

Spark has UUID and FIXED columns as texts and bytes of any form. Values of another form than theirs are refused. So are
texts that are no UTF-8, with which PyIceberg and DuckDB do not read the table, and maps that have a key twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.errors import BadInputError, CommitConflictError
from airflow_lake_provider.spark_jobs.formats.commits import LoadCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.pushdown_literals import CANONICAL_UUID
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, java_causes
from airflow_lake_provider.spark_jobs.sql.identifiers import any_of, quoted, quoted_name, text_literal, type_text
from airflow_lake_provider.spark_jobs.sql.nested_types import (
    Condition,
    conditions_inside,
    fitted_value,
    has_key_twice,
    is_nested,
    is_same,
    lacks_no_field,
)
from airflow_lake_provider.spark_jobs.sql.older_pyspark import valid_utf8

# Metadata of a column of Spark's: SQL of Iceberg's ``write-default``.
_WRITE_DEFAULT = "CURRENT_DEFAULT"
_MISFIT = "lake_misfit:"
_OURS = "_lake_"
_FIXED = re.compile(r"fixed\[(\d+)\]")
# Stands in the error of a task; a name may have any letters, so that its place among the columns goes.
_IN_ERROR = re.compile(rf"{_MISFIT}(\d+)(\w*)")
_NO_UTF8, _KEY_TWICE, _INSIDE = "utf8", "key", "inside"
_REMEDIES = {
    "uuid": "; write UUIDs with hyphens, and in lower case where rows are compared by them, as in "
    "123e4567-e89b-12d3-a456-426614174000",
    _NO_UTF8: ": bytes that are no UTF-8, which other readers of the table refuse. Look for rows with NOT "
    "{1}, and say what they are in a Query, such as decode(CAST({0} AS BINARY), 'iso-8859-1')",
    _KEY_TWICE: ": a map that has a key twice, of which readers take one or the other. Make one of both in a Query, "
    "such as map_from_entries of an array without the first",
    _INSIDE: "; inside of it write UUIDs with hyphens, and as many bytes as its type says",
}
_OTHERWISE = "; give as many bytes, or leave these rows out in a Query"


@dataclass(frozen=True, kw_only=True)
class FittedRows:
    """Rows whose nested columns have the types of the table's.

    :param partial_structs: type of each struct that lacks fields of the table's, as the batch has it, by its column in
        lower case.
    """

    rows: DataFrame
    partial_structs: Mapping[str, StructType] = field(default_factory=dict)


def fit_rows(table: IcebergTable, commit: LoadCommit) -> FittedRows:
    """Return the rows of a commit as they fit the table; no job is run.

    :raises CommitConflictError: the table lacks a column of theirs, which it had when the batch was looked at.
    """
    keeps = commit.missing_columns is MissingColumns.KEEP
    wanted = {field.name.lower(): field.dataType for field in table.schema()}
    gone = [name for name in commit.rows.columns if name.lower() not in wanted and not name.startswith(_OURS)]
    if gone:
        raise CommitConflictError(
            f"{table.name}: columns {gone} of the batch were renamed or dropped meanwhile. No data changed."
        )
    unlike = [
        field
        for field in commit.rows.schema
        if is_nested(kind := wanted.get(field.name.lower(), field.dataType)) and not is_same(field.dataType, kind)
    ]
    if not unlike:
        return FittedRows(rows=commit.rows)

    def absent(field: StructField) -> str:
        default = write_defaults(StructType([field])).get(field.name.lower(), "NULL") if keeps else "NULL"
        return f"CAST({default} AS {type_text(field.dataType)})"

    fitted = {
        field.name: fitted_value(quoted_name(field.name), field.dataType, wanted[field.name.lower()], absent)
        for field in unlike
    }
    columns = [sf.expr(fitted[n]).alias(n) if n in fitted else quoted(n) for n in commit.rows.columns]
    partial = {
        field.name.lower(): field.dataType
        for field in unlike
        if keeps
        and isinstance(field.dataType, StructType)
        and not lacks_no_field(field.dataType, wanted[field.name.lower()])
    }
    return FittedRows(rows=commit.rows.select(*columns), partial_structs=partial)


def write_defaults(columns: StructType) -> dict[str, str]:
    """Return SQL of the write default of each column that has one, by its name in lower case."""
    return {
        field.name.lower(): str(field.metadata[_WRITE_DEFAULT]) for field in columns if _WRITE_DEFAULT in field.metadata
    }


def checked_values(
    table: IcebergTable, rows: DataFrame, compared: Sequence[str], only: Collection[str] | None = None
) -> DataFrame:
    """Return rows that end the task which meets a value that its column does not hold.

    ``java.util.UUID`` takes ``1-2-3-4-5`` for a UUID, and Spark tells one in capitals from the same one without.

    :param rows: in columns of the table.
    :param compared: columns whose values Spark compares as texts, so that they have to be in lower case.
    :param only: columns to look at, in lower case; None for all.
    """
    strict = {name.lower() for name in compared}
    given = {name.lower(): name for name in rows.columns if only is None or name.lower() in only}
    checked = {}
    for place, column in enumerate(_columns(table)):
        name = given.get(str(column.name()).lower())
        fits = None if name is None else _fits(quoted_name(name), str(column.type()), name.lower() in strict)
        if name is not None and fits is not None:
            refused = sf.raise_error(sf.lit(f"{_MISFIT}{place}")).cast(rows.schema[name].dataType)
            stored = _as_stored(quoted(name), str(column.type()), name.lower() in strict)
            checked[name] = sf.when(quoted(name).isNull() | sf.expr(fits), stored).otherwise(refused)
    if not checked:
        return rows
    return rows.select(*(checked[name].alias(name) if name in checked else quoted(name) for name in rows.columns))


def checked_texts(
    table: IcebergTable, rows: DataFrame, keys: Sequence[str], only: Collection[str] | None = None
) -> DataFrame:
    """Return rows that end the task which meets a text that is no UTF-8, or a map that has a key twice.

    Values inside of others are looked at as :func:`checked_values` looks at columns.

    :param rows: in columns of the table.
    :param keys: columns that a job may read alone, so that it need not read the others.
    :param only: columns to look at, in lower case; None for all.
    """
    names = [str(column.name()).lower() for column in _columns(table)]
    places = {name: place for place, name in enumerate(names) if only is None or name in only}
    kinds = {field["name"].lower(): field["type"] for field in table.facts.shape.schema()["fields"]}
    checks: list[tuple[str, Condition, Callable[[StructField], DataType]]] = [
        (_NO_UTF8, _is_no_utf8, lambda field: field.dataType),
        (_KEY_TWICE, has_key_twice, lambda field: field.dataType),
        (_INSIDE, _is_no_value, lambda field: _nested(field.dataType, kinds[field.name.lower()])),
    ]
    conditions = {
        f"{places[field.name.lower()]}{fault}": any_of(faults)
        for fault, of, kind in checks
        for field in rows.schema
        if field.name.lower() in places
        and (faults := list(conditions_inside(quoted_name(field.name), kind(field), of)))
    }
    if not conditions:
        return rows
    # All are looked at where one column is made: a condition for each would make the method that Spark compiles long.
    apart = {name.lower() for name in keys}
    stored = [name for name in rows.columns if name.lower() in places]
    last = ([name for name in stored if name.lower() not in apart] or stored)[-1]
    cases = " ".join(f"WHEN {condition} THEN raise_error('{_MISFIT}{code}')" for code, condition in conditions.items())
    return rows.withColumn(last, sf.expr(f"CASE {cases} ELSE {quoted_name(last)} END"))


def as_stored(table: IcebergTable, rows: DataFrame, compared: Sequence[str]) -> DataFrame:
    """Return rows with their UUIDs as the table has them, so that equal ones are equal texts.

    :param compared: columns that stay as they are.
    """
    strict = {name.lower() for name in compared}
    kinds = {str(field.name()).lower(): str(field.type()) for field in _columns(table)}
    uuids = [each for each in rows.columns if kinds.get(each.lower()) == "uuid" and each.lower() not in strict]
    if not uuids:
        return rows
    return rows.withColumns({name: _as_stored(quoted(name), "uuid", is_compared=False) for name in uuids})


@contextmanager
def refusing_misfits(table: IcebergTable) -> Iterator[None]:
    """Name the column of a value that has ended a task.

    :raises BadInputError: it names no value.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        texts = (str(error), *(message for _, message in java_causes(error)))
        place = next((match for text in texts if (match := _IN_ERROR.search(text))), None)
        if place is None:
            raise
        column = _columns(table)[int(place[1])]
        remedy = _REMEDIES.get(place[2] or str(column.type()), _OTHERWISE)
        raise BadInputError(
            f"{table.name}: got a value that {column.type()} column {column.name()} does not hold"
            f"{remedy.format(column.name(), valid_utf8(column.name()))}"
        ) from error


def _columns(table: IcebergTable) -> list[Any]:
    return list(table.java.schema().columns())


def _fits(value: str, kind: str, is_compared: bool) -> str | None:
    """Return the condition that a value, which is given as SQL, is one of a type; None where Spark's type says so."""
    if kind == "uuid":
        text = f"CAST({value} AS STRING)"
        return f"{text if is_compared else f'lower({text})'} RLIKE {text_literal(CANONICAL_UUID)}"
    fixed = _FIXED.fullmatch(kind)
    return None if fixed is None else f"octet_length({value}) = {fixed[1]}"


def _as_stored(value: Column, kind: str, is_compared: bool) -> Column:
    return sf.lower(value.cast("string")) if kind == "uuid" and not is_compared else value


def _is_no_utf8(value: str, kind: DataType) -> str | None:
    return f"NOT {valid_utf8(value)}" if isinstance(kind, StringType) else None


class _OfIceberg(DataType):
    """A type of Iceberg's that has no others inside, of which Spark's may hold more values."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


def _nested(kind: DataType, iceberg: Any) -> DataType:
    """Return a nested type of Spark's with the types of Iceberg's inside.

    :param iceberg: the same type, in the JSON of Iceberg's spec.
    """
    match kind:
        case StructType():
            kinds = {field["name"].lower(): field["type"] for field in iceberg["fields"]}
            return StructType([StructField(f.name, _inside(f.dataType, kinds.get(f.name.lower()))) for f in kind])
        case ArrayType():
            return ArrayType(_inside(kind.elementType, iceberg["element"]))
        case MapType():
            return MapType(_inside(kind.keyType, iceberg["key"]), _inside(kind.valueType, iceberg["value"]))
    return kind


def _inside(kind: DataType, iceberg: Any) -> DataType:
    if isinstance(iceberg, str):
        return _OfIceberg(iceberg)
    return kind if iceberg is None else _nested(kind, iceberg)


def _is_no_value(value: str, kind: DataType) -> str | None:
    fits = _fits(value, kind.kind, is_compared=False) if isinstance(kind, _OfIceberg) else None
    return None if fits is None else f"NOT ({fits})"
