"""Incremental run: what changed in a source table, transformed, into a target table, exactly once."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.positions import SnapshotPosition
from airflow_lake_provider.contracts.applied.published_position import PublishedPosition
from airflow_lake_provider.contracts.applied.run_key import CLEAR_OR_NEW_RUN
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.errors import (
    BadInputError,
    InvalidSpecError,
    LakeProviderError,
    MissingTableError,
)
from airflow_lake_provider.contracts.reports.commit_counts import counts_to_summary
from airflow_lake_provider.contracts.reports.job import IncrementalReport, Outcome
from airflow_lake_provider.contracts.reserved_columns import CHANGE_TYPE
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec, other_target
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.contracts.table_properties import POSITION_PREFIX, TRANSFORM_PREFIX, tag_of
from airflow_lake_provider.spark_jobs.actions.already_applied import Unchanged, recognised_run
from airflow_lake_provider.spark_jobs.actions.incremental_range import (
    Range,
    other_cursors,
    passed_by,
    position_name,
    read_anew,
    read_range,
)
from airflow_lake_provider.spark_jobs.actions.target_schema import fit_target
from airflow_lake_provider.spark_jobs.actions.transform_changes import apply_transform
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED, release_frames
from airflow_lake_provider.spark_jobs.batch.null_keys import refuse_null_keys_of_table
from airflow_lake_provider.spark_jobs.formats.base import AppliedState, FormatTable
from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.formats.commits import (
    AppliedCommit,
    KeyedCommit,
    seen_after_commit,
    state_after_commit,
)
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import retry_conflicts
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted
from airflow_lake_provider.spark_jobs.sql.query import check_query


def run_incremental(spark: SparkSession, spec: IncrementalSpec, progress: Progress) -> IncrementalReport:
    """Bring the target from its own position to ``spec.to_snapshot``, or to the head where that one was expired.

    :raises InvalidSpecError: the query is not one, or the consumer fills another table by now; nothing was run.
    :raises RangeUnavailableError: the start of the range is gone and ``on_gap`` is ``fail``.
    :raises BadInputError: the transform is not the one that filled the target, or its rows cannot be applied.
    :raises ForgottenRunError: it cannot be told whether this run has applied a range that the position does not tell.
    """
    if spec.query:
        check_query(spark, spec.query, f"{spec.table}: query", allow_sql=spec.allow_sql)
    target, source = table_of(spark, spec), table_of(spark, spec, TableName.parse(spec.source))
    if not source.exists():
        raise MissingTableError(f"{spec.source}: the source table does not exist")
    run_key = spec.run.run_key(spec.digest_text(), ())
    report = retry_conflicts(
        lambda attempt: _attempt(spark, _up_to_what_is_left(spec, source), target, source, run_key, attempt, progress),
        spec.max_attempts,
        progress,
    )
    if not spec.protect_source:
        return report
    spec = replace(spec, to_snapshot=str(report.to_snapshot))
    guard = partial(_guard, spark, spec, target, source, progress)
    if not report.is_of_this_try:
        return replace(report, warnings=(*report.warnings, *guard()))
    # Rows that are read already are protected for longer than needed; the next run moves the guard on.
    left_alone, unmoved = seen_after_commit(f"whether the guard on {spec.source} has moved", guard)
    return replace(report, warnings=(*report.warnings, *(left_alone or ()), *unmoved))


def _up_to_what_is_left(spec: IncrementalSpec, source: FormatTable) -> IncrementalSpec:
    """Return the spec, up to the head where the snapshot that the worker saw was expired: a driver may wait for hours.

    :raises MissingTableError: the source has no snapshot any more.
    """
    if source.capabilities.gap("lake-table-source") is not None:
        # Its tables are asked for no other snapshot than that of the worker.
        return spec
    with suppress(BadInputError):
        source.snapshot_as_of(spec.to_snapshot)
        return spec
    head = source.state().snapshot
    if head is None:
        raise MissingTableError(f"{spec.source}: the source has no snapshot: it was replaced, and nothing was written")
    return replace(spec, to_snapshot=head)


def _guard(
    spark: SparkSession, spec: IncrementalSpec, target: FormatTable, source: FormatTable, progress: Progress
) -> tuple[str, ...]:
    """Move the consumer's tag to the position; never back, which a late repeat of an old run would do.

    :return: a warning, where a run for another target has moved it since this one began: it is left alone then.
    """
    position = target.applied_state(position_name(spec, source)).position
    if position.snapshot != spec.to_snapshot:
        return ()
    with progress.phase("guard"):
        if (taken := _taken(spark, spec, target, source)) is not None:
            return (taken,)
        source.advance(spec.consumer, spec.to_snapshot, owner=spec.run.label, target=spec.table, mode="net")
    return ()


def _pin(spark: SparkSession, spec: IncrementalSpec, target: FormatTable, source: FormatTable) -> None:
    """Keep an expiry from the range that is read.

    :raises InvalidSpecError: another target is filled under the consumer's name.
    """
    if (taken := _taken(spark, spec, target, source)) is not None:
        raise InvalidSpecError(taken)
    source.pin(spec.consumer, spec.to_snapshot)


def _taken(spark: SparkSession, spec: IncrementalSpec, target: FormatTable, source: FormatTable) -> str | None:
    """Return that another target has consumed the source under the consumer's name, as the worker sees it, too.

    Of two first runs at once neither sees the other when it begins: who moves the tag first keeps it.
    """
    source.state()
    named = source.properties().get(f"{tag_of(spec.consumer)}.target")
    if named in (None, spec.table):
        return None
    # Anybody may write the property. What cannot be looked at does not stop this consumer.
    with suppress(LakeProviderError):
        other = table_of(spark, spec, TableName.parse(str(named)))
        is_same = target.exists() and other.exists() and other.identity() == target.identity()
        if not is_same and f"{POSITION_PREFIX}{position_name(spec, source)}" in other.properties():
            return other_target(spec, str(named))
    return None


def _attempt(
    spark: SparkSession,
    spec: IncrementalSpec,
    target: FormatTable,
    source: FormatTable,
    run_key: str,
    attempt: int,
    progress: Progress,
) -> IncrementalReport:
    source_name = position_name(spec, source)
    applied_state = target.applied_state(source_name)
    if not spec.full_refresh:
        # Before the run key: that is a property, which a roll-back leaves behind.
        applied_state.position.refuse_rolled_back(applied_state.newest, source_name, spec.table)
    done = _recognised(spec, target, applied_state, source, run_key)
    if done is not None:
        return _unchanged(spec, target, run_key, applied_state, done)
    if spec.protect_source:
        _pin(spark, spec, target, source)
    reading, changes = read_range(spec, target, source, applied_state)
    before = target.state() if target.exists() else None
    cached = [changes.persist()]
    try:
        cached.append(rows := apply_transform(spark, spec, changes, source.rows_at(spec.to_snapshot, is_head=True)))
        read = _counts(changes, reading.start, spec.to_snapshot, progress)
        commit = _commit(spec, target, applied_state, source, run_key, rows, full=reading.start is None)
        counts = counts_to_summary(upserts_read=read["upserts"], deletes_read=read["deletes"])
        applied = target.apply(replace(commit, summary=counts), progress)
    finally:
        release_frames(*cached)
    after, unseen = state_after_commit(target.state)
    return IncrementalReport(
        table=spec.table,
        outcome=Outcome.APPLIED,
        reason=f"applied the changes of {spec.source} up to snapshot {spec.to_snapshot}: {reading.why}"
        f"{applied.settings_clause}",
        run_key=run_key,
        before=before,
        after=after,
        committed=(applied.snapshot,),
        warnings=(*_of_range(spec, reading, applied), *applied.warnings, *unseen),
        seconds=dict(progress.seconds),
        source=spec.source,
        from_snapshot=reading.start,
        to_snapshot=spec.to_snapshot,
        upserts_read=read["upserts"],
        deletes_read=read["deletes"],
        attempts=attempt,
        **applied.row_counts(),
    )


def _of_range(spec: IncrementalSpec, reading: Range, applied: AppliedCommit) -> tuple[str, ...]:
    """Return what people should know of a range that everything was read for."""
    warning = reading.warning
    if reading.is_first and applied.rows_deleted:
        warning = (
            f"{spec.table} had rows before consumer {spec.consumer} read {spec.source} for the first time, and "
            f"{applied.rows_deleted} of them, whose keys the result does not have, were deleted. Where another load "
            "wrote them, roll the table back, and give each of the two a table of its own"
        )
    return (warning,) if warning else ()


def _commit(
    spec: IncrementalSpec,
    target: FormatTable,
    applied_state: AppliedState,
    source: FormatTable,
    run_key: str,
    rows: DataFrame,
    *,
    full: bool,
) -> KeyedCommit:
    fit_target(spec, target, rows, MissingColumns.NULL, spec.keys)
    position = applied_state.position.without(PublishedPosition)
    return KeyedCommit(
        action=spec.action,
        rows=_with_vanished_keys(spec, rows, target.current_rows(applied_state.base)) if full else rows,
        keys=spec.keys,
        run_key=run_key,
        base=applied_state.base,
        positions={
            position_name(spec, source): position.moved(SnapshotPosition(spec.to_snapshot)),
            **read_anew(other_cursors(spec, target, source) if full else {}),
        },
        properties={TRANSFORM_PREFIX + spec.consumer: spec.transform_digest},
        missing_columns=MissingColumns.NULL,
        # A transform may read the target, too.
        reads_table=True,
    )


def _recognised(
    spec: IncrementalSpec, target: FormatTable, applied_state: AppliedState, source: FormatTable, run_key: str
) -> Unchanged | None:
    done = recognised_run(
        spec,
        applied_state,
        run_key,
        "applied this range",
        is_covered_by_position=not spec.ignores_position,
        way_out=CLEAR_OR_NEW_RUN,
    )
    if done is not None:
        return done
    reason = passed_by(spec, target, source, applied_state)
    return Unchanged(Outcome.NOTHING_NEW, reason) if reason else None


def _counts(changes: DataFrame, start: str | None, end: str, progress: Progress) -> dict[str, int]:
    """Read the changes between two snapshots, and count them."""
    with progress.phase("read") as facts:
        row = changes.agg(
            sf.count_if(sf.col(CHANGE_TYPE) == "upsert").alias("upserts"),
            sf.count_if(sf.col(CHANGE_TYPE) == "delete").alias("deletes"),
        ).head()
        read = {name: int(row[name]) if row else 0 for name in ("upserts", "deletes")}
        facts.update({"from": start or "the beginning", "to": end, **read})
    return read


def _with_vanished_keys(spec: IncrementalSpec, rows: DataFrame, present: DataFrame | None) -> DataFrame:
    """Add a delete for each key of the target that a full read no longer gives.

    :raises BadInputError: rows of the target have NULL in a key column, which no delete by key would reach.
    """
    if present is None:
        return rows
    columns = [quoted(key) for key in spec.keys]
    keys = present.select(*columns)
    if any(field.nullable for field in keys.schema):
        null = reduce(Column.__or__, (column.isNull() for column in columns))
        refuse_null_keys_of_table(spec.table, keys.filter(null).count(), spec.keys)
    vanished = keys.join(rows.select(*columns), on=list(spec.keys), how="left_anti").distinct()
    return rows.unionByName(vanished.withColumn(DELETED, sf.lit(True)), allowMissingColumns=True)


def _unchanged(
    spec: IncrementalSpec, target: FormatTable, run_key: str, applied_state: AppliedState, why: Unchanged
) -> IncrementalReport:
    state = target.state() if target.exists() else None
    return IncrementalReport(
        table=spec.table,
        before=state,
        after=state,
        source=spec.source,
        from_snapshot=applied_state.position.snapshot,
        to_snapshot=spec.to_snapshot,
        **{"run_key": run_key, **why.reported(IncrementalReport)},
    )
