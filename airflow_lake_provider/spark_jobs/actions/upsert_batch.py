"""Upsert: the last change of every key of a batch, in one atomic commit, once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.source_position import positions_in_summary
from airflow_lake_provider.contracts.author.merge_engines import Deletes
from airflow_lake_provider.contracts.reports.commit_counts import counts_to_summary
from airflow_lake_provider.contracts.reports.job import Outcome, UpsertReport
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.actions.already_applied import (
    Unchanged,
    recognised,
    without_new_events,
    without_new_input,
)
from airflow_lake_provider.spark_jobs.actions.target_schema import fit_target
from airflow_lake_provider.spark_jobs.formats.base import AppliedState, FormatTable
from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.formats.commits import AppliedCommit, KeyedCommit, state_after_commit
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import retry_conflicts
from airflow_lake_provider.spark_jobs.sources.base import BatchSource, ChangeBatch, Listing, Wanted, open_source
from airflow_lake_provider.spark_jobs.sources.new_input import InputDecision, decide_input
from airflow_lake_provider.spark_jobs.sql.query import check_expression_text, check_query

# Bytes of files without an event of the table that are looked through again rather than committed as consumed.
_LOOKED_AT_AGAIN = 64 * 1024 * 1024


def upsert_batch(spark: SparkSession, spec: UpsertSpec, progress: Progress) -> UpsertReport:
    """Apply a batch, or say why there is nothing to apply.

    :raises CommitConflictError: other writers won every attempt.
    :raises InvalidSpecError: a query or an expression is not what it is called; nothing was run.
    :raises BadInputError: the batch cannot be applied as it is.
    :raises AuditFailedError: an audit of the spec found rows.
    """
    _check_texts(spark, spec)
    target, source = table_of(spark, spec), open_source(spark, spec)
    located = source.location()
    report = retry_conflicts(
        lambda attempt: _counted(_attempt(spec, source, target, progress), attempt), spec.max_attempts, progress
    )
    return replace(report, source_location=located.address, warnings=(*report.warnings, *located.warnings))


def _check_texts(spark: SparkSession, spec: UpsertSpec) -> None:
    """Refuse texts that are not what they are called, before anything is read or run."""
    if spec.source.query:
        check_query(spark, spec.source.query, f"{spec.table}: the query of the source", allow_sql=spec.allow_sql)
    if spec.delete_when:
        check_expression_text(spark, spec.delete_when, f"{spec.table}: delete_when", allow_sql=spec.allow_sql)
    for name, query in (spec.audits.queries if spec.audits else {}).items():
        check_query(spark, query, f"{spec.table}: audit {name!r}", allow_sql=spec.allow_sql)


def _counted(report: UpsertReport, attempt: int) -> UpsertReport:
    """Add how many commits were tried: one that lost may leave nothing to commit."""
    return replace(report, attempts=attempt if report.is_of_this_try else attempt - 1)


def _attempt(spec: UpsertSpec, source: BatchSource, target: FormatTable, progress: Progress) -> UpsertReport:
    with progress.phase("plan") as facts:
        listed = source.list()
        applied_state = target.applied_state(listed.source_name, spec.branch)
        run_key = spec.run.run_key(spec.digest_text(), listed.identities)
        facts["files"] = len(listed.files)
    done = recognised(spec, applied_state, listed, run_key)
    if done is not None:
        return _unchanged(spec, target, run_key, progress, done)
    decision = decide_input(spec, applied_state, listed, lambda: target.other_positions(listed.source_name))
    wanted = decision.wanted
    if listed.is_empty:
        return _unchanged(spec, target, run_key, progress, Unchanged(Outcome.EMPTY_BATCH, "the source has no input"))
    if wanted.is_empty:
        return _unchanged(spec, target, run_key, progress, without_new_input(spec, decision))
    with progress.phase("read") as facts:
        batch = _read(spec, source, decision, target, applied_state)
        facts.update(rows=batch.rows, keys=batch.keys)
    try:
        commit = _commit(spec, source, batch, applied_state, decision, run_key)
        if batch.keys == 0:
            batch.side.before_rows(applied_state)
            return _without_rows(spec, target, batch, wanted, commit, progress)
        before = target.state(spec.branch) if target.exists() else None
        stored = batch.changes.drop(*batch.completed)
        changes = fit_target(spec, target, stored, source.missing_columns, spec.keys)
        batch.side.before_rows(applied_state)
        applied = target.apply(batch.side.with_history(commit, applied_state, progress), progress)
    finally:
        batch.release()
    after, unseen = state_after_commit(lambda: target.state(spec.branch))
    return UpsertReport(
        table=spec.table,
        outcome=Outcome.APPLIED,
        reason=f"{decision.noted(wanted.applied(listed, decision.start))}{applied.settings_clause}",
        run_key=run_key,
        before=before,
        after=after,
        committed=(applied.snapshot,),
        warnings=(*decision.warnings, *applied.warnings, *_absent(batch), *unseen),
        seconds=dict(progress.seconds),
        batch_files=len(wanted.files),
        batch_rows=batch.rows,
        batch_keys=batch.keys,
        schema_changes=changes,
        source_position=positions_in_summary(commit.positions),
        ordering=batch.side.ordering,
        events_dropped=batch.side.dropped,
        **_counts(applied),
    )


def _without_rows(
    spec: UpsertSpec,
    target: FormatTable,
    batch: ChangeBatch,
    wanted: Listing,
    commit: KeyedCommit,
    progress: Progress,
) -> UpsertReport:
    """Report a batch that changes no row; what a stream's files are known not to hold is not looked for again."""
    why = Unchanged(Outcome.EMPTY_BATCH, "the batch has no rows")
    if batch.side.dropped:
        why = without_new_events(spec, batch.side.dropped)
    report = replace(
        _unchanged(spec, target, commit.run_key, progress, why),
        batch_files=len(wanted.files),
        batch_rows=batch.rows,
        ordering=batch.side.ordering if batch.rows else None,
        events_dropped=batch.side.dropped,
    )
    # The stream's other tables may fill many files before this one has another event.
    is_worth_it = batch.rows > 0 or sum(file.size for file in wanted.files) > _LOOKED_AT_AGAIN
    if not batch.side.is_worth_a_commit or not is_worth_it or not target.exists():
        return report
    applied = target.apply(replace(commit, audits=None), progress)
    after, unseen = state_after_commit(lambda: target.state(spec.branch))
    return replace(
        report,
        after=after,
        warnings=(*report.warnings, *applied.warnings, *unseen),
        committed=(applied.snapshot,),
        source_position=positions_in_summary(commit.positions),
    )


