"""Tables, views and queries of a database: their columns and sizes, and the rows between two values of a watermark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from airflow_lake_provider.contracts.applied.positions import WatermarkPosition
from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable, relation_parts
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError, MissingTableError
from airflow_lake_provider.spark_jobs.sources.jdbc.database import Database
from airflow_lake_provider.spark_jobs.sources.jdbc.dialect import DatabaseColumn, Dialect

_LEAST = -(2**63)


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A table, a view or a query.

    :param sql: to stand behind FROM.
    :param what: name for messages.
    :param table: schema and name; None for a query.
    :param columns: all that it has.
    :param pages: of each part that is stored; empty for what has no pages, or not only.
    """

    sql: str
    what: str
    table: tuple[str, ...] | None
    columns: tuple[DatabaseColumn, ...]
    pages: tuple[int, ...]

    @classmethod
    def look_at(cls, database: Database, source: JdbcTable) -> Relation:
        """Ask the database for it.

        :raises MissingTableError: there is no such table, or the user may not look into its schema.
        :raises BadInputError: the query cannot be run.
        """
        if source.sql is not None:
            sql, what = f"(\n{source.sql}\n)", f"the query of connection {source.connection!r}"
            return cls(sql=sql, what=what, table=None, columns=database.columns(sql), pages=())
        table = relation_parts(str(source.table))
        sql = ".".join(map(database.dialect.quoted, table))
        what = f"{source.table} of connection {source.connection!r}"
        pages = database.dialect.pages(database, table)
        if pages is None:
            raise MissingTableError(
                f"{what} does not exist in {database.access.address}, or user {database.access.user!r} may not look "
                "into its schema. Names are spelled as the database has them, in lower case unless they were made in "
                "double quotes"
            )
        columns = database.columns(sql, source.read_columns)
        return cls(sql=sql, what=what, table=table, columns=columns, pages=pages)

    def column(self, name: str, what: str) -> DatabaseColumn:
        """Return the column of a name; where none is spelled so, the one that differs in case only.

        :param what: names it, for the message.
        :raises BadInputError: there is none.
        """
        exact = [each for each in self.columns if each.name == name]
        alike = exact or [each for each in self.columns if each.name.lower() == name.lower()]
        if len(alike) != 1:
            names = [each.name for each in self.columns]
            raise BadInputError(f"{what} names a column that {self.what} lacks: {name!r}; it has {names}")
        return alike[0]

    def chosen(self, names: Sequence[str] | None) -> list[DatabaseColumn]:
        """Return the columns of some names, or all.

        :raises BadInputError: there is no such column.
        """
        return list(self.columns) if names is None else [self.column(name, "columns") for name in names]


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
