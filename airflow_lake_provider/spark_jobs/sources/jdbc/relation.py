"""Tables, views and queries of a database, with their columns and the sizes that the database knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable, relation_parts
from airflow_lake_provider.contracts.errors import BadInputError, MissingTableError
from airflow_lake_provider.spark_jobs.sources.jdbc.database import Database
from airflow_lake_provider.spark_jobs.sources.jdbc.dialect import DatabaseColumn


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
