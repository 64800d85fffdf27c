"""The strategy ``positions``: resolve the keys, stage the rows, delete the old ones, commit once.

When another commit is made in between, the files that it changed are resolved and the deletes are written anew. Staged
rows are kept, but for those that were made of rows that have changed; the batch is not read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.merge_engines import Deletes
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.conflict_retries import rebase_conflicts
from airflow_lake_provider.spark_jobs.formats.base import AppliedCommit, KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_route import CommitRoute
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.row_delta_commit import RowDelta
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import position_properties
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discarded_on_conflict
from airflow_lake_provider.spark_jobs.formats.iceberg.deletes.write_deletes import write_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.found_rows import ResolvedRows
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import WINS
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.concurrent_commits import (
    RebasedCommit,
    reading_base,
    rebase,
    refuse_expired_base,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.iceberg_row_merge import row_merge
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.resolve_keys import resolve_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.stage_rows import stage_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.staged_batch import StagedBatch
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sql.columns import quoted


def upsert_by_position(
    table: IcebergTable, commit: KeyedCommit, progress: Progress, route: CommitRoute | None = None
) -> AppliedCommit:
    """Apply the batch; the table's cost is one pruned read of its key columns.

    :param route: how the commit is made; None for at once.
    :raises CommitConflictError: the batch has to be decided on again, or other writers won every try; nothing changed.
    :raises UnknownOutcomeError: the commit's answer was lost and the run key is not on the table.
    """
    route = route or CommitRoute()
    refuse_expired_base(table, commit)
    with reading_base(table, commit), progress.phase("resolve") as facts:
        resolved = resolve_rows(table, commit)
        facts.update(rows=resolved.updated + resolved.deleted, files=len(resolved.positions))
    with reading_base(table, commit), progress.phase("stage") as facts:
        staged = StagedBatch(stage_rows(table, commit, resolved))
        facts.update(rows=staged.records, files=len(staged.files))
    with discarded_on_conflict(table, staged.files, route.discard), progress.phase("commit") as facts:
        committed = _commit(table, commit, resolved, staged, route, progress)
        facts["snapshot"] = str(committed.snapshot)
    return AppliedCommit(
        snapshot=str(committed.snapshot),
        strategy="positions",
        strategy_reason=committed.resolved.pruning,
        rows_inserted=committed.inserted,
        rows_updated=committed.resolved.updated,
        rows_deleted=committed.resolved.deleted,
    )


@dataclass(frozen=True, kw_only=True)
class _Committed:
    """Result of a commit.

    :param resolved: the rows that it has changed.
    """

    snapshot: int
    resolved: ResolvedRows
    inserted: int


def _inserted(table: IcebergTable, commit: KeyedCommit, staged: StagedBatch, resolved: ResolvedRows) -> int:
    soft = commit.merge_engine.deletes is Deletes.SOFT
    replaced = resolved.updated + (resolved.deleted if soft else 0)
    repeats = resolved.place.may_repeat and not row_merge(table, commit).reads
    if replaced and repeats and resolved.rows is not None:
        # A table may hold a key twice, and both rows are replaced by one where none has values to keep.
        changed = resolved.rows.filter(sf.col(WINS)).select(*map(quoted, commit.keys)).distinct()
        kept = commit.rows.filter(sf.lit(soft) | ~sf.col(DELETED)).join(changed, on=list(commit.keys), how="left_semi")
        replaced = kept.count()
    return max(0, staged.records - replaced)


def _commit(
    table: IcebergTable,
    commit: KeyedCommit,
    resolved: ResolvedRows,
    staged: StagedBatch,
    route: CommitRoute,
    progress: Progress,
) -> _Committed:
    delta: RowDelta | None = None
    deletes: list[Any] = []
    inserted = 0

    def attempt(on_head: RebasedCommit, position: dict[str, str]) -> _Committed:
        nonlocal delta, inserted
        refuse_expired_base(table, on_head.commit)
        if delta is None:
            with reading_base(table, on_head.commit):
                # A Spark job where many rows are replaced: after the commit it would fail a task that has applied them.
                inserted = _inserted(table, on_head.commit, staged, on_head.resolved)
                delta = write_deletes(
                    table, on_head.commit.base, on_head.resolved.positions, staged.files, staged.outdated
                )
            deletes[:] = delta.deletes
        snapshot = route.commit_delta(table, on_head.commit, delta, position)
        return _Committed(snapshot=snapshot, resolved=on_head.resolved, inserted=inserted)

    def rebase_pending(behind: RebasedCommit) -> RebasedCommit:
        nonlocal delta
        with reading_base(table, behind.commit):
            rebased = rebase(table, behind.commit, behind.resolved)
        if rebased.resolved is not behind.resolved:
            route.discard(table, deletes)
            delta, deletes[:] = None, []
        if rebased.affected is not None:
            with reading_base(table, rebased.commit):
                staged.stage_again(table, rebased.commit, rebased.resolved, rebased.affected, route.discard)
        return rebased

    found = RebasedCommit(commit=commit, resolved=resolved)
    with discarded_on_conflict(table, deletes, route.discard), position_properties(table, commit) as position:
        return rebase_conflicts(
            lambda on_head: attempt(on_head, position),
            rebase_pending,
            found,
            route.tries,
            progress,
            route.may_go_on,
        )
