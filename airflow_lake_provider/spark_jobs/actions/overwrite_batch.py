"""Overwrite partitions: the rows of a batch in place of those that the table has, in one atomic commit."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.reports.commit_counts import counts_to_summary
from airflow_lake_provider.contracts.reports.job import Outcome, OverwritePartitionsReport
from airflow_lake_provider.contracts.specs.overwrite_partitions import OnEmptyBatch, OverwritePartitionsSpec
from airflow_lake_provider.spark_jobs.actions.already_applied import Unchanged
from airflow_lake_provider.spark_jobs.actions.load_batch import NewInput, load_batch
from airflow_lake_provider.spark_jobs.actions.target_schema import fit_target
from airflow_lake_provider.spark_jobs.batch.deduplicated_changes import resolve_columns
from airflow_lake_provider.spark_jobs.formats.commits import OverwriteCommit
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sources.base import RowBatch
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unordered_columns

_New = NewInput[OverwritePartitionsSpec, OverwritePartitionsReport]


def overwrite_partitions(
    spark: SparkSession, spec: OverwritePartitionsSpec, progress: Progress
) -> OverwritePartitionsReport:
    """Put the rows of a batch in place of partitions, or say why there is nothing to replace.

    :raises CommitConflictError: other writers won every attempt.
    :raises InvalidSpecError: a query is not what it is called, or ``where`` does not select whole partitions.
    :raises BadInputError: the batch cannot be written as it is, or has rows outside of ``where``.
    :raises AuditFailedError: an audit of the spec found rows.
    """
    return load_batch(
        spark,
        spec,
        OverwritePartitionsReport,
        lambda new: new.with_rows(lambda batch: _overwrite(new, batch), spec.deduplicate_by),
        progress,
    )


def _overwrite(new: _New, batch: RowBatch) -> OverwritePartitionsReport:
    spec, target, files = new.spec, new.target, len(new.decision.wanted.files)

    def counts(written: int) -> dict[str, Any]:
        read = written if batch.rows_read is None else batch.rows_read()
        return {"batch_rows": read, "rows_written": written, "duplicates_in_batch": read - written}

    def summary(written: int) -> dict[str, str] | None:
        empties = spec.empty is OnEmptyBatch.DELETE
        return counts_to_summary(batch_files=files, **counts(written)) if written or empties else None

    before = target.state(spec.branch) if target.exists() else None
    changes = fit_target(spec, target, batch.rows, new.source.missing_columns)
    commit = OverwriteCommit(
        rows=batch.rows,
        reads_table=batch.reads_table,
        reading=batch.reading,
        counts=summary,
        where=spec.where,
        keys=_resolved_keys(spec, batch),
        allow_rows=spec.allow_rows,
        input_bytes=sum(file.size for file in new.decision.wanted.files) or None,
        **new.of_commit(),
    )
    applied = target.overwrite_partitions(commit, new.progress)
    if applied is None:
        kept = "the table has no rows there" if spec.empty is OnEmptyBatch.DELETE else "no partition is replaced"
        why = Unchanged(Outcome.EMPTY_BATCH, f"the batch has no rows, and {kept}")
        return new.unchanged(why, batch_files=files, schema_changes=changes)
    return new.applied(
        applied,
        before,
        reason=f"replaced {spec.where or 'the partitions of the batch'} by {applied.rows_inserted:,} rows",
        schema_changes=changes,
        rows_replaced=applied.rows_replaced,
        partitions_replaced=applied.partitions_replaced,
        **counts(applied.rows_inserted),
    )


def _resolved_keys(spec: OverwritePartitionsSpec, batch: RowBatch) -> tuple[str, ...]:
    """Return the key columns as the batch spells them.

    :raises BadInputError: it lacks one, or its values have no order.
    """
    keys = resolve_columns(batch.rows, spec.keys, "keys")
    refuse_unordered_columns(batch.rows.schema, keys)
    return tuple(keys)
