"""Remove rows that are too old by a column of time, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, DateType, StructType, TimestampNTZType, TimestampType

from airflow_lake_provider.contracts.applied.run_key import CLEAR_OR_NEW_RUN
from airflow_lake_provider.contracts.reports.job import Outcome, RowExpiryReport
from airflow_lake_provider.contracts.row_age import AgeLimit, age_limit, age_sentence, most_rows
from airflow_lake_provider.contracts.specs.maintenance import RowExpirySpec
from airflow_lake_provider.contracts.table_properties import BASE_SNAPSHOT, EXPIRED_BEFORE
from airflow_lake_provider.spark_jobs.actions.already_applied import recognised_run
from airflow_lake_provider.spark_jobs.formats.base import FormatTable
from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.formats.commits import MatchedCommit, RowMatch, state_after_commit
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import retry_conflicts
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name, text_literal

_KINDS: Mapping[type[DataType], str] = {
    DateType: "date",
    TimestampType: "timestamptz",
    TimestampNTZType: "timestamp",
}


def expire_rows(spark: SparkSession, spec: RowExpirySpec, progress: Progress) -> RowExpiryReport:
    """Remove the rows, or say why there are none.

    :raises CommitConflictError: other writers won every attempt.
    :raises InvalidSpecError: the column is missing, or has no time.
    :raises UnsupportedError: more of the rows would go than the author allows.
    :raises ForgottenRunError: it cannot be told whether this run has removed them.
    """
    target = table_of(spark, spec)
    return retry_conflicts(lambda attempt: _attempt(spec, target, attempt, progress), spec.max_attempts, progress)


def _attempt(spec: RowExpirySpec, target: FormatTable, attempt: int, progress: Progress) -> RowExpiryReport:
    with progress.phase("plan") as facts:
        applied_state = target.changeable_state()
        run_key = spec.run.run_key(spec.digest_text(), ())
        before = target.state()
        columns = _columns(target.schema() or StructType())
        limit = age_limit(spec, columns, spec.asked_at or datetime.now(UTC), applied_state.commits)
        facts["before"] = limit.literal if limit is not None else "unknown"
    report = RowExpiryReport(
        table=spec.table,
        outcome=Outcome.NOTHING_NEW,
        reason=age_sentence(spec, limit),
        run_key=run_key,
        before=before,
        after=before,
        attempts=attempt,
    )
    done = recognised_run(spec, applied_state, run_key, "expired rows", way_out=CLEAR_OR_NEW_RUN)
    if done is not None:
        return replace(report, **done.reported(RowExpiryReport), seconds=dict(progress.seconds))
    applied = None
    if limit is not None and applied_state.base is not None:
        commit = MatchedCommit(
            action=spec.action,
            run_key=run_key,
            base=applied_state.base,
            summary={EXPIRED_BEFORE: limit.text, BASE_SNAPSHOT: applied_state.base},
            match=RowMatch(where=f"{quoted_name(limit.column)} < {text_literal(limit.literal)}"),
            whole_files_by=limit.column,
            most_rows=most_rows(spec.max_share, before.rows + before.deleted_rows),
        )
        applied = target.change(commit, progress)
    if applied is None or limit is None:
        return replace(report, seconds=dict(progress.seconds), expired_before=_literal(limit))
    after, unseen = state_after_commit(target.state)
    return replace(
        report,
        outcome=Outcome.APPLIED,
        reason=f"{report.reason}; {applied.rows_deleted:,} went{applied.settings_clause}",
        committed=(applied.snapshot,),
        after=after,
        warnings=unseen,
        seconds=dict(progress.seconds),
        expired_before=limit.literal,
        rows_deleted=applied.rows_deleted,
        files_removed=applied.files_removed,
        files_changed=applied.files_changed,
    )


def _literal(limit: AgeLimit | None) -> str | None:
    return None if limit is None else limit.literal


def _columns(schema: StructType) -> dict[str, str]:
    """Return the types of columns by the names that their kinds have on workers, other types as Spark has them."""
    return {field.name: _KINDS.get(type(field.dataType), field.dataType.simpleString()) for field in schema}
