"""Write, audit, publish: a batch on a branch, the author's assertions over it, then main moved to it."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.audits import Audits
from airflow_lake_provider.contracts.schema_contract import MissingColumns
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.batch.run_audits import BatchAudit
from airflow_lake_provider.spark_jobs.formats.base import AppliedCommit, KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.iceberg_row_merge import row_merge
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.strategies import Strategy
from airflow_lake_provider.spark_jobs.progress import Progress


def upsert_audited(
    table: IcebergTable, commit: KeyedCommit, audits: Audits, strategy: Strategy, progress: Progress
) -> AppliedCommit:
    """Apply a batch that has to pass ``audits`` first.

    :raises InvalidSpecError: an assertion is no query that can be resolved.
    :raises AuditFailedError: rows offend an assertion; main is as it was.
    :raises CommitConflictError: the batch has to be decided on again, or other writers won; main has nothing of it.
    :raises UnknownOutcomeError: the catalog's answer was lost and the run key is not on the table.
    """
    audit = _batch_audit(table, commit, audits)
    applied = strategy.apply_audited(table, commit, audit, progress)
    return replace(applied, audits_passed=tuple(audits.queries), audit_runs=audit.runs)


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
