"""Net changes of a lake table since the snapshot that was applied last."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.positions import SnapshotPosition
from airflow_lake_provider.contracts.applied.source_position import SourcePosition, consumer_of_source
from airflow_lake_provider.contracts.author.lake_tables import ChangeMode, Changes
from airflow_lake_provider.contracts.errors import (
    BadInputError,
    InvalidSpecError,
    RangeUnavailableError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reserved_columns import CHANGE_TYPE
from airflow_lake_provider.contracts.table_properties import tag_of
from airflow_lake_provider.spark_jobs.formats.base import FormatTable
from airflow_lake_provider.spark_jobs.formats.commits import ChangeFilter
from airflow_lake_provider.spark_jobs.sources.base import Listing
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_columns
from airflow_lake_provider.spark_jobs.sources.lake_table import open_table, refusing_expired, shape_of
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch


@dataclass(frozen=True, kw_only=True)
class ChangesListing(Listing):
    """The head of a table, and the snapshot after which its changes are wanted; both as text.

    :param upto: None for a table without snapshots, and where nothing is new.
    :param since: None for all live rows.
    :param deletes_since: the snapshot after which deletes are wanted beside all live rows; None for no deletes.
    :param tells_deletes: whether its changes have deletes.
    """

    upto: str | None = None
    since: str | None = None
    deletes_since: str | None = None
    tells_deletes: bool = True

    @property
    def identities(self) -> tuple[str, ...]:
        """The head."""
        return (self.upto,) if self.upto else ()

    @property
    def moves_without_rows(self) -> bool:
        """True where there is something new: after a compaction the contents of both ends are compared."""
        return not self.is_empty

    def beyond(self, position: SourcePosition) -> Self:
        """Return the changes since the snapshot that a position has consumed."""
        return replace(self, since=position.snapshot, upto=None if position.snapshot == self.upto else self.upto)

    def over(self, position: SourcePosition) -> Self:
        """Return all live rows, and the deletes since the snapshot that a position has consumed."""
        is_behind = self.tells_deletes and position.snapshot != self.upto
        return replace(self, deletes_since=position.snapshot if is_behind else None)

    def has_applied_deletes(self, position: SourcePosition) -> bool:
        """Tell whether a position has consumed a snapshot, and the deletes up to it."""
        return self.tells_deletes and position.snapshot is not None

    def position_after(self, position: SourcePosition, max_age: timedelta | None) -> SourcePosition:  # noqa: ARG002  # others ask it
        """Return the position at the head."""
        return position.moved(SnapshotPosition(self.upto), self.shape) if self.upto else position

    def applied(self, listed: Self, start: SourcePosition) -> str:  # noqa: ARG002  # others ask it
        """Return both ends."""
        since = f"the changes since snapshot {self.since}" if self.since else "all rows"
        return f"applied {since} of the source table up to snapshot {self.upto}"


class ChangesSource(PlainSource):
    """Changes of a lake table."""

    source: Changes

    @property
    def shape(self) -> Mapping[str, str]:
        """Predicate, columns, keys and mode."""
        mode = "" if self._tells_deletes else str(self.source.mode)
        return shape_of(self.source, keys=",".join(self.source.keys), mode=mode)

    def list(self) -> ChangesListing:
        """Read the head.

        :raises MissingTableError: the source table does not exist.
        """
        listing = ChangesListing(source_name=self.name, shape=self.shape, tells_deletes=self._tells_deletes)
        return replace(listing, upto=open_table(self.spark, self.spec, self.source).state().snapshot)

    def raw(self, listing: Listing, types: StructType | None) -> RawBatch:  # noqa: ARG002  # others ask it
        """Read the changes, and keep both ends from expiry.

        :raises RangeUnavailableError: what was applied last was expired.
        """
        assert isinstance(listing, ChangesListing)
        table = open_table(self.spark, self.spec, self.source)
        try:
            self._protect(table, listing)
            rows = self._with_deletes(table, listing, self._changes(table, listing.since, listing.upto))
            return RawBatch(rows=rows, has_change_type=True)
        except RangeUnavailableError as gap:
            raise RangeUnavailableError(
                f"{self.spec.table}: source {self.name} has applied {self.source.table} up to snapshot "
                f"{listing.since}, and the changes since then are gone: {gap}. on_repeat='apply' applies every row "
                "that is there now, once; keys that were deleted meanwhile stay in the target"
            ) from gap

    def refusing_unreadable(self, listing: Listing) -> AbstractContextManager[None]:
        """Tell an error from an expiry of the head."""
        return refusing_expired(self, self.source, listing)

    def without_rows(self, listing: Listing) -> RawBatch:
        """Return no row of all that the table has."""
        assert isinstance(listing, ChangesListing)
        rows = self._changes(open_table(self.spark, self.spec, self.source), None, listing.upto)
        return RawBatch(rows=rows.limit(0), has_change_type=True)

    def after_commit(self, listing: Any) -> None:
        """Move the tag of what was applied to the head."""
        if self.source.protect_source and listing.upto is not None:
            self._hold(open_table(self.spark, self.spec, self.source), listing.upto)

    def _with_deletes(self, table: FormatTable, listing: ChangesListing, rows: DataFrame) -> DataFrame:
        """Add the deletes that are wanted beside all live rows, as far as they can be told."""
        self._untold.clear()
        start = listing.deletes_since
        if start is None:
            return rows
        try:
            changes = self._changes(table, start, listing.upto)
        # Without them the rows are those that were asked for.
        except (InvalidSpecError, RangeUnavailableError, UnsupportedError) as gap:
            self._untold.append(
                f"keys that were deleted in {self.source.table} since snapshot {start} stay in {self.spec.table}: they "
                f"cannot be told ({gap}). Where they matter, load the rows into a new table"
            )
            return rows
        return rows.unionByName(changes.filter(sf.col(CHANGE_TYPE) == "delete"))

    @property
    def warnings_of_reading(self) -> tuple[str, ...]:
        """A warning where deletes could not be told."""
        return tuple(self._untold)

    @cached_property
    def _untold(self) -> builtins.list[str]:
        return []

    @property
    def _tells_deletes(self) -> bool:
        return self.source.mode is ChangeMode.NET

    def _changes(self, table: FormatTable, since: str | None, upto: str | None) -> DataFrame:
        wanted = ChangeFilter(
            deletes=self._tells_deletes,
            keys=self.source.key_columns(self.spec) or tuple(self.source.keys),
            columns=None if self.source.columns is None else tuple(self.source.columns),
            where=self.source.where,
            allow_sql=self.spec.allow_sql,
            is_head=True,
        )
        changes = table.changes(since, upto, wanted)
        refuse_unfit_columns(changes.columns, f"source table {self.source.table}")
        return changes

    def _protect(self, table: FormatTable, listing: ChangesListing) -> None:
        if not self.source.protect_source or listing.upto is None:
            return
        start = listing.since or listing.deletes_since
        # A run that was cut off after its commit has left the tag behind, and only the one of its reading here.
        if start is not None and not self._is_held(table, start):
            # Deletes whose start is gone are left out when they are read.
            with nullcontext() if listing.since else suppress(RangeUnavailableError):
                self._hold(table, start)
        # Last, as the tag of what was applied takes the place of that of a reading.
        table.pin(self._consumer, listing.upto)

    def _is_held(self, table: FormatTable, snapshot: str) -> bool:
        try:
            return table.snapshot_as_of(tag_of(self._consumer)) == snapshot
        except BadInputError:
            return False

    def _hold(self, table: FormatTable, snapshot: str) -> None:
        run, mode = self.spec.run.label, ChangeMode(self.source.mode).value
        table.advance(self._consumer, snapshot, owner=run, target=self.spec.table, mode=mode)

    @property
    def _consumer(self) -> str:
        return consumer_of_source(self.spec.table, self.name, self.source.table)
