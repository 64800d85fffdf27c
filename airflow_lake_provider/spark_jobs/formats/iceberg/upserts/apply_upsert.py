"""Apply a batch by key: plan it once, choose a strategy, audit where that was asked for, commit."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.iceberg.owner_settings import owner_settings
from airflow_lake_provider.iceberg.table_obstacles import MERGE_MODE
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.batch.run_audits import BatchAudit
from airflow_lake_provider.spark_jobs.formats.commits import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.new_head import reading_base, refuse_expired_base
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.fit_rows import refusing_misfits
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.pushdown_literals import refuse_other_spellings
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.choose_strategy import (
    STRATEGIES,
    Strategy,
    choose_strategy,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_pruning import BatchKeys
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import (
    AppliedUpsert,
    PlannedUpsert,
    row_merge,
)
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sql.nested_types import nullable


def apply_upsert(
    table: IcebergTable, commit: KeyedCommit, progress: Progress, asked: UpsertStrategy = UpsertStrategy.AUTO
) -> AppliedUpsert:
    """Commit once.

    :param asked: strategy of the author; a commit without rows needs none.
    :raises UnsupportedError: the strategy that was asked for is not possible.
    :raises InvalidSpecError: an assertion is no query that can be resolved.
    :raises BadInputError: a value is none that its column holds.
    :raises AuditFailedError: rows offend an assertion; main is as it was.
    :raises CommitConflictError: the batch has to be decided on again, or other writers won; main has nothing of it.
    :raises UnknownOutcomeError: the catalog's answer was lost and the run key is not on the table.
    """
    with refusing_misfits(table):
        return _apply(table, commit, progress, asked)


def _apply(table: IcebergTable, commit: KeyedCommit, progress: Progress, asked: UpsertStrategy) -> AppliedUpsert:
    planned = _plan(table, commit)
    with reading_base(table, planned), progress.phase("choose") as facts:
        if planned.batch_keys.count == 0:
            asked = UpsertStrategy.AUTO
        chosen = choose_strategy(table, planned, asked)
        facts["strategy"] = chosen.strategy.value
    planned = replace(planned, candidates=chosen.candidates)
    strategy = STRATEGIES[chosen.strategy]
    # Before the commit, as it may find a setting that is no number.
    clause = owner_settings(
        str(table.name),
        table.properties(),
        MERGE_MODE,
        chosen.strategy.value,
        asked=asked is not UpsertStrategy.AUTO,
        format_version=table.format_version,
    )
    if planned.audits is not None:
        applied = _apply_audited(table, planned, planned.audits, strategy, progress)
    else:
        applied = strategy.apply(table, planned, progress)
    warnings = (*((chosen.warning,) if chosen.warning else ()), *applied.warnings)
    reason = f"{chosen.reason}; {applied.strategy_reason}"
    return replace(applied, strategy_reason=reason, warnings=warnings, settings_clause=clause)


def _plan(table: IcebergTable, commit: KeyedCommit) -> PlannedUpsert:
    refuse_other_spellings(table, commit.rows, commit.keys)
    keys = BatchKeys.of(commit)
    refuse_expired_base(table, commit)
    return PlannedUpsert.of(table, commit, keys)


def _apply_audited(
    table: IcebergTable, commit: PlannedUpsert, audits: Audits, strategy: Strategy, progress: Progress
) -> AppliedUpsert:
    audit = _batch_audit(table, commit, audits)
    applied = strategy.apply_audited(table, commit, audit, progress)
    return replace(applied, audits_passed=tuple(audits.queries), audit_runs=audit.runs)


def _batch_audit(table: IcebergTable, commit: PlannedUpsert, audits: Audits) -> BatchAudit:
    table_rows = table.spark.table(table.sql_name)
    merge = row_merge(table, commit)
    given = {name.lower(): name for name in commit.rows.columns}
    columns = []
    for column in table_rows.schema:
        name = given.get(column.name.lower())
        if name is not None:
            # Whether a required field is there is for the writer to say.
            columns.append(sf.expr(merge.added(name)).cast(nullable(column.dataType)).alias(column.name))
        elif commit.missing_columns is MissingColumns.NULL:
            columns.append(sf.lit(None).cast(column.dataType).alias(column.name))
    batch = commit.rows.filter(~sf.col(DELETED)).select(*columns)
    audit = BatchAudit(table.spark, str(table.name), audits, batch)
    # Before anything is written: both views have their columns already.
    audit.resolve(table_rows)
    return audit