def _read(
    spec: UpsertSpec, source: BatchSource, decision: InputDecision, target: FormatTable, applied_state: AppliedState
) -> ChangeBatch:
    batch = source.read(
        Wanted(
            listing=decision.wanted,
            target=target,
            applied_state=applied_state,
            repeats=decision.repeats,
            other_stream=decision.other_stream,
        )
    )
    deletes_softly = spec.merge_engine.deletes is Deletes.SOFT
    return batch.with_deleted_column(spec.merge_engine.deleted_column) if deletes_softly else batch


def _commit(
    spec: UpsertSpec,
    source: BatchSource,
    batch: ChangeBatch,
    applied_state: AppliedState,
    decision: InputDecision,
    run_key: str,
) -> KeyedCommit:
    commit = KeyedCommit(
        action=spec.action,
        rows=batch.changes,
        keys=spec.keys,
        run_key=run_key,
        base=applied_state.base,
        positions={decision.wanted.source_name: decision.position},
        summary=counts_to_summary(batch_files=len(decision.wanted.files), batch_rows=batch.rows, batch_keys=batch.keys),
        key_ranges=batch.key_ranges,
        upserts=None if batch.patches else batch.upserts,
        branch=spec.branch,
        missing_columns=source.missing_columns,
        order_by=spec.order_by,
        merge_engine=spec.merge_engine,
        reads_table=batch.reads_table,
        audits=spec.audits,
    )
    return batch.side.beside_rows(commit)


def _unchanged(
    spec: UpsertSpec,
    target: FormatTable,
    run_key: str,
    progress: Progress,
    why: Unchanged,
) -> UpsertReport:
    state = target.state(spec.branch) if target.exists() else None
    fields = {"run_key": run_key, **why.reported(UpsertReport)}
    return UpsertReport(table=spec.table, before=state, after=state, seconds=dict(progress.seconds), **fields)


def _absent(batch: ChangeBatch) -> tuple[str, ...]:
    return tuple(f"{count} rows had no column {name}; it is NULL in them" for name, count in batch.absent.items())


def _counts(applied: AppliedCommit) -> dict[str, Any]:
    return {
        **applied.row_counts(),
        **applied.details,
        "audits_passed": applied.audits_passed,
        "audit_runs": applied.audit_runs,
    }
