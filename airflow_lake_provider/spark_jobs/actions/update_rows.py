"""Update rows that match, once."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.reports.job import Outcome, UpdateRowsReport
from airflow_lake_provider.contracts.specs.row_changes import UpdateRowsSpec
from airflow_lake_provider.contracts.table_properties import BASE_SNAPSHOT, FILTER, MAX_VALUE_CHARACTERS
from airflow_lake_provider.spark_jobs.actions.already_applied import recognised_run
from airflow_lake_provider.spark_jobs.formats.base import FormatTable
from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.formats.commits import MatchedCommit, RowMatch, state_after_commit
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import retry_conflicts
from airflow_lake_provider.spark_jobs.sql.query import check_expression_text


def update_rows(spark: SparkSession, spec: UpdateRowsSpec, progress: Progress) -> UpdateRowsReport:
    """Update the rows, or say why there is nothing to update.

    :raises CommitConflictError: other writers won every attempt.
    :raises InvalidSpecError: the predicate or a column cannot be taken.
    :raises BadInputError: a required column would become NULL.
    :raises ForgottenRunError: it cannot be told whether this run has updated the rows.
    """
    for name, text in spec.assignments.items():
        check_expression_text(spark, text, f"{spec.table}: assignments[{name!r}]", allow_sql=spec.allow_sql)
    target = table_of(spark, spec)
    return retry_conflicts(lambda attempt: _attempt(spec, target, attempt, progress), spec.max_attempts, progress)


def _attempt(spec: UpdateRowsSpec, target: FormatTable, attempt: int, progress: Progress) -> UpdateRowsReport:
    with progress.phase("plan"):
        applied_state = target.changeable_state()
        run_key = spec.run.run_key(spec.digest_text(), ())
        before = target.state()
    unchanged = UpdateRowsReport(
        table=spec.table,
        outcome=Outcome.NOTHING_NEW,
        reason="no row matches",
        run_key=run_key,
        before=before,
        after=before,
        attempts=attempt,
    )
    done = recognised_run(spec, applied_state, run_key, "updated the rows")
    if done is not None:
        return replace(unchanged, **done.reported(UpdateRowsReport), seconds=dict(progress.seconds))
    applied = target.change(_commit(spec, applied_state.base, run_key), progress)
    if applied is None:
        return replace(unchanged, seconds=dict(progress.seconds))
    after, unseen = state_after_commit(target.state)
    return replace(
        unchanged,
        outcome=Outcome.APPLIED,
        reason=f"updated {applied.rows_updated} rows{applied.settings_clause}",
        after=after,
        committed=(applied.snapshot,),
        warnings=unseen,
        seconds=dict(progress.seconds),
        rows_updated=applied.rows_updated,
    )


def _commit(spec: UpdateRowsSpec, base: str | None, run_key: str) -> MatchedCommit:
    return MatchedCommit(
        action=spec.action,
        run_key=run_key,
        base=base,
        summary={FILTER: spec.where[:MAX_VALUE_CHARACTERS], BASE_SNAPSHOT: str(base)},
        match=RowMatch(where=spec.where, allow_sql=spec.allow_sql),
        assignments=spec.assignments,
    )
