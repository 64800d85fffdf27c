"""Append: the rows of a batch, in one atomic commit, once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.source_position import positions_in_summary
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.commit_counts import counts_to_summary
from airflow_lake_provider.contracts.reports.job import AppendReport, Outcome
from airflow_lake_provider.contracts.specs.append import AppendSpec, OnChangedInput
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.spark_jobs.actions.already_applied import Unchanged, without_new_input
from airflow_lake_provider.spark_jobs.actions.load_batch import NewInput, load_batch
from airflow_lake_provider.spark_jobs.actions.plan_batch import planned_batch
from airflow_lake_provider.spark_jobs.actions.target_schema import fit_target
from airflow_lake_provider.spark_jobs.formats.commits import AppendCommit, RecentRows
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sources.base import RowBatch
from airflow_lake_provider.spark_jobs.sources.new_input import InputDecision, position_behind

_New = NewInput[AppendSpec, AppendReport]


def append_batch(spark: SparkSession, spec: AppendSpec, progress: Progress) -> AppendReport:
    """Add the rows of a batch, or say why there is nothing to add.

    :raises CommitConflictError: other writers won every attempt.
    :raises InvalidSpecError: a query is not what it is called; nothing was run.
    :raises BadInputError: the batch cannot be added as it is, or a file has changed since its rows were added.
    :raises AuditFailedError: an audit of the spec found rows.
    """
    return load_batch(spark, spec, AppendReport, _apply, progress)


def _apply(new: _New) -> AppendReport:
    new = _without_changed(new)
    if new.decision.wanted.is_empty:
        return new.unchanged(without_new_input(new.spec, new.decision), warnings=new.decision.warnings)
    if new.spec.is_dry_run:
        return planned_batch(new)
    return new.with_rows(lambda batch: _append(new, batch), new.spec.deduplicate_by)


def _without_changed(new: _New) -> _New:
    """Return the input without what has changed since its rows were added, or refuse it.

    :raises BadInputError: naming it, where ``on_changed_input`` does not take it.
    """
    spec, decision = new.spec, new.decision
    # Who asks for it all again has it all.
    changed = "" if spec.on_repeat is OnRepeat.APPLY else decision.wanted.changed_since(decision.start)
    if not changed:
        return new
    if spec.on_changed_input is OnChangedInput.FAIL:
        raise BadInputError(
            f"{spec.table}: {changed}. An append cannot take the earlier rows back. Delete them by "
            "LakeDeleteRowsOperator and give on_changed_input='append', which adds all rows as they are now; 'skip' "
            "leaves them out; LakeUpsertOperator applies corrections by key"
        )
    is_left_out = spec.on_changed_input is OnChangedInput.SKIP
    done = "this is left out" if is_left_out else "all of these rows are added again"
    if is_left_out:
        decision = _leaving_out(new, decision)
    return replace(new, decision=replace(decision, warnings=(*decision.warnings, f"{changed}; {done}")))


def _leaving_out(new: _New, decision: InputDecision) -> InputDecision:
    """Return the decision without what has changed, of which the position keeps what was added: it is changed still."""
    start = decision.start
    position = position_behind(new.listed.without_changed(start), start, kept_for=None)
    return replace(decision, wanted=decision.wanted.without_changed(start), position=position)


def _append(new: _New, batch: RowBatch) -> AppendReport:
    spec, target, files = new.spec, new.target, len(new.decision.wanted.files)

    def counts(written: int) -> dict[str, Any]:
        read = written if batch.rows_read is None else batch.rows_read()
        kept = written if batch.rows_kept is None else batch.rows_kept()
        return {
            "batch_rows": read,
            "rows_appended": written,
            "duplicates_in_batch": read - kept,
            "duplicates_in_table": kept - written,
        }

    def summary(written: int) -> dict[str, str] | None:
        counted = counts(written)
        # Duplicates alone are committed, too: once they are no recent rows any more, they would be added. So are
        # offsets without rows: the next run would read the same share, or miss records that the broker has removed.
        # So are letters: the next run would read their records once more.
        has_letters = put_aside.get("dead_letters") and new.moves_past_letters
        is_worth_it = counted["batch_rows"] or has_letters or new.has_to_move
        return counts_to_summary(batch_files=files, **counted, **put_aside) if is_worth_it else None

    put_aside: dict[str, int] = {}
    before = target.state(spec.branch) if target.exists() else None
    changes = fit_target(spec, target, batch.rows, new.source.missing_columns)
    commit = AppendCommit(
        rows=batch.rows,
        keys=spec.deduplicate_by,
        reads_table=batch.reads_table,
        reading=batch.reading,
        counts=summary,
        unless_among=_recent_rows(spec),
        input_bytes=sum(file.size for file in new.decision.wanted.files) or None,
        **new.of_commit(),
    )
    put_aside.update(new.keep_dead_letters(batch))
    applied = target.append(commit, new.progress)
    if applied is None:
        why = Unchanged(Outcome.EMPTY_BATCH, "the batch has no rows")
        return new.unchanged(why, batch_files=files, schema_changes=changes, **put_aside)
    return new.applied(
        applied,
        before,
        schema_changes=changes,
        source_position=positions_in_summary(commit.positions),
        **counts(applied.rows_inserted),
        **put_aside,
    )


def _recent_rows(spec: AppendSpec) -> RecentRows | None:
    if spec.deduplicate_against is None:
        return None
    files, within = spec.recent
    return RecentRows(within=within, files=files)
