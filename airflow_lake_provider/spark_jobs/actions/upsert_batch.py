"""Upsert: the last change of every key of a batch, in one atomic commit, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.source_position import positions_in_summary
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate, Deletes, History
from airflow_lake_provider.contracts.reports.commit_counts import counts_to_summary
from airflow_lake_provider.contracts.reports.job import Outcome, UpsertReport
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.actions.already_applied import Unchanged, without_new_events
from airflow_lake_provider.spark_jobs.actions.complete_batch import compared_with_table
from airflow_lake_provider.spark_jobs.actions.history_batch import (
    changes_of_history,
    newest_time_entry,
    refuse_earlier_batch,
    stored_with_history,
)
from airflow_lake_provider.spark_jobs.actions.load_batch import NewInput, load_batch
from airflow_lake_provider.spark_jobs.actions.plan_batch import planned_batch
from airflow_lake_provider.spark_jobs.actions.target_schema import fit_target
from airflow_lake_provider.spark_jobs.formats.commits import AppliedCommit, KeyedCommit, state_after_commit
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sources.base import ChangeBatch
from airflow_lake_provider.spark_jobs.sql.query import check_expression_text

# Bytes of files without an event of the table that are looked through again rather than committed as consumed.
_LOOKED_AT_AGAIN = 64 * 1024 * 1024


def upsert_batch(spark: SparkSession, spec: UpsertSpec, progress: Progress) -> UpsertReport:
    """Apply a batch, or say why there is nothing to apply.

    :raises CommitConflictError: other writers won every attempt.
    :raises InvalidSpecError: a query or an expression is not what it is called; nothing was run.
    :raises BadInputError: the batch cannot be applied as it is.
    :raises AuditFailedError: an audit of the spec found rows.
    :raises JobFailedError: a source that is the whole table changed while it was read.
    """
    if spec.delete_when:
        check_expression_text(spark, spec.delete_when, f"{spec.table}: delete_when", allow_sql=spec.allow_sql)
    return load_batch(spark, spec, UpsertReport, _apply, progress)


def _apply(new: NewInput[UpsertSpec, UpsertReport]) -> UpsertReport:
    if new.spec.is_dry_run:
        return planned_batch(new)
    if new.is_compared:
        return _apply_whole(new)
    spec, source, target, applied_state = new.spec, new.source, new.target, new.applied_state
    with new.progress.phase("read") as facts:
        batch = _flagged(spec, source.read(new.wanted))
        facts.update(rows=batch.rows, keys=batch.keys)
    keys, identity = batch.keys, spec.merge_engine.identity_in_table(spec.keys)
    try:
        if keys == 0 and not _moves_alone(new, batch):
            commit = _commit(new, batch, keys=keys)
            batch.side.before_rows(applied_state)
            return _without_rows(new, batch, commit, new.keep_dead_letters(batch))
        refuse_earlier_batch(new)
        before = target.state(spec.branch) if target.exists() else None
        stored = stored_with_history(new, batch.changes.drop(*batch.completed))
        changes = fit_target(spec, target, stored, source.missing_columns, identity)
        batch = _versioned(new, batch)
        commit = _commit(new, batch, keys=keys)
        batch.side.before_rows(applied_state)
        put_aside = new.keep_dead_letters(batch)
        applied = target.apply(batch.side.with_history(commit, applied_state, new.progress), new.progress)
    finally:
        batch.release()
    return new.applied(
        applied,
        before,
        warnings=_absent(batch),
        batch_rows=batch.rows,
        batch_keys=keys,
        schema_changes=changes,
        source_position=positions_in_summary(commit.positions),
        ordering=batch.side.ordering,
        events_dropped=batch.side.dropped,
        **_counts(applied),
        **put_aside,
    )


def _moves_alone(new: NewInput[UpsertSpec, UpsertReport], batch: ChangeBatch) -> bool:
    """Return whether a batch without a row to write moves the position."""
    # Else the next run would read the same share, or the same bad records.
    has_letters = batch.dead_letters is not None and batch.dead_letters.count > 0
    if new.decision.wanted.is_share or (has_letters and new.moves_past_letters):
        return True
    return not batch.side.dropped and new.target.exists() and new.has_to_move


def _apply_whole(new: NewInput[UpsertSpec, UpsertReport]) -> UpsertReport:
    """Apply what differs between the whole source and the table; without any difference, its position alone."""
    refuse_earlier_batch(new)
    before = new.target.state(new.spec.branch)
    with new.progress.phase("compare") as facts:
        compared = compared_with_table(new, before.rows)
        batch, counts = _flagged(new.spec, compared.batch), compared.counts
        facts.update(rows=counts.rows, upserts=batch.upserts, deletes=counts.deletes, by=compared.way)
    # A key that has several rows in the batch, all equal to the table's, counts with each of them.
    keys, unchanged = batch.upserts + compared.unchanged, compared.unchanged
    try:
        batch = _versioned(new, batch) if batch.keys else batch
        commit = _commit(new, batch, keys=keys, rows_unchanged=unchanged)
        applied = new.target.apply(commit, new.progress)
    finally:
        batch.release()
    return new.applied(
        applied,
        before,
        batch_rows=batch.rows,
        batch_keys=keys,
        rows_unchanged=unchanged,
        schema_changes=compared.schema_changes,
        source_position=positions_in_summary(commit.positions),
        **_counts(applied),
    )


def _flagged(spec: UpsertSpec, batch: ChangeBatch) -> ChangeBatch:
    is_soft = spec.merge_engine.deletes is Deletes.SOFT
    return batch.with_deleted_column(spec.merge_engine.deleted_column) if is_soft else batch


def _versioned(new: NewInput[UpsertSpec, UpsertReport], batch: ChangeBatch) -> ChangeBatch:
    engine = new.spec.merge_engine
    if not isinstance(engine, History):
        return batch
    with new.progress.phase("history") as facts:
        versioned = changes_of_history(new, batch, engine)
        facts.update(upserts=versioned.upserts, deletes=versioned.deletes)
    return versioned


def _without_rows(
    new: NewInput[UpsertSpec, UpsertReport], batch: ChangeBatch, commit: KeyedCommit, put_aside: Mapping[str, int]
) -> UpsertReport:
    """Report a batch that changes no row; where its input is known to have none, it is not looked through again."""
    wanted, target = new.decision.wanted, new.target
    why = Unchanged(Outcome.EMPTY_BATCH, "the batch has no rows")
    if batch.side.dropped:
        why = without_new_events(new.spec, batch.side.dropped)
    report = new.unchanged(
        why,
        batch_files=len(wanted.files),
        batch_rows=batch.rows,
        ordering=batch.side.ordering if batch.rows else None,
        events_dropped=batch.side.dropped,
        **put_aside,
    )
    # The stream's other tables may fill many files before this one has another event.
    is_worth_it = batch.rows > 0 or sum(file.size for file in wanted.files) > _LOOKED_AT_AGAIN
    is_passed = wanted.moves_without_rows or (batch.side.is_worth_a_commit and is_worth_it)
    if not is_passed or not target.exists():
        return report
    applied = target.apply(commit, new.progress)
    after, unseen = state_after_commit(lambda: target.state(new.spec.branch))
    return replace(
        report,
        after=after,
        warnings=(*report.warnings, *applied.warnings, *unseen, *new.consumed()),
        committed=(applied.snapshot,),
        source_position=positions_in_summary(commit.positions),
    )


def _commit(
    new: NewInput[UpsertSpec, UpsertReport], batch: ChangeBatch, *, keys: int, rows_unchanged: int | None = None
) -> KeyedCommit:
    spec, engine = new.spec, new.spec.merge_engine
    summary = counts_to_summary(
        batch_files=len(new.decision.wanted.files),
        batch_rows=batch.rows,
        batch_keys=keys,
        rows_unchanged=rows_unchanged,
        dead_letters=batch.dead_letters.count if batch.dead_letters else None,
    )
    # Snapshots expire, and the property stays.
    properties = newest_time_entry(new)
    summary.update(properties)
    if isinstance(engine, History):
        # What is left of it is to write rows, and to delete some.
        engine = Deduplicate()
    commit = KeyedCommit(
        rows=batch.changes,
        # Without a key there is no version that would have the other columns of the identity.
        keys=spec.merge_engine.identity_in_table(spec.keys) if batch.keys else spec.keys,
        summary=summary,
        properties=properties,
        key_ranges=batch.key_ranges,
        upserts=None if batch.patches else batch.upserts,
        order_by=spec.order_by,
        merge_engine=engine,
        reads_table=batch.reads_table,
        located=batch.located,
        **new.of_commit(),
    )
    # Audits of a table that stays as it is have passed, or were never asked for.
    return batch.side.beside_rows(commit if batch.keys else replace(commit, audits=None))


def _absent(batch: ChangeBatch) -> tuple[str, ...]:
    return tuple(f"{count} rows had no column {name}; it is NULL in them" for name, count in batch.absent.items())


def _counts(applied: AppliedCommit) -> dict[str, Any]:
    return {**applied.row_counts(), **applied.details}
