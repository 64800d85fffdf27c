"""Input of a batch before it is read: a listing of files, or a snapshot of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import MissingTableError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.positions import SnapshotPosition
from airflow_lake_provider.contracts.source_position import SourcePosition
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.contracts.upsert_spec import UpsertSpec
from airflow_lake_provider.spark_jobs.formats.choose_format import keyed_table
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from airflow_lake_provider.spark_jobs.sources.source_digest import source_shape


@dataclass(frozen=True, kw_only=True)
class BatchInput:
    """The whole source as it is now.

    :param source_name: under which the table keeps the position.
    :param files: every file of the source, sorted by path; empty for a table.
    :param snapshot: head of a source table, as text.
    :param shape: of :func:`source_shape`.
    :param at: a moment before the listing.
    """

    source_name: str
    files: tuple[InputFile, ...] = ()
    snapshot: str | None = None
    shape: Mapping[str, str] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def identities(self) -> tuple[str, ...]:
        """One text per input, for the run key."""
        return tuple(file.identity for file in self.files) or ((self.snapshot,) if self.snapshot else ())

    @property
    def is_empty(self) -> bool:
        """True where there is nothing to read at all."""
        return not self.identities

    def beyond(self, position: SourcePosition) -> BatchInput:
        """Return what a position has not consumed."""
        if self.snapshot is not None:
            return replace(self, snapshot=None if position.snapshot == self.snapshot else self.snapshot)
        return replace(self, files=position.files.unconsumed(self.files))

    def position_after(self, position: SourcePosition, max_age: timedelta | None) -> SourcePosition:
        """Return the position once all of this input is consumed.

        :param max_age: how long a file is remembered that no listing shows any more; None for ever.
        """
        if self.snapshot is not None:
            return position.moved(SnapshotPosition(self.snapshot), self.shape)
        return position.moved(position.files.next(self.files, self.at, max_age), self.shape)

    def known_to(self, position: SourcePosition) -> int:
        """Return how many files, or snapshots, a position has consumed, or may have."""
        if self.snapshot is not None:
            return int(position.snapshot == self.snapshot)
        if position.files.is_lost:
            return len(self.files)
        return self.consumed_by(position) + len(position.files.uncertain(self.files))

    def consumed_by(self, position: SourcePosition) -> int:
        """Return how many files a position has surely consumed."""
        return len(self.files) - len(position.files.unconsumed(self.files))


def list_input(spark: SparkSession, spec: UpsertSpec) -> BatchInput:
    """Look at the source.

    :raises BadInputError: a path without a pattern that does not exist.
    :raises MissingTableError: the source table does not exist.
    """
    empty = BatchInput(source_name=spec.source_name, shape=source_shape(spec.source))
    name = spec.source.lake_table
    if name is not None:
        table = keyed_table(spark, spec, TableName.parse(name))
        if not table.exists():
            raise MissingTableError(f"{name}: the source table does not exist")
        return replace(empty, snapshot=table.state().snapshot)
    return replace(empty, files=list_input_files(spark, spec.source.files.path if spec.source.files else ""))
