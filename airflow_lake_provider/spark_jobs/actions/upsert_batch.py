"""Upsert: the last change of every key of a batch, in one atomic commit, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.commit_counts import counts_to_summary
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.event_marks import EventOrdering
from airflow_lake_provider.contracts.job_report import Outcome, UpsertReport
from airflow_lake_provider.contracts.merge_engines import Deletes
from airflow_lake_provider.contracts.position_column import POSITION_COLUMN, epoch_property
from airflow_lake_provider.contracts.schema_contract import MissingColumns
from airflow_lake_provider.contracts.source_position import summary_of
from airflow_lake_provider.contracts.sources import Debezium
from airflow_lake_provider.contracts.upsert_spec import UpsertSpec
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.already_applied import recognised, without_new_events, without_new_input
from airflow_lake_provider.spark_jobs.actions.target_schema import fit_target
from airflow_lake_provider.spark_jobs.actions.unchanged import Unchanged
from airflow_lake_provider.spark_jobs.batch.change_batch import ChangeBatch
from airflow_lake_provider.spark_jobs.failures.after_commit import state_after_commit
from airflow_lake_provider.spark_jobs.formats.base import AppliedCommit, AppliedState, KeyedCommit, KeyedTable
from airflow_lake_provider.spark_jobs.formats.choose_format import keyed_table
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import retry_conflicts
from airflow_lake_provider.spark_jobs.sources.batch_input import BatchInput, list_input
from airflow_lake_provider.spark_jobs.sources.debezium.change_events import TargetState, read_debezium_changes
from airflow_lake_provider.spark_jobs.sources.debezium.key_timeline import KeyOrder
from airflow_lake_provider.spark_jobs.sources.debezium.open_key_changes import remember_cut_deletes
from airflow_lake_provider.spark_jobs.sources.debezium.renamed_table import EarlierTable
from airflow_lake_provider.spark_jobs.sources.debezium.split_key_changes import KeyChangeHistory
from airflow_lake_provider.spark_jobs.sources.input_files import SourceLocation
from airflow_lake_provider.spark_jobs.sources.new_input import InputDecision, decide_input
from airflow_lake_provider.spark_jobs.sources.plain_rows import read_row_changes
from airflow_lake_provider.spark_jobs.sources.unreadable_files import refusing_unreadable
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
    target = keyed_table(spark, spec)
    files = spec.source.files
    located = SourceLocation.of(spark, files.path if files else None)
    report = retry_conflicts(
        lambda attempt: _counted(_attempt(spark, spec, target, progress), attempt), spec.max_attempts, progress
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


def _attempt(spark: SparkSession, spec: UpsertSpec, target: KeyedTable, progress: Progress) -> UpsertReport:
    with progress.phase("plan") as facts:
        listed = list_input(spark, spec)
        applied_state = target.applied_state(listed.source_name, spec.branch)
        run_key = spec.run.run_key(spec.digest_text(), listed.identities)
        facts["files"] = len(listed.files)
    done = recognised(spec, applied_state, run_key)
    if done is not None:
        return _unchanged(spec, target, run_key, progress, done)
    decision = decide_input(spec, applied_state, listed, lambda: target.other_positions(listed.source_name))
    wanted = decision.wanted
    if listed.is_empty:
        return _unchanged(spec, target, run_key, progress, Unchanged(Outcome.EMPTY_BATCH, "the source has no input"))
    if wanted.is_empty:
        return _unchanged(spec, target, run_key, progress, without_new_input(spec, decision))
    with progress.phase("read") as facts, refusing_unreadable(spark, wanted.files, *_reader(spec)):
        batch = _read(spark, spec, decision, target, applied_state)
        facts.update(rows=batch.rows, keys=batch.keys)
    try:
        commit = _commit(spec, batch, applied_state, decision, run_key)
        if batch.keys == 0:
            _keep_deleted_keys(spec, target, batch)
            return _without_rows(spec, target, batch, wanted, commit, progress)
        before = target.state(spec.branch) if target.exists() else None
        changes = fit_target(spec, target, batch.changes.drop(*batch.completed), spec.missing_columns)
        _keep_deleted_keys(spec, target, batch)
        applied = target.apply(remember_cut_deletes(target, commit, batch, applied_state, progress), progress)
    finally:
        batch.release()
    after, unseen = state_after_commit(lambda: target.state(spec.branch))
    return UpsertReport(
        table=spec.table,
        outcome=Outcome.APPLIED,
        reason=f"{decision.noted(_reason(decision, listed))}{applied.held}",
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
        source_position=summary_of(commit.positions),
        ordering=batch.ordering.value if batch.ordering else None,
        events_dropped=batch.dropped,
        **_counts(applied),
    )


def _without_rows(
    spec: UpsertSpec,
    target: KeyedTable,
    batch: ChangeBatch,
    wanted: BatchInput,
    commit: KeyedCommit,
    progress: Progress,
) -> UpsertReport:
    """Report a batch that changes no row; what a stream's files are known not to hold is not looked for again."""
    why = Unchanged(Outcome.EMPTY_BATCH, "the batch has no rows")
    if batch.dropped:
        why = without_new_events(spec, batch.dropped)
    report = replace(
        _unchanged(spec, target, commit.run_key, progress, why),
        batch_files=len(wanted.files),
        batch_rows=batch.rows,
        ordering=batch.ordering.value if batch.ordering and batch.rows else None,
        events_dropped=batch.dropped,
    )
    # The stream's other tables may fill many files before this one has another event.
    is_worth_it = batch.rows > 0 or sum(file.size for file in wanted.files) > _LOOKED_AT_AGAIN
    if batch.marks is None or not is_worth_it or not target.exists():
        return report
    applied = target.apply(replace(commit, audits=None, strategy=UpsertStrategy.AUTO), progress)
    after, unseen = state_after_commit(lambda: target.state(spec.branch))
    return replace(
        report,
        after=after,
        warnings=(*report.warnings, *applied.warnings, *unseen),
        committed=(applied.snapshot,),
        source_position=summary_of(commit.positions),
    )


