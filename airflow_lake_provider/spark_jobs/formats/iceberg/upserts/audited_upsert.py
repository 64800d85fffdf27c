"""Write, audit, publish: a batch on a branch, the author's assertions over it, then main moved to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.audits import Audits
from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.schema_contract import MissingColumns
from airflow_lake_provider.spark_jobs.batch.batch_audit import BatchAudit
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.formats.base import AppliedCommit, KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.publication import drop_branch, publish, stage_branch_name
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import position_properties
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.audited_commit import AuditedRoute, audit_stage
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.iceberg_row_merge import row_merge
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.position_upsert import upsert_by_position
from airflow_lake_provider.spark_jobs.progress import Progress

Upsert = Callable[[IcebergTable, KeyedCommit, Progress], AppliedCommit]


def upsert_audited(
    table: IcebergTable, commit: KeyedCommit, audits: Audits, upsert: Upsert, progress: Progress
) -> AppliedCommit:
    """Apply a batch that has to pass ``audits`` first.

    :param upsert: the strategy; one that can write to a branch.
    :raises InvalidSpecError: an assertion is no query that can be resolved.
    :raises AuditFailedError: rows offend an assertion; main is as it was.
    :raises CommitConflictError: the batch has to be decided on again, or other writers won; main has nothing of it.
    :raises UnknownOutcomeError: the catalog's answer was lost and the run key is not on the table.
    """
    audit = _batch_audit(table, commit, audits)
    if upsert is upsert_by_position:
        applied = _by_position(table, commit, audit, progress)
    else:
        applied = _on_branch(table, commit, audit, upsert, progress)
    return replace(applied, audits_passed=tuple(audits.queries), audit_runs=audit.runs)


def _by_position(table: IcebergTable, commit: KeyedCommit, audit: BatchAudit, progress: Progress) -> AppliedCommit:
    route = AuditedRoute(audit, progress)
    try:
        return upsert_by_position(table, commit, progress, route)
    except CommitConflictError:
        route.give_up(table)
        raise


def _on_branch(
    table: IcebergTable, commit: KeyedCommit, audit: BatchAudit, upsert: Upsert, progress: Progress
) -> AppliedCommit:
    stage = stage_branch_name(commit.run_key)
    applied = upsert(table, replace(commit, branch=stage, audits=None), progress)
    staged = int(applied.snapshot)
    try:
        audit_stage(table, commit, audit, stage, staged, progress)
        with progress.phase("publish"), position_properties(table, commit) as position:
            publish(table, _on_its_base(table, commit, staged), stage, staged, position)
    except CommitConflictError:
        drop_branch(table, stage)
        raise
    return applied


def _on_its_base(table: IcebergTable, commit: KeyedCommit, staged: int) -> KeyedCommit:
    """Return the commit on the snapshot that the staged one was made on: the strategy may have rebased it."""
    if commit.base is None or staged == int(commit.base):
        return commit
    return replace(commit, base=str(table.refresh().java.snapshot(staged).parentId()))


def _batch_audit(table: IcebergTable, commit: KeyedCommit, audits: Audits) -> BatchAudit:
    held = table.spark.table(table.sql_name)
    merge = row_merge(table, commit)
    given = {name.lower(): name for name in commit.rows.columns}
    columns = []
    for column in held.schema:
        name = given.get(column.name.lower())
        if name is not None:
            columns.append(sf.expr(merge.added(name)).cast(column.dataType).alias(column.name))
        elif commit.missing_columns is MissingColumns.NULL:
            columns.append(sf.lit(None).cast(column.dataType).alias(column.name))
    batch = commit.rows.filter(~sf.col(DELETED)).select(*columns)
    audit = BatchAudit(table.spark, str(table.name), audits, batch)
    # Before anything is written: both views have their columns already.
    audit.resolve(held)
    return audit
