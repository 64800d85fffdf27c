"""Change events as a source: in files or in a topic, and what the table remembers of their keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import ClassVar

from airflow_lake_provider.contracts.applied.position_column import PlaceTypes
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.merge_engines import Deletes
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.sources import ChangeEvents, ChangeStream
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.spark_jobs.sources.base import BatchSource, ChangeBatch, Listing, Wanted
from airflow_lake_provider.spark_jobs.sources.cdc.change_events import TargetState, read_change_events
from airflow_lake_provider.spark_jobs.sources.cdc.envelope import Envelope
from airflow_lake_provider.spark_jobs.sources.cdc.key_timeline import KeyOrder
from airflow_lake_provider.spark_jobs.sources.cdc.renamed_table import EVENTS_OF, EarlierTable, earlier_table
from airflow_lake_provider.spark_jobs.sources.cdc.stream_state import StreamState
from airflow_lake_provider.spark_jobs.sources.files import FileBatchSource, digests


class ChangeStreamSource(BatchSource):
    """Change events of one table, wherever they are. A subclass names how they are written."""

    envelope: ClassVar[type[Envelope]]
    source: ChangeStream

    @property
    def shape(self) -> Mapping[str, str]:
        """Add the envelope, and whose events they are."""
        return {**super().shape, **digests(envelope=self.source.kind), **digests(**{EVENTS_OF: self.source.table})}

    def other_stream(self, position: SourcePosition) -> str | None:
        """Return the digest of the table that was read before, where another one is read now."""
        return earlier_table(position.shape, self.source.table)

    @abstractmethod
    def opened(self, listing: Listing) -> AbstractContextManager[Envelope]:
        """Return the events of a listing, while errors over them are said in words."""

    def read(self, wanted: Wanted) -> ChangeBatch:
        """Read the events, with all values known that the table or the batch has."""
        spec, target = self.upsert, self._target_state(wanted)
        with self.opened(wanted.listing) as stream:
            batch = read_change_events(
                stream,
                spec.keys,
                target,
                exclude_columns=spec.schema_contract.exclude_columns,
                ignore_deletes=spec.merge_engine.deletes is Deletes.IGNORE,
                tells_resets=self.missing_columns is MissingColumns.KEEP,
                ignore_marks=wanted.repeats,
                order=self._key_order(wanted, target) if self.source.is_by_key else None,
            )
        retention = duration(self.source.tombstone_retention, "tombstone_retention")
        side = replace(StreamState.of(batch), source_name=self.name, retention=retention)
        return replace(batch, side=side)

    def _target_state(self, wanted: Wanted) -> TargetState:
        state, earlier, whole = wanted.applied_state, None, None
        if wanted.listing.is_share:
            everything = wanted.listing.unbounded.beyond(SourcePosition())
            whole = partial(self.opened, everything)
        if wanted.other_stream is not None:
            unread = wanted.listing.unbounded.beyond(state.position)
            earlier = EarlierTable(wanted.other_stream, None if unread.is_empty else lambda: self.opened(unread))
        # A branch keeps no marks: there, a table with rows is the only sign.
        has_had_events = state.base is not None if self.spec.branch else state.position.events is not None
        return TargetState(
            wanted.target.schema(),
            wanted.target.current_rows(state.base),
            history=state.keys,
            keeps_history=self.spec.branch is None,
            marks=state.position.events,
            # Of another table's name nothing is known; it may be misspelled.
            has_had_events=has_had_events and earlier is None,
            earlier=earlier,
            whole=whole,
        )

    def _key_order(self, wanted: Wanted, target: TargetState) -> KeyOrder:
        engine = self.upsert.merge_engine
        return KeyOrder(
            epoch=target.history.epoch,
            types=PlaceTypes(self.envelope.log.number_type),
            schema=target.schema,
            rows=target.rows,
            deleted_keys=target.history.deleted_keys(),
            history=target.history,
            deleted_column=engine.deleted_column if engine.deletes is Deletes.SOFT else None,
            again=wanted.repeats,
        )


class ChangeEventsSource(ChangeStreamSource, FileBatchSource):
    """Files of change events of one table."""

    source: ChangeEvents

    @contextmanager
    def opened(self, listing: Listing) -> Iterator[Envelope]:
        """Open the files, and name the one in an error over it."""
        with self.refusing_unreadable(listing):
            yield self.envelope(self.spark, self.source, listing.files)
