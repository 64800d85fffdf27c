"""The strategies by which rows are applied by key, and how each one waits for audits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from airflow_lake_provider.contracts.errors import AuditFailedError, CommitConflictError, UnknownOutcomeError
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.batch.run_audits import BatchAudit
from airflow_lake_provider.spark_jobs.formats.commits import AppliedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.publish_stage_branch import (
    drop_branch,
    publish,
    stage_branch_name,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import position_properties
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.audit_before_publish import AuditedRoute, audit_stage
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.copy_on_write_upsert import upsert_by_copy
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.equality.equality_upsert import upsert_by_equality
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.merge_upsert import merge_and_publish
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import PlannedUpsert
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.position_upsert import upsert_by_position
from airflow_lake_provider.spark_jobs.progress import Progress


# [START strategy]
class Strategy(Protocol):
    """Applies a batch in one commit.

    Both raise ``CommitConflictError`` where the batch has to be decided on again, or other writers won every try, and
    ``UnknownOutcomeError`` where the catalog's answer was lost and the run key is not on the table.
    """

    def apply(self, table: IcebergTable, commit: PlannedUpsert, progress: Progress) -> AppliedCommit:
        """Commit to the branch at once."""

    def apply_audited(
        self, table: IcebergTable, commit: PlannedUpsert, audit: BatchAudit, progress: Progress
    ) -> AppliedCommit:
        """Commit beside main, audit, and publish.

        :raises AuditFailedError: rows offend an assertion; main is as it was.
        """


# [END strategy]


class ByPosition:
    """Rebases its commit when an audited batch meets another: the files stay, their deletes are written anew."""

    def apply(self, table: IcebergTable, commit: PlannedUpsert, progress: Progress) -> AppliedCommit:
        """See :class:`Strategy`."""
        return upsert_by_position(table, commit, progress)

    def apply_audited(
        self, table: IcebergTable, commit: PlannedUpsert, audit: BatchAudit, progress: Progress
    ) -> AppliedCommit:
        """See :class:`Strategy`."""
        route = AuditedRoute(audit, progress)
        try:
            return upsert_by_position(table, commit, progress, route)
        # A batch that failed its audits is kept on a branch.
        except (AuditFailedError, UnknownOutcomeError):
            raise
        except Exception as error:
            _dropped(error, lambda: route.give_up(table))
            raise


@dataclass(frozen=True)
class OnStageBranch:
    """Writes an audited batch to a stage branch, by a strategy that cannot rebase one."""

    upsert: Callable[[IcebergTable, PlannedUpsert, Progress], AppliedCommit]

    def apply(self, table: IcebergTable, commit: PlannedUpsert, progress: Progress) -> AppliedCommit:
        """See :class:`Strategy`."""
        return self.upsert(table, commit, progress)

    def apply_audited(
        self, table: IcebergTable, commit: PlannedUpsert, audit: BatchAudit, progress: Progress
    ) -> AppliedCommit:
        """See :class:`Strategy`."""
        stage = stage_branch_name(commit.run_key)
        applied = self.upsert(table, replace(commit, branch=stage, audits=None), progress)
        staged = int(applied.snapshot)
        try:
            audit_stage(table, commit, audit, stage, staged, progress)
            with progress.phase("publish"), position_properties(table, commit) as position:
                publish(table, _on_its_base(table, commit, staged), stage, staged, position)
        except (AuditFailedError, UnknownOutcomeError):
            raise
        except Exception as error:
            _dropped(error, lambda: drop_branch(table, stage))
            raise
        return applied


def _dropped(error: Exception, drop: Callable[[], None]) -> None:
    """Drop the branch of a batch that surely was not published; after other errors than a conflict, if that can be."""
    with nullcontext() if isinstance(error, CommitConflictError) else suppress(Exception):
        drop()


def _on_its_base(table: IcebergTable, commit: PlannedUpsert, staged: int) -> PlannedUpsert:
    """Return the commit on the snapshot that the staged one was made on: the strategy may have rebased it."""
    if commit.base is None or staged == int(commit.base):
        return commit
    return replace(commit, base=str(table.refresh().java.snapshot(staged).parentId()))


# [START strategies]
STRATEGIES: Mapping[UpsertStrategy, Strategy] = {
    UpsertStrategy.POSITIONS: ByPosition(),
    UpsertStrategy.COPY_ON_WRITE: OnStageBranch(upsert_by_copy),
    UpsertStrategy.MERGE: OnStageBranch(merge_and_publish),
    UpsertStrategy.EQUALITY: OnStageBranch(upsert_by_equality),
}
# [END strategies]
