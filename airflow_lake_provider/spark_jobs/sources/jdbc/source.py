"""Rows of a relational database: all of them, or those above the watermark that was applied last.

The driver opens a transaction when it looks at the database, and readers take its snapshot. It stays open until the
batch is committed, so that what is read again is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import ClassVar, Self

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.positions import Comparison, WatermarkPosition
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.errors import InvalidConnectionError
from airflow_lake_provider.contracts.source_access import DatabaseAccess
from airflow_lake_provider.spark_jobs.jvm.gateway import settings_of
from airflow_lake_provider.spark_jobs.sources.base import Listing, SourceLocation
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_columns
from airflow_lake_provider.spark_jobs.sources.files import digests
from airflow_lake_provider.spark_jobs.sources.jdbc.database import Database, database_errors
from airflow_lake_provider.spark_jobs.sources.jdbc.relation import (
    Relation,
    between,
    greatest_watermark,
    watermark_column,
)
from airflow_lake_provider.spark_jobs.sources.jdbc.splits import SPLIT, Splits, choose_splits, read_splits, statement_of
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch


@dataclass(frozen=True, kw_only=True)
class RelationListing(Listing):
    """Base of both listings: a table or a query as it was when it was listed."""

    may_show_earlier: ClassVar[bool] = False
    relation: Relation

    @property
    def shows_changes(self) -> bool:
        """False: a row that is deleted leaves no trace."""
        return False


@dataclass(frozen=True, kw_only=True)
class WholeListing(RelationListing):
    """Everything that is there now. Nothing tells whether it has changed, so each run reads it."""

    is_incremental: ClassVar[bool] = False

    @property
    def identities(self) -> tuple[str, ...]:
        """The same for each listing: a retry is recognised by its run, whatever has changed meanwhile."""
        return ("all rows",)

    def beyond(self, position: SourcePosition) -> Self:  # noqa: ARG002  # others ask it
        """Return all of it."""
        return self

    def position_after(self, position: SourcePosition, max_age: timedelta | None) -> SourcePosition:  # noqa: ARG002  # others ask it
        """Return the position with one more commit counted."""
        return replace(position, generation=position.generation + 1, shape=self.shape)

    def is_covered_by(self, position: SourcePosition) -> bool:  # noqa: ARG002  # others ask it
        """Return False: a position knows nothing of the rows."""
        return False

    def applied(self, listed: Self, start: SourcePosition) -> str:  # noqa: ARG002  # others ask it
        """Return that it is all."""
        return "applied all rows that the database has now"


@dataclass(frozen=True, kw_only=True)
class WatermarkListing(RelationListing):
    """The greatest value of the watermark, and the one after which rows are wanted.

    :param upto: None for no row, and where nothing is new.
    :param since: consumed before; None for nothing.
    """

    upto: WatermarkPosition | None = None
    since: WatermarkPosition | None = None

    @property
    def identities(self) -> tuple[str, ...]:
        """Column and value."""
        return (f"{self.upto.column}={self.upto.value}",) if self.upto else ()

    def beyond(self, position: SourcePosition) -> Self:
        """Return what is above the value that a position has consumed; all of it where the two have no order."""
        consumed = position.of(WatermarkPosition)
        if self.upto is None or consumed is None:
            return self
        match self.upto.compare(consumed):
            case Comparison.AFTER:
                return replace(self, since=consumed)
            case Comparison.INCOMPARABLE:
                return self
        return replace(self, upto=None)

    def position_after(self, position: SourcePosition, max_age: timedelta | None) -> SourcePosition:  # noqa: ARG002  # others ask it
        """Return the position at the greater value."""
        consumed = position.of(WatermarkPosition)
        if self.upto is None:
            return position
        is_behind = consumed is not None and self.upto.compare(consumed) is Comparison.BEFORE
        return position.moved(consumed if consumed is not None and is_behind else self.upto, self.shape)

    def consumed_by(self, position: SourcePosition) -> int:
        """Return 1 where a position has consumed rows of the table up to any value of the column."""
        consumed = position.of(WatermarkPosition)
        if self.upto is None or consumed is None or self.upto.compare(consumed) is Comparison.INCOMPARABLE:
            return 0
        # Of a named input nobody knows the table.
        return int(not position.shape or _relation_in(self.shape) == _relation_in(position.shape))

    def changed_since(self, position: SourcePosition) -> str:
        """Return which column the consumed watermark is of, where that is another one, or of another type."""
        consumed = position.of(WatermarkPosition)
        if self.upto is None or consumed is None or self.upto.compare(consumed) is not Comparison.INCOMPARABLE:
            return ""
        other = "another type" if self.upto.column == consumed.column else f"column {self.upto.column}"
        return f"the watermark was {consumed.column}={consumed.value}, and is of {other} now"

    def warnings_at(self, position: SourcePosition) -> tuple[str, ...]:
        """Return that the greatest value has fallen, after which rows come below what was applied."""
        consumed = position.of(WatermarkPosition)
        if self.upto is None or consumed is None or self.upto.compare(consumed) is not Comparison.BEFORE:
            return ()
        warning = (
            f"the greatest {self.upto.column} is {self.upto.value} now, and rows up to {consumed.value} were applied: "
            "until it is greater, no row is new. Where rows were deleted, nothing is wrong. Where the database was "
            "restored, or its values were set anew, give the source another name, by which all of it is read once"
        )
        return (warning,)

    def without_changed(self, position: SourcePosition) -> Self:
        """Return nothing of it where the watermark is of another column, or of another type."""
        return replace(self, upto=None) if self.changed_since(position) else self

    def applied(self, listed: Self, start: SourcePosition) -> str:  # noqa: ARG002  # others ask it
        """Return both ends."""
        since = f" after {self.since.value}" if self.since else ""
        upto = f"{self.upto.column}={self.upto.value}" if self.upto else "nothing"
        return f"applied the rows{since} up to {upto}"


def _relation_in(shape: Mapping[str, str]) -> tuple[str, str | None]:
    # A query of Spark's may be over a table.
    return ("table", shape["table"]) if "table" in shape else ("query", shape.get("query"))


class JdbcSource(PlainSource):
    """Rows of a database."""

    source: JdbcTable

    @cached_property
    def _opened(self) -> list[Database]:
        """The database of the last listing."""
        return []

    @cached_property
    def access(self) -> DatabaseAccess:
        """Address and login, which came with the job's settings.

        :raises InvalidConnectionError: they did not.
        """
        conn_id = self.source.connection
        access = DatabaseAccess.from_settings(conn_id, settings_of(self.spark))
        if access is None:
            raise InvalidConnectionError(
                f"connection {conn_id!r} did not come with the job's settings; a lake operator brings it, and a job "
                "that something else submits needs them in its properties file, see docs/how-to/jdbc-tables.md"
            )
        return access

    @property
    def shape(self) -> Mapping[str, str]:
        """Table or query, columns, watermark."""
        of = self.source
        return digests(table=of.table, query=of.sql, columns=",".join(of.columns or ()), watermark=of.watermark)

    def location(self) -> SourceLocation:
        """Return the table as OpenLineage names it."""
        return SourceLocation(address=self.source.address({self.source.connection: self.access}))

    def list(self) -> Listing:
        """Take a snapshot of the database, and look for the greatest watermark in it.

        :raises LakeProviderError: the database cannot be asked.
        """
        self.close()
        database = Database.open(self.spark, self.access, is_consistent=self.source.consistent)
        self._opened.append(database)
        relation = Relation.look_at(database, self.source)
        if self.source.watermark is None:
            return WholeListing(source_name=self.name, shape=self.shape, relation=relation)
        column = watermark_column(database.dialect, relation, self.source)
        greatest = greatest_watermark(database, relation, column)
        return WatermarkListing(source_name=self.name, shape=self.shape, relation=relation, upto=greatest)

    def raw(self, listing: Listing, types: StructType | None) -> RawBatch:
        """Read the rows of a listing: lazily in the snapshot in which it was made; without one, now and once."""
        rows = self._rows(listing, types)
        (database,) = self._opened
        if database.snapshot is None:
            # What is read again would be of another moment. A second reader of a part may begin before the first ends.
            with database_errors(self.access):
                rows = rows.localCheckpoint(eager=not listing.is_empty)
        elif self.spec.dead_letter is not None:
            # Judged, put aside and written, and read from the database once.
            rows = rows.persist()
        assert isinstance(listing, RelationListing)
        return RawBatch(rows=rows, origin=listing.relation.what)

    def without_rows(self, listing: Listing) -> RawBatch:
        """Return the columns of a listing, and no row."""
        return RawBatch(rows=self._rows(listing, None).limit(0))

    def _rows(self, listing: Listing, types: StructType | None) -> DataFrame:
        assert isinstance(listing, RelationListing)
        (database,), relation = self._opened, listing.relation
        columns = relation.chosen(self.source.columns)
        refuse_unfit_columns([column.name for column in columns], relation.what)
        values = database.dialect.sent_values(columns, types, relation.what)
        where, is_new_part = "true", False
        if isinstance(listing, WatermarkListing) and listing.upto is not None:
            column = watermark_column(database.dialect, relation, self.source)
            where = between(database.dialect, column, listing.since, listing.upto, self.source.overlap)
            is_new_part = listing.since is not None
        splits = Splits()
        if not listing.is_empty:
            at_once = self.spark.sparkContext.defaultParallelism
            splits = choose_splits(database, relation, self.source, where, is_new_part=is_new_part, at_once=at_once)
        statement = statement_of(relation.sql, values, where, splits, database.dialect.quoted(SPLIT))
        # What the database refuses is known here, with its code, and not by the text of an executor's error.
        database.check(statement)
        names = [column.name for column in columns]
        return read_splits(database, statement, values, names, splits, self.source.fetch_size)

    @contextmanager
    def refusing_unreadable(self, listing: Listing) -> Iterator[None]:  # noqa: ARG002  # others ask it
        """Say what an error of the database means."""
        snapshot = self._opened[0].snapshot if self._opened else None
        with database_errors(self.access, snapshot):
            yield

    def close(self) -> None:
        """Give the snapshot back."""
        while self._opened:
            self._opened.pop().close()
