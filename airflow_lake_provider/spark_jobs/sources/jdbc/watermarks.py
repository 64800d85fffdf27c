"""The greatest value of a watermark column, and the rows between two such values."""

from __future__ import annotations

from datetime import timedelta

from airflow_lake_provider.contracts.applied.positions import WatermarkPosition
from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.spark_jobs.sources.jdbc.database import Database
from airflow_lake_provider.spark_jobs.sources.jdbc.dialect import DatabaseColumn, Dialect
from airflow_lake_provider.spark_jobs.sources.jdbc.relation import Relation

_LEAST = -(2**63)


def watermark_column(dialect: Dialect, relation: Relation, source: JdbcTable) -> DatabaseColumn:
    """Return the column, which has to have an order that a position keeps.

    :raises BadInputError: there is none, or its type has no such order.
    :raises InvalidSpecError: the overlap is none of its type.
    """
    column = relation.column(str(source.watermark), "watermark")
    if column.kind not in (*dialect.numbers, *dialect.times):
        raise BadInputError(
            f"{relation.what}: watermark {column.name!r} is of type {column.kind}; it must be a whole number, a date "
            f"or a timestamp. Make one of it by JdbcTable(sql='SELECT ..., {dialect.number_cast} AS x FROM ...')"
        )
    overlap = source.overlap
    if overlap is not None and str(overlap).isdecimal() != (column.kind in dialect.numbers):
        wanted = "a whole number" if column.kind in dialect.numbers else "a duration such as 'PT10M'"
        raise InvalidSpecError(
            f"overlap of watermark {column.name!r} must be {wanted}, as the column is of type {column.kind}, got "
            f"{overlap!r}"
        )
    return column


def greatest_watermark(database: Database, relation: Relation, column: DatabaseColumn) -> WatermarkPosition | None:
    """Return the greatest value that is there; None without a row.

    :raises BadInputError: no run would read some rows, or nothing more would be read for years.
    """
    dialect, what = database.dialect, f"{relation.what}: watermark {column.name!r}"
    (row,) = database.rows(dialect.greatest(relation.sql, column))
    (nulls,) = database.rows(dialect.has_nulls(relation.sql, column))
    if nulls["are_there"]:
        raise BadInputError(
            f"{what} is NULL in some rows, or no date, and no run would read these. Fill them, make the column NOT "
            "NULL, or give a value by JdbcTable(sql='SELECT ..., coalesce(x, ...) AS x FROM ...')"
        )
    if row["is_unfit"] or row["is_in_future"]:
        is_what = "is infinite, or before year 1" if row["is_unfit"] else "lies more than a day in the future"
        raise BadInputError(
            f"{what} {is_what} in its greatest value, {row['value']}: after it, rows with the values of today would "
            "never be read. Repair that row, or leave it out by JdbcTable(sql=...)"
        )
    return None if row["value"] is None else WatermarkPosition(column.name, row["value"])


def between(
    dialect: Dialect,
    column: DatabaseColumn,
    since: WatermarkPosition | None,
    upto: WatermarkPosition,
    overlap: object,
) -> str:
    """Return the condition on the rows above one value and up to another.

    :param overlap: how far below the first one they begin, that value included; None for no overlap.
    """
    name = dialect.quoted(column.name)
    conditions = [f"{name} <= {dialect.typed(str(upto.value), column.kind)}"]
    if since is not None and overlap is None:
        conditions.append(f"{name} > {dialect.typed(str(since.value), column.kind)}")
    elif since is not None:
        conditions.append(f"{name} >= {_below(dialect, column, since.value, overlap)}")
    return " AND ".join(conditions)


def _below(dialect: Dialect, column: DatabaseColumn, value: int | str, overlap: object) -> str:
    if isinstance(value, int):
        # In the widest type, so that the least values have some below; an index compares both.
        return dialect.typed(str(max(value - int(str(overlap)), _LEAST)), dialect.widest)
    microseconds = duration(overlap, "overlap") // timedelta(microseconds=1)
    return dialect.below(dialect.typed(value, column.kind), microseconds)
