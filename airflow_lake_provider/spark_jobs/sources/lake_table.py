"""A lake table that is read at its head, or at another moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar, Self

from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.positions import SnapshotPosition
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.sources import TableSource
from airflow_lake_provider.contracts.errors import (
    BadInputError,
    CommitConflictError,
    LakeProviderError,
    MissingTableError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.batch.deduplicated_changes import resolve_columns
from airflow_lake_provider.spark_jobs.formats.base import FormatTable
from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.sources.base import Listing
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_columns
from airflow_lake_provider.spark_jobs.sources.files import digests
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted
from airflow_lake_provider.spark_jobs.sql.older_pyspark import message_of
from airflow_lake_provider.spark_jobs.sql.predicate import check_expression, check_predicate


@dataclass(frozen=True, kw_only=True)
class TableListing(Listing):
    """The snapshot at which a table is read.

    :param snapshot: as text; None for a table without snapshots.
    """

    may_show_earlier: ClassVar[bool] = False
    is_incremental: ClassVar[bool] = False
    snapshot: str | None = None

    @property
    def identities(self) -> tuple[str, ...]:
        """The snapshot."""
        return (self.snapshot,) if self.snapshot else ()

    def beyond(self, position: SourcePosition) -> Self:
        """Return the snapshot unless it is the one that a position has consumed last, older or newer."""
        return replace(self, snapshot=None) if position.snapshot == self.snapshot else self

    def position_after(self, position: SourcePosition, max_age: timedelta | None) -> SourcePosition:  # noqa: ARG002  # others ask it
        """Return the position at the snapshot."""
        return position.moved(SnapshotPosition(self.snapshot), self.shape) if self.snapshot else position

    def is_covered_by(self, position: SourcePosition) -> bool:  # noqa: ARG002  # others ask it
        """Return False: a position knows the last snapshot only."""
        return False

    def changed_since(self, position: SourcePosition) -> str:
        """Return which snapshot a position has consumed, where that is another one."""
        if position.snapshot in (None, self.snapshot):
            return ""
        return f"the source table has changed since its rows were added, from snapshot {position.snapshot}"

    def without_changed(self, position: SourcePosition) -> Self:
        """Return the listing without a table that has changed."""
        return replace(self, snapshot=None) if self.changed_since(position) else self

    def applied(self, listed: Self, start: SourcePosition) -> str:  # noqa: ARG002  # others ask it
        """Return which snapshot it is."""
        before = start.snapshot
        passed = f"; snapshot {before} was applied before" if before not in (None, self.snapshot) else ""
        return f"applied snapshot {self.snapshot} of the source table{passed}"


class LakeTableSource(PlainSource):
    """Rows of a lake table."""

    reads_alike: ClassVar[bool] = True
    source: LakeTable

    @property
    def shape(self) -> Mapping[str, str]:
        """Predicate and columns."""
        return shape_of(self.source)

    def list(self) -> TableListing:
        """Look for the snapshot, and read that one whatever is committed meanwhile.

        :raises MissingTableError: the source table does not exist.
        :raises BadInputError: it has no such snapshot, tag or branch.
        """
        listing = TableListing(source_name=self.name, shape=self.shape)
        return replace(listing, snapshot=pinned_snapshot(self.spark, self.spec, self.source))

    def raw(self, listing: Listing, types: StructType | None) -> RawBatch:  # noqa: ARG002  # others ask it
        """Read the table as it was listed."""
        batch = read_table(self.spark, self.spec, self.source, *listing.identities)
        if self.spec.dead_letter is not None and self.spec.allow_sql and self.source.where is not None:
            # Judged, put aside and written: by the time of each, a predicate may take other rows.
            return replace(batch, rows=batch.rows.persist())
        return batch

    def refusing_unreadable(self, listing: Listing) -> AbstractContextManager[None]:
        """Tell an error from an expiry of the head."""
        return refusing_expired(self, self.source, listing)


@contextmanager
def refusing_expired(source: PlainSource, read: TableSource, listing: Listing) -> Iterator[None]:
    """Tell an error over a table from that of an expiry, which has removed the head that was listed.

    :param listing: of the table; its identity is the head, of a table with snapshots.
    :raises CommitConflictError: it is gone, so that the source is listed again.
    """
    try:
        yield
    except CommitConflictError:
        raise
    except Exception as error:
        snapshot = next(iter(listing.identities), None)
        if snapshot is not None and read.moment is None and _is_gone(source, read, snapshot):
            raise CommitConflictError(
                f"{source.spec.table}: snapshot {snapshot} of the source table {read.table} was expired while it was "
                "read, and nothing was written; the table is read again"
            ) from error
        raise


def _is_gone(source: PlainSource, read: TableSource, snapshot: str) -> bool:
    try:
        open_table(source.spark, source.spec, read).snapshot_as_of(snapshot)
    except BadInputError:
        return True
    except LakeProviderError:
        pass
    return False


def open_table(spark: SparkSession, spec: JobSpec, source: TableSource, what: str = "the source table") -> FormatTable:
    """Return the table of a source.

    :param what: it is, for the message.
    :raises MissingTableError: it does not exist.
    """
    table = table_of(spark, spec, TableName.parse(source.table))
    if not table.exists():
        raise MissingTableError(f"{source.table}: {what} does not exist")
    return table


def pinned_snapshot(
    spark: SparkSession, spec: JobSpec, source: TableSource, what: str = "the source table"
) -> str | None:
    """Return the snapshot, as text, at which a table is to be read; None for a table without snapshots.

    :raises MissingTableError: it does not exist.
    :raises BadInputError: it has no such snapshot, tag or branch.
    """
    table = open_table(spark, spec, source, what)
    return table.state().snapshot if source.moment is None else table.snapshot_as_of(source.moment)


def shape_of(source: TableSource, **more: str) -> Mapping[str, str]:
    """Return what shapes the rows of a table beside its snapshot."""
    return digests(where=source.where, columns=",".join(source.columns or ()), **more)


def read_table(
    spark: SparkSession, spec: LoadSpec | DeleteRowsSpec, source: TableSource, snapshot: str | None = None
) -> RawBatch:
    """Read a table of the spec's catalog lazily.

    :param snapshot: as text; None where the table had none, which is no rows.
    :raises BadInputError: it cannot be resolved, or lacks a column.
    :raises InvalidSpecError: its ``where`` is refused.
    :raises UnsupportedError: Spark cannot read its columns.
    """
    table, where, is_head = source.table, source.where, source.moment is None
    try:
        opened = table_of(spark, spec, TableName.parse(table))
        rows = opened.rows_at(snapshot, is_head=is_head)
        if where is not None:
            _check_where(spark, spec, source, rows)
            rows = opened.rows_at(snapshot, where, is_head=is_head, allow_sql=spec.allow_sql)
    except AnalysisException as error:
        raise BadInputError(f"source table {table} cannot be read: {message_of(error)}") from error
    except MissingTableError as error:
        raise BadInputError(f"source table {table} cannot be read: {error}") from error
    except UnsupportedOperationException as error:
        raise UnsupportedError(f"source table {table} cannot be read by Spark: {error}") from error
    if source.columns is not None:
        rows = rows.select(*map(quoted, resolve_columns(rows, source.columns, f"columns of {table}")))
    refuse_unfit_columns(rows.columns, f"source table {table}")
    return RawBatch(rows=rows, origin=table)


def _check_where(spark: SparkSession, spec: LoadSpec | DeleteRowsSpec, source: TableSource, rows: DataFrame) -> None:
    where = str(source.where)
    if spec.allow_sql:
        check_expression(spark, where, source.table)
    else:
        otherwise = "; allow_sql=True takes any SQL expression"
        check_predicate(spark, where, rows.schema, source.table, otherwise=otherwise)