def _read(
    spark: SparkSession, spec: UpsertSpec, decision: InputDecision, target: KeyedTable, applied_state: AppliedState
) -> ChangeBatch:
    wanted = decision.wanted
    if isinstance(spec.source, Debezium):
        known = _target_state(spec, target, applied_state, decision)
        order = _key_order(spec, target, known, applied_state.epoch, decision.repeats) if _is_by_key(spec) else None
        batch = read_debezium_changes(
            spark,
            spec.source,
            wanted.files,
            spec.keys,
            known,
            exclude_columns=spec.exclude_columns,
            ignore_deletes=spec.merge_engine.deletes is Deletes.IGNORE,
            tells_resets=spec.missing_columns is MissingColumns.KEEP,
            ignore_marks=decision.repeats,
            order=order,
        )
    else:
        batch = read_row_changes(spark, spec, wanted.files, target.schema(), wanted.snapshot)
    return (
        batch.with_deleted_column(spec.merge_engine.deleted_column)
        if spec.merge_engine.deletes is Deletes.SOFT
        else batch
    )


def _target_state(
    spec: UpsertSpec, target: KeyedTable, applied_state: AppliedState, decision: InputDecision
) -> TargetState:
    position = applied_state.position
    earlier = None
    if decision.earlier_table is not None:
        unread = position.files.unconsumed(decision.wanted.files)
        earlier = EarlierTable(digest=decision.earlier_table, unread=unread)
    # A branch keeps no marks: there, a table with rows is the only sign.
    has_had_events = applied_state.base is not None if spec.branch else position.events is not None
    return TargetState(
        target.schema(),
        target.rows(applied_state.base),
        history=KeyChangeHistory(
            known=applied_state.key_changes, rows_of=target.rows_then, is_kept=spec.branch is None
        ),
        marks=position.events,
        # Of another table's name nothing is known; it may be misspelled.
        has_had_events=has_had_events and earlier is None,
        earlier=earlier,
    )


