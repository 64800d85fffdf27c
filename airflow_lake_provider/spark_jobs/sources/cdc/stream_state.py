"""Memory that change events give their table beside the rows: marks, deleted keys, and key changes that are open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from pyspark.sql import DataFrame

from airflow_lake_provider.contracts.applied.event_marks import EventMarks
from airflow_lake_provider.contracts.applied.open_key_changes import CutDelete, OpenKeyChange
from airflow_lake_provider.contracts.applied.position_column import POSITION_COLUMN, epoch_property
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate
from airflow_lake_provider.spark_jobs.formats.base import AppliedState, KeyHistory
from airflow_lake_provider.spark_jobs.formats.commits import KeyedCommit
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sources.base import ChangeBatch, SideState


@dataclass(frozen=True, kw_only=True)
class StreamState(SideState):
    """Side state of a batch of change events.

    :param source_name: under which the table keeps it.
    :param marks: what will have been applied of the stream once the batch is.
    :param cut_deletes: halves of key changes, to be remembered with a snapshot that has the old row.
    :param last_rows: by round of ``cut_deletes``, rows as they were before those deletes, for deletes of changed rows.
    :param deleted_keys: with ``ordering="key"``, see ``KeyHistory.keep_deleted_keys``; None for none.
    :param retention: how long deleted keys are remembered.
    :param epoch: of the positions in the rows, with ``ordering="key"``; None where they have none.
    """

    source_name: str = ""
    marks: EventMarks | None = None
    cut_deletes: tuple[CutDelete, ...] = ()
    last_rows: Mapping[int, DataFrame] = field(default_factory=dict)
    deleted_keys: DataFrame | None = None
    retention: timedelta = timedelta()
    epoch: int | None = None

    @classmethod
    def of(cls, batch: ChangeBatch) -> StreamState:
        """Return the side state of a batch of events; one that has none yet begins it."""
        return batch.side if isinstance(batch.side, cls) else cls()

    @property
    def is_worth_a_commit(self) -> bool:
        """True where files are known to hold no event of the table that is not applied."""
        return self.marks is not None

    def before_rows(self, applied_state: AppliedState) -> None:
        """Keep the deleted keys: a delete that is known too early is still one that the source has made."""
        if self.deleted_keys is not None:
            applied_state.keys.keep_deleted_keys(self.deleted_keys, self.retention)

    def beside_rows(self, commit: KeyedCommit) -> KeyedCommit:
        """Set marks and epoch; rows with positions are compared by them."""
        if self.marks is not None:
            position = replace(commit.positions[self.source_name], events=self.marks)
            commit = replace(commit, positions={**commit.positions, self.source_name: position})
        if self.epoch is None:
            return commit
        properties = {**commit.properties, **epoch_property(self.epoch, self.source_name)}
        return replace(commit, order_by=(POSITION_COLUMN,), properties=properties)

    def with_history(self, commit: KeyedCommit, applied_state: AppliedState, progress: Progress) -> KeyedCommit:
        """Return the commit with what the table is to remember of deletes whose create has not come.

        A row that the batch only deletes is in the base. One that it changed first is written to a snapshot beside
        main: where the run ends between the two commits, main has nothing of the batch, and its repetition does both
        again.

        :raises CommitConflictError: of the commit beside main; nothing changed.
        """
        if commit.branch is not None or not self.cut_deletes:
            return commit
        entries = tuple(self._entries(commit, applied_state.keys, progress))
        if not entries:
            return commit
        remembered = applied_state.keys.open_changes.add(entries).to_property(self.source_name)
        # A commit in between may change the row that the base is to show as it was last.
        return replace(commit, properties={**commit.properties, **remembered}, reads_table=True)

    def _entries(self, commit: KeyedCommit, keys: KeyHistory, progress: Progress) -> Iterator[OpenKeyChange]:
        beside = replace(
            commit,
            positions={},
            key_ranges=None,
            merge_engine=Deduplicate(),
            order_by=(),
            audits=None,
            properties={},
        )
        kept = {number: keys.keep_rows(replace(beside, rows=rows), progress) for number, rows in self.last_rows.items()}
        for delete in self.cut_deletes:
            snapshot = kept.get(delete.round, commit.base) if delete.changed else commit.base
            if snapshot is not None:
                yield delete.seen_at(snapshot)
