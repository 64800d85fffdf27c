"""The strategy ``positions``: resolve the keys, stage the rows, delete the old ones, commit once by a route.

When another commit is made in between, the files that it changed are resolved and the deletes are written anew. Staged
rows are kept, but for those that were made of rows that have changed; the batch is not read again.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.merge_engines import Deletes
from airflow_lake_provider.contracts.commit_retries import CommitRetries
from airflow_lake_provider.contracts.errors import UnknownOutcomeError
from airflow_lake_provider.contracts.reports.commit_counts import counts_to_summary
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.new_head import reading_base, refuse_expired_base
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import CommitRoute, RowDelta
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import position_properties
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discarded_on_failure
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.write_deletes import write_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import WINS, ResolvedRows
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import (
    AppliedUpsert,
    PlannedUpsert,
    row_merge,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.rebase_commit import StagedBatch, rebase
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.resolve_keys import resolve_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.write_upserted_rows import write_upserted_rows
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import rebase_conflicts
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted


def upsert_by_position(
    table: IcebergTable, commit: PlannedUpsert, progress: Progress, route: CommitRoute | None = None
) -> AppliedUpsert:
    """Apply the batch; the table's cost is one pruned read of its key columns.

    :param route: how the commit is made; None for at once.
    """
    route = route or CommitRoute()
    refuse_expired_base(table, commit)
    with reading_base(table, commit), progress.phase("resolve") as facts:
        resolved = resolve_rows(table, commit)
        facts.update(rows=resolved.updated + resolved.deleted, files=len(resolved.positions))
    with reading_base(table, commit), progress.phase("stage") as facts:
        staged, delta = _stage_beside_deletes(table, commit, resolved, route)
        facts.update(rows=staged.records, files=len(staged.files))
    pending = _PositionCommit(table=table, commit=commit, resolved=resolved, staged=staged, route=route, delta=delta)
    with progress.phase("commit") as facts:
        with discarded_on_failure(table, staged.files, route.discard):
            snapshot = str(pending.apply(progress))
        facts["snapshot"] = snapshot
    return AppliedUpsert(
        snapshot=snapshot,
        strategy="positions",
        strategy_reason=pending.resolved.pruning,
        rows_inserted=pending.inserted or 0,
        rows_updated=pending.resolved.updated,
        rows_deleted=pending.resolved.deleted,
    )


@dataclass(kw_only=True)
class _PositionCommit:
    """A row delta that is committed, and rebased while other writers win.

    :param delta: with the deletes of those rows; None until they are written.
    :param inserted: rows of the batch that replace none; None until they are counted.
    """

    table: IcebergTable
    commit: PlannedUpsert
    resolved: ResolvedRows
    staged: StagedBatch
    route: CommitRoute
    inserted: int | None = None
    delta: RowDelta | None = None

    def apply(self, progress: Progress) -> int:
        """Commit once, and return the snapshot."""
        try:
            with position_properties(self.table, self.commit) as position:
                return rebase_conflicts(
                    lambda pending: pending._attempt(position),
                    _PositionCommit._rebase,
                    self,
                    CommitRetries.of(str(self.table.name), self.table.properties(), self.route.tries),
                    progress,
                    self.route.may_go_on,
                )
        except UnknownOutcomeError:
            raise
        except Exception:
            with suppress(Exception):
                self._discard_deletes()
            raise

    def _attempt(self, position: dict[str, str]) -> int:
        refuse_expired_base(self.table, self.commit)
        with reading_base(self.table, self.commit):
            if self.inserted is None:
                # A Spark job where many rows are replaced: after the commit it would fail a task that has applied them.
                self.inserted = _inserted(self.table, self.commit, self.staged, self.resolved)
            if self.delta is None:
                self.delta = _write_deletes(self.table, self.commit, self.resolved, self.staged)
        counts = counts_to_summary(
            rows_inserted=self.inserted, rows_updated=self.resolved.updated, rows_deleted=self.resolved.deleted
        )
        commit = replace(self.commit, summary={**self.commit.summary, **counts})
        return self.route.commit_delta(self.table, commit, self.delta, position)

    def _discard_deletes(self) -> None:
        if self.delta is not None:
            self.route.discard(self.table, self.delta.deletes)
        self.delta = self.inserted = None

    def _rebase(self) -> _PositionCommit:
        with reading_base(self.table, self.commit):
            rebased = rebase(self.table, self.commit, self.resolved)
        if rebased.resolved is not self.resolved:
            self._discard_deletes()
        self.commit, self.resolved = rebased.commit, rebased.resolved
        if rebased.affected is not None:
            with reading_base(self.table, self.commit):
                self.staged.stage_again(self.table, self.commit, self.resolved, rebased.affected, self.route.discard)
        return self


def _stage_beside_deletes(
    table: IcebergTable, commit: PlannedUpsert, resolved: ResolvedRows, route: CommitRoute
) -> tuple[StagedBatch, RowDelta]:
    """Stage the rows while the deletes are written, which depend on positions alone.

    No commit names the files yet: when one of both fails, what the other has written is deleted.
    """
    with ThreadPoolExecutor(1) as beside:
        writing = beside.submit(_write_deletes, table, commit, resolved, StagedBatch([]))
        try:
            staged = StagedBatch(write_upserted_rows(table, commit, resolved))
        except BaseException:
            with suppress(Exception):
                route.discard(table, writing.result().deletes)
            raise
        with discarded_on_failure(table, staged.files, route.discard):
            return staged, replace(writing.result(), rows=staged.files)


def _write_deletes(table: IcebergTable, commit: PlannedUpsert, resolved: ResolvedRows, staged: StagedBatch) -> RowDelta:
    candidates = commit.candidates
    planned = candidates.tasks if candidates is not None and candidates.snapshot == commit.base else None
    return write_deletes(table, commit.base, resolved.positions, staged.files, staged.outdated, planned)


def _inserted(table: IcebergTable, commit: PlannedUpsert, staged: StagedBatch, resolved: ResolvedRows) -> int:
    soft = commit.merge_engine.deletes is Deletes.SOFT
    replaced = resolved.updated + (resolved.deleted if soft else 0)
    repeats = resolved.place.may_repeat and not row_merge(table, commit).reads
    if replaced and repeats and resolved.rows is not None:
        # A table may hold a key twice, and both rows are replaced by one where none has values to keep.
        changed = resolved.rows.filter(sf.col(WINS)).select(*map(quoted, commit.keys)).distinct()
        kept = commit.rows.filter(sf.lit(soft) | ~sf.col(DELETED)).join(changed, on=list(commit.keys), how="left_semi")
        replaced = kept.count()
    return max(0, staged.records - replaced)