def _reader(spec: UpsertSpec) -> tuple[str | None, Mapping[str, str]]:
    """Return the format of the source's files, and the options of their reader."""
    files = spec.source.files
    return (files.format, files.options or {}) if files else (None, {})


def _is_by_key(spec: UpsertSpec) -> bool:
    return isinstance(spec.source, Debezium) and spec.source.ordering is EventOrdering.KEY


def _keep_deleted_keys(spec: UpsertSpec, target: KeyedTable, batch: ChangeBatch) -> None:
    # Before the rows: a delete that is known too early is still one that the source has made.
    if batch.deleted_keys is not None and isinstance(spec.source, Debezium) and target.exists():
        retention = duration(spec.source.tombstone_retention, "tombstone_retention")
        target.keep_deleted_keys(batch.deleted_keys, retention)


def _key_order(spec: UpsertSpec, target: KeyedTable, known: TargetState, epoch: int, again: bool) -> KeyOrder:
    return KeyOrder(
        epoch=epoch,
        schema=known.schema,
        rows=known.rows,
        # Read after the base was: a commit adds to them before it is made.
        deleted_keys=target.deleted_keys(),
        history=known.history,
        deleted_column=spec.merge_engine.deleted_column if spec.merge_engine.deletes is Deletes.SOFT else None,
        again=again,
    )


def _commit(
    spec: UpsertSpec, batch: ChangeBatch, applied_state: AppliedState, decision: InputDecision, run_key: str
) -> KeyedCommit:
    position = decision.position
    return KeyedCommit(
        action=spec.action,
        rows=batch.changes,
        keys=spec.keys,
        run_key=run_key,
        base=applied_state.base,
        positions={spec.source_name: replace(position, events=batch.marks) if batch.marks else position},
        summary=counts_to_summary(batch_files=len(decision.wanted.files), batch_rows=batch.rows, batch_keys=batch.keys),
        key_ranges=batch.key_ranges,
        upserts=None if batch.patches else batch.upserts,
        branch=spec.branch,
        missing_columns=spec.missing_columns,
        order_by=spec.order_by if batch.epoch is None else (POSITION_COLUMN,),
        properties={} if batch.epoch is None else epoch_property(batch.epoch, spec.source_name),
        merge_engine=spec.merge_engine,
        reads_table=batch.reads_table,
        strategy=spec.strategy,
        audits=spec.audits,
    )


def _unchanged(
    spec: UpsertSpec,
    target: KeyedTable,
    run_key: str,
    progress: Progress,
    why: Unchanged,
) -> UpsertReport:
    state = target.state(spec.branch) if target.exists() else None
    told = {"run_key": run_key, **why.told(UpsertReport)}
    return UpsertReport(table=spec.table, before=state, after=state, seconds=dict(progress.seconds), **told)


def _reason(decision: InputDecision, listed: BatchInput) -> str:
    wanted = decision.wanted
    if wanted.snapshot is not None:
        return f"applied snapshot {wanted.snapshot} of the source table"
    corrected = len(decision.start.files.corrected(listed.files))
    known = len(listed.files) - len(wanted.files)
    return (
        f"applied {len(wanted.files)} of {len(listed.files)} files: {len(wanted.files) - corrected} new, "
        f"{corrected} corrected since they were applied, {known} known by position"
    )


def _absent(batch: ChangeBatch) -> tuple[str, ...]:
    return tuple(f"{count} rows had no column {name}; it is NULL in them" for name, count in batch.absent.items())


def _counts(applied: AppliedCommit) -> dict[str, Any]:
    return {
        **applied.row_counts(),
        "strategy": applied.strategy,
        "strategy_reason": applied.strategy_reason,
        "audits_passed": applied.audits_passed,
        "audit_runs": applied.audit_runs,
        "equality_delete_files": applied.equality_delete_files,
    }
