"""Sources whose author's class says how far they are and reads between two positions."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Self

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.positions import Comparison, Position
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.custom_source import PositionSource
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.base import Listing
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_columns
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch


@dataclass(frozen=True, kw_only=True)
class PositionListing(Listing):
    """The end of a source now, and the position after which it is wanted.

    :param upto: None where there is nothing, or nothing new.
    :param since: consumed before; None for nothing.
    """

    upto: Position | None = None
    since: Position | None = None

    @property
    def identities(self) -> tuple[str, ...]:
        """The position, as a table keeps it."""
        if self.upto is None:
            return ()
        return (f"{self.upto.kind}:{json.dumps(self.upto.to_plain(), sort_keys=True, separators=(',', ':'))}",)

    def beyond(self, position: SourcePosition) -> Self:
        """Return what is not before a position."""
        consumed = self._in(position)
        if self.upto is None or consumed is None:
            return self
        is_known = self.upto.compare(consumed) in (Comparison.BEFORE, Comparison.EQUAL)
        return replace(self, upto=None) if is_known else replace(self, since=consumed)

    def position_after(self, position: SourcePosition, max_age: timedelta | None) -> SourcePosition:  # noqa: ARG002  # others ask it
        """Return the position that is before neither the former one nor this listing."""
        if self.upto is None:
            return position
        consumed = self._in(position)
        return position.moved(self.upto if consumed is None else consumed.joined(self.upto), self.shape)

    def applied(self, listed: Self, start: SourcePosition) -> str:  # noqa: ARG002  # others ask it
        """Return both ends."""
        after = f" after {self.since.to_plain()}" if self.since else ""
        return f"applied what is{after} up to {self.upto.to_plain() if self.upto else None}"

    def _in(self, position: SourcePosition) -> Position | None:
        return position.of(type(self.upto)) if self.upto is not None else None


class PositionBatchSource(PlainSource):
    """Rows between two positions."""

    source: PositionSource

    def list(self) -> PositionListing:
        """Ask how far the source is."""
        there = self.source.there(self.spark)
        return PositionListing(source_name=self.name, shape=self.shape, upto=there)

    def raw(self, listing: Listing, types: StructType | None) -> RawBatch:  # noqa: ARG002  # others ask it
        """Read between the positions.

        :raises BadInputError: what is read is no DataFrame.
        """
        assert isinstance(listing, PositionListing)
        rows = self.source.rows(self.spark, listing.since, listing.upto)
        name = type(self.source).__name__
        if not isinstance(rows, DataFrame):
            raise BadInputError(f"{name}.rows has to return a DataFrame, got {type(rows).__name__}")
        refuse_unfit_columns(rows.columns, f"the source {name}")
        return RawBatch(rows=rows)
