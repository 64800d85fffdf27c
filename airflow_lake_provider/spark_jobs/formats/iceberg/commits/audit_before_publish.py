"""Commit on a branch, audit it there, and publish it: as one row delta, or by any strategy.

When main moves meanwhile, the caller resolves the rows against its head and commits the same files again. It does so on
another branch, made there, that is audited again and published. From the first commit to the last a branch of the run
has to reach the files, since an expiry deletes what no branch reaches. So the branch before is dropped only when the
next is there. Where it was gone by then, the files may be, too, and the batch starts over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.errors import AuditFailedError, CommitConflictError, UnknownOutcomeError
from airflow_lake_provider.spark_jobs.batch.run_audits import BatchAudit
from airflow_lake_provider.spark_jobs.formats.commits import LoadCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.publish_stage_branch import (
    KEPT_AUDIT_DAYS,
    drop_branch,
    publish,
    retain_for_inspection,
    stage_branch_name,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import (
    CommitRoute,
    RowDelta,
    commit_row_delta,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import delete_locations, locations_of
from airflow_lake_provider.spark_jobs.formats.iceberg.table.filter_pushdown import rows_for_queries
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import Progress

# Each audit may read the whole table; a local one is run once.
_TRIES, _LOCAL_TRIES = 5, 20


@dataclass
class AuditedRoute(CommitRoute):
    """Through a branch of its own.

    :param named: locations of files that a snapshot of the table names; only an expiry may delete those.
    :param stage: the branch that reaches them, and its snapshot.
    """

    audit: BatchAudit
    progress: Progress
    named: set[str] = field(default_factory=set)
    stage: tuple[str, int] | None = None
    _has_lost_files: bool = False

    @property
    def tries(self) -> int:
        """Fewer where each is an audit."""
        return _LOCAL_TRIES if self.audit.audits.local else _TRIES

    def commit_delta(self, table: IcebergTable, commit: LoadCommit, delta: RowDelta, position: dict[str, str]) -> int:
        """Commit on a branch, audit, publish.

        :raises AuditFailedError: rows offend an assertion; the branch is kept.
        """
        stage = stage_branch_name(commit.run_key)
        staged = commit_row_delta(table, replace(commit, branch=stage), delta, {})
        self.named |= locations_of(table, delta.rows) | locations_of(table, delta.deletes)
        before, self.stage = self.stage, (stage, staged)
        if before is not None:
            self._take_over(table, *before)
        audit_stage(table, commit, self.audit, stage, staged, self.progress)
        with self.progress.phase("publish"):
            publish(table, commit, stage, staged, position)
        return staged

    def may_go_on(self) -> bool:
        """Tell whether no expiry can have deleted files of a commit that was refused."""
        return not self._has_lost_files

    def discard(self, table: IcebergTable, files: Collection[Any]) -> None:
        """Delete files that no snapshot names."""
        delete_locations(table, locations_of(table, files) - self.named)

    def given_up_on_failure(self, table: IcebergTable) -> AbstractContextManager[None]:
        """Drop the branch when the batch starts over."""
        return dropped_on_failure(lambda: None if self.stage is None else drop_branch(table, self.stage[0]))

    def _take_over(self, table: IcebergTable, stage: str, staged: int) -> None:
        # Asked only now: a branch that is there has been there all the time, as its name is never used again.
        if table.refresh().head(stage) != staged:
            self._has_lost_files = True
            raise CommitConflictError(f"{table.name}: the branch {stage} was removed while the batch was audited")
        drop_branch(table, stage)


@contextmanager
def dropped_on_failure(drop: Callable[[], None]) -> Iterator[None]:
    """Drop the branch of a batch that surely was not published; after other errors than a conflict, if that can be."""
    try:
        yield
    # A batch that failed its audits is kept on a branch.
    except (AuditFailedError, UnknownOutcomeError):
        raise
    except Exception as error:
        with nullcontext() if isinstance(error, CommitConflictError) else suppress(Exception):
            drop()
        raise


def audit_stage(
    table: IcebergTable, commit: LoadCommit, audit: BatchAudit, stage: str, staged: int, progress: Progress
) -> None:
    """Run the assertions over the staged snapshot, unless they are local to the batch and have passed.

    :raises AuditFailedError: rows offend one; the snapshot is on a branch of its own for a while, if it could be kept.
    """
    if audit.is_decided:
        return
    with progress.phase("audit") as facts:
        offending = audit.run(rows_for_queries(table, table.rows_at(staged), staged))
        facts.update(passed=len(audit.audits.queries) - len(offending), failed=len(offending))
    if not offending:
        return
    failures = ", ".join(f"{name!r} ({count:,} rows)" for name, count in offending.items())
    raise AuditFailedError(
        f"{table.name}: {len(offending)} of {len(audit.audits.queries)} audits failed: {failures}. Main is as it was. "
        f"{_kept(table, commit, stage, staged)} Repair the input, or the assertion, and clear the task."
    )


def _kept(table: IcebergTable, commit: LoadCommit, stage: str, staged: int) -> str:
    """Keep the batch for inspection and say where it is."""
    try:
        kept = retain_for_inspection(table, commit, stage, staged)
    # A conflict would be rebased, and an audit that failed has its answer: no other commit makes the batch pass.
    except (CommitConflictError, UnknownOutcomeError) as error:
        return f"The batch could not be kept on a branch: {str(error).rstrip('.')}."
    return (
        f"The batch is on a branch for {KEPT_AUDIT_DAYS} days, which the audits saw as the view {Audits.AUDITED}: "
        f"SELECT * FROM {table.name} VERSION AS OF '{kept}'."
    )
