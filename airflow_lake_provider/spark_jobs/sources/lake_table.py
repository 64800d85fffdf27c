"""A lake table that is read at its head."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar, Self

from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.positions import SnapshotPosition
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.sources import LakeTable
from airflow_lake_provider.contracts.errors import BadInputError, MissingTableError, UnsupportedError
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.sources.base import Listing
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_columns
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sql.older_pyspark import message_of


@dataclass(frozen=True, kw_only=True)
class TableListing(Listing):
    """The head of a table.

    :param snapshot: as text; None for a table without snapshots.
    """

    may_show_earlier: ClassVar[bool] = False
    snapshot: str | None = None

    @property
    def identities(self) -> tuple[str, ...]:
        """The snapshot."""
        return (self.snapshot,) if self.snapshot else ()

    def beyond(self, position: SourcePosition) -> Self:
        """Return the head unless a position has consumed it."""
        return replace(self, snapshot=None) if position.snapshot == self.snapshot else self

    def position_after(self, position: SourcePosition, max_age: timedelta | None) -> SourcePosition:  # noqa: ARG002  # others ask it
        """Return the position at the head."""
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
        return f"applied snapshot {self.snapshot} of the source table"


class LakeTableSource(PlainSource):
    """Rows of a lake table."""

    source: LakeTable

    def list(self) -> TableListing:
        """Read the head.

        :raises MissingTableError: the source table does not exist.
        """
        table = table_of(self.spark, self.spec, TableName.parse(self.source.table))
        if not table.exists():
            raise MissingTableError(f"{self.source.table}: the source table does not exist")
        listing = TableListing(source_name=self.name, shape=self.shape)
        return replace(listing, snapshot=table.state().snapshot)

    def raw(self, listing: Listing, types: StructType | None) -> RawBatch:  # noqa: ARG002  # others ask it
        """Read the table as it was listed."""
        return read_table(self.spark, self.spec, self.source.table, *listing.identities)


def read_table(spark: SparkSession, spec: JobSpec, table: str, snapshot: str | None = None) -> RawBatch:
    """Read a table of the spec's catalog lazily.

    :param snapshot: as text; None for its head.
    :raises BadInputError: it cannot be resolved.
    :raises UnsupportedError: Spark cannot read its columns.
    """
    try:
        rows = table_of(spark, spec, TableName.parse(table)).rows_at(snapshot)
    except AnalysisException as error:
        raise BadInputError(f"source table {table} cannot be read: {message_of(error)}") from error
    except MissingTableError as error:
        raise BadInputError(f"source table {table} cannot be read: {error}") from error
    except UnsupportedOperationException as error:
        raise UnsupportedError(f"source table {table} cannot be read by Spark: {error}") from error
    refuse_unfit_columns(rows.columns, f"source table {table}")
    return RawBatch(rows=rows)
