"""The greatest value of a watermark column, and the rows between two such values."""

from __future__ import annotations

from datetime import timedelta

from airflow_lake_provider.contracts.applied.positions import WatermarkPosition
from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.spark_jobs.sources.jdbc.database import Database
from airflow_lake_provider.spark_jobs.sources.jdbc.postgresql_types import (
    DatabaseColumn,
    literal,
    quoted_identifier,
)
from airflow_lake_provider.spark_jobs.sources.jdbc.relation import Relation

_NUMBERS = ("int2", "int4", "int8")
_LEAST = -(2**63)
# As text that sorts as the values do; and now, of the same type.
_TIMES = {
    "date": ("to_char(m, 'YYYY-MM-DD')", "current_date"),
    "timestamp": ("to_char(m, 'YYYY-MM-DD\"T\"HH24:MI:SS.US')", "now() AT TIME ZONE 'UTC'"),
    "timestamptz": ("to_char(m AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')", "now()"),
}


def watermark_column(relation: Relation, source: JdbcTable) -> DatabaseColumn:
    """Return the column, which has to have an order that a position keeps.

    :raises BadInputError: there is none, or its type has no such order.
    :raises InvalidSpecError: the overlap is none of its type.
    """
    column = relation.column(str(source.watermark), "watermark")
    if column.kind not in (*_NUMBERS, *_TIMES):
        raise BadInputError(
            f"{relation.what}: watermark {column.name!r} is of type {column.kind}; it must be a whole number, a date "
            "or a timestamp. Make one of it by JdbcTable(sql='SELECT ..., x::bigint AS x FROM ...')"
        )
    overlap = source.overlap
    if overlap is not None and str(overlap).isdecimal() != (column.kind in _NUMBERS):
        wanted = "a whole number" if column.kind in _NUMBERS else "a duration such as 'PT10M'"
        raise InvalidSpecError(
            f"overlap of watermark {column.name!r} must be {wanted}, as the column is of type {column.kind}, got "
            f"{overlap!r}"
        )
    return column


def greatest_watermark(database: Database, relation: Relation, column: DatabaseColumn) -> WatermarkPosition | None:
    """Return the greatest value that is there; None without a row.

    :raises BadInputError: no run would read some rows, or nothing more would be read for years.
    """
    name, what = quoted_identifier(column.name), f"{relation.what}: watermark {column.name!r}"
    text, now = _TIMES.get(column.kind, ("m", None))
    flags = (
        ""
        if now is None
        else (f", NOT isfinite(m) OR m < '0001-01-01' AS is_unfit, m > {now} + interval '1 day' AS is_in_future")
    )
    (row,) = database.rows(
        f"SELECT {text} AS value{flags} FROM (SELECT max({name}) AS m FROM {relation.sql} AS lake) AS greatest"
    )
    (nulls,) = database.rows(f"SELECT EXISTS (SELECT 1 FROM {relation.sql} AS lake WHERE {name} IS NULL) AS are_there")
    if nulls["are_there"]:
        raise BadInputError(
            f"{what} is NULL in some rows, and no run would read these. Fill them, make the column NOT NULL, or give a "
            "value by JdbcTable(sql='SELECT ..., coalesce(x, ...) AS x FROM ...')"
        )
    if row.get("is_unfit") or row.get("is_in_future"):
        is_what = "lies more than a day in the future" if not row.get("is_unfit") else "is infinite, or before year 1"
        raise BadInputError(
            f"{what} {is_what} in its greatest value, {row['value']}: after it, rows with the values of today would "
            "never be read. Repair that row, or leave it out by JdbcTable(sql=...)"
        )
    return None if row["value"] is None else WatermarkPosition(column.name, row["value"])


def between(column: DatabaseColumn, since: WatermarkPosition | None, upto: WatermarkPosition, overlap: object) -> str:
    """Return the condition on the rows above one value and up to another.

    :param overlap: how far below the first one they begin, that value included; None for no overlap.
    """
    name, kind = quoted_identifier(column.name), quoted_identifier(column.kind)
    conditions = [f"{name} <= {literal(str(upto.value))}::{kind}"]
    if since is not None:
        low = f"{literal(str(since.value))}::{kind}"
        conditions.append(f"{name} > {low}" if overlap is None else f"{name} >= {_below(low, since.value, overlap)}")
    return " AND ".join(conditions)


def _below(low: str, value: int | str, overlap: object) -> str:
    if isinstance(value, int):
        # In a wider type, so that the least values have some below; an index compares both.
        return f"{literal(str(max(value - int(str(overlap)), _LEAST)))}::int8"
    return f"{low} - interval '{duration(overlap, 'overlap') // timedelta(microseconds=1)} microseconds'"
