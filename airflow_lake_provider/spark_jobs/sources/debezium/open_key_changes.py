"""Old rows of key changes that the border of a batch cuts, kept until the creates come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_lake_provider.contracts.merge_engines import Deduplicate
from airflow_lake_provider.contracts.open_key_changes import OpenKeyChange
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.batch.change_batch import ChangeBatch
from airflow_lake_provider.spark_jobs.formats.base import AppliedState, KeyedCommit, KeyedTable
from airflow_lake_provider.spark_jobs.progress import Progress


def remember_cut_deletes(
    target: KeyedTable, commit: KeyedCommit, batch: ChangeBatch, applied_state: AppliedState, progress: Progress
) -> KeyedCommit:
    """Return the commit with what the table is to remember of deletes whose create has not come.

    A row that the batch only deletes is in the base. One that it changed first is written to a snapshot beside main:
    where the run ends between the two commits, main has nothing of the batch, and its repetition does both again.

    :raises CommitConflictError: of the commit beside main; nothing changed.
    """
    if commit.branch is not None or not batch.cut_deletes:
        return commit
    entries = tuple(_entries(target, commit, batch, progress))
    if not entries:
        return commit
    (source_name,) = commit.positions
    remembered = applied_state.key_changes.add(entries).to_property(source_name)
    # A commit in between may change the row that the base is to show as it was last.
    return replace(commit, properties={**commit.properties, **remembered}, reads_table=True)


def _entries(
    target: KeyedTable, commit: KeyedCommit, batch: ChangeBatch, progress: Progress
) -> Iterator[OpenKeyChange]:
    kept = {number: target.keep(_beside(commit, batch, number), progress) for number in batch.last_rows}
    for delete in batch.cut_deletes:
        snapshot = kept.get(delete.round, commit.base) if delete.changed else commit.base
        if snapshot is not None:
            yield delete.seen_at(snapshot)


def _beside(commit: KeyedCommit, batch: ChangeBatch, number: int) -> KeyedCommit:
    return replace(
        commit,
        rows=batch.last_rows[number],
        positions={},
        key_ranges=None,
        merge_engine=Deduplicate(),
        order_by=(),
        strategy=UpsertStrategy.AUTO,
        audits=None,
        properties={},
    )
