"""Plan a batch: say which columns it would change, and which records would be put aside; nothing is written.

The batch is read as a run reads it, all of it. So what refuses a run refuses the plan, too, in the same words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.contracts.author.merge_engines import Aggregation, Deletes
from airflow_lake_provider.contracts.author.schema_contract import Evolution
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.contracts.reports.batch_plan import BatchPlan, PutAsideRecord, SchemaChange, SchemaChangeKind
from airflow_lake_provider.contracts.reports.job import LoadReport, Outcome
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.actions.already_applied import Unchanged
from airflow_lake_provider.spark_jobs.actions.complete_batch import compared_with_table
from airflow_lake_provider.spark_jobs.actions.history_batch import refuse_earlier_batch, stored_with_history
from airflow_lake_provider.spark_jobs.actions.load_batch import NewInput
from airflow_lake_provider.spark_jobs.actions.target_schema import refuse_unfit_batch
from airflow_lake_provider.spark_jobs.batch.change_batch import DeadLetters, release_frames
from airflow_lake_provider.spark_jobs.jvm.observed_count import observed_count
from airflow_lake_provider.spark_jobs.sources.base import RowBatch
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted

ReportT = TypeVar("ReportT", bound=LoadReport)
_SHOWN = 20


def planned_batch(new: NewInput[Any, ReportT]) -> ReportT:
    """Report what a run would do with a batch.

    :raises UnsupportedError: its source has changes of rows, or they are combined.
    """
    is_combined = isinstance(new.spec, UpsertSpec) and isinstance(new.spec.merge_engine, Aggregation)
    if not isinstance(new.source, PlainSource) or is_combined:
        raise UnsupportedError(
            f"{new.spec.table}: a batch is planned of plain rows, and neither of change events, nor for Aggregation"
        )
    columns, stored = _columns(new, new.source)
    changes = _schema_changes(new, columns)
    if new.target.is_created() and stored != columns:
        changes = _unmended(changes, _schema_changes(new, stored))
    refusals = [f"{each.kind.value} of {each.column} ({each.action})" for each in changes if each.is_refused]
    try:
        refuse_unfit_batch(new.spec, new.target, stored)
    except BadInputError as error:
        refusals.append(str(error))
    plan = BatchPlan(schema_changes=changes, refused="; ".join(refusals) or None)
    if new.is_compared and (refusals or any(change.is_made for change in changes)):
        # Rows are compared in all columns.
        return _reported(new, plan)
    try:
        with new.progress.phase("read") as facts:
            report = _read(new, plan)
            facts["rows"] = report.batch_rows
    except BadInputError as error:
        return _reported(new, replace(plan, refused="; ".join([*refusals, str(error)])))
    # The phase has ended since.
    return replace(report, seconds=dict(new.progress.seconds))


def _columns(new: NewInput[Any, Any], source: PlainSource) -> tuple[StructType, StructType]:
    """Return the columns that the batch has for the table, and those that the contract leaves of them."""
    wanted, schema = new.wanted, new.wanted.target.schema()
    with source.reading(wanted.listing):
        raw = source.raw_once(wanted.listing, schema)
        release_frames(raw.rows)
        left = source.contracted(raw, schema)
    return _for_table(new, raw), _for_table(new, left)


def _unmended(changes: Sequence[SchemaChange], left: Sequence[SchemaChange]) -> tuple[SchemaChange, ...]:
    """Refuse the changes that a contract takes out of rows, and cannot: no value of one type is one of the other."""
    still = {(each.column, each.kind) for each in left}
    taken = (Evolution.DISCARD_VALUE.value, Evolution.QUARANTINE.value)
    return tuple(
        replace(each, action="refuse") if each.action in taken and (each.column, each.kind) in still else each
        for each in changes
    )


def _for_table(new: NewInput[Any, Any], raw: RawBatch) -> StructType:
    spec = new.spec
    rows = raw.rows.select(*(quoted(each.name) for each in raw.stored_fields(spec.exclude_columns)))
    if isinstance(spec, UpsertSpec):
        rows = stored_with_history(new, _flagged(spec, rows))
    return StructType([StructField(each.name, each.dataType, True) for each in rows.schema])


def _flagged(spec: UpsertSpec, rows: DataFrame) -> DataFrame:
    engine = spec.merge_engine
    return rows.withColumn(engine.deleted_column, sf.lit(False)) if engine.deletes is Deletes.SOFT else rows


def _schema_changes(new: NewInput[Any, Any], columns: StructType) -> tuple[SchemaChange, ...]:
    if new.target.is_created():
        return new.target.schema_changes(columns, new.spec.schema_contract, new.source.missing_columns)
    action = "refuse" if new.spec.create is None else "evolve"
    return tuple(
        SchemaChange(
            kind=SchemaChangeKind.ADD_COLUMN, column=each.name, wanted=each.dataType.simpleString(), action=action
        )
        for each in columns
    )


def _read(new: NewInput[Any, ReportT], plan: BatchPlan) -> ReportT:
    if not isinstance(new.spec, UpsertSpec):
        return new.with_rows(lambda batch: _counted(new, plan, batch), new.spec.deduplicate_by)
    if new.is_compared:
        return _compared(new, plan)
    batch = new.source.read(new.wanted)
    try:
        return _reported(new, plan, batch.rows, batch.dead_letters)
    finally:
        batch.release()


def _compared(new: NewInput[UpsertSpec, Any], plan: BatchPlan) -> Any:
    """Report what differs between the whole source and a table whose columns it fits."""
    refuse_earlier_batch(new)
    compared = compared_with_table(new, new.target.state(new.spec.branch).rows)
    compared.batch.release()
    upserts, deletes = compared.batch.upserts, compared.batch.deletes
    effect = f"a run would insert or update {upserts} keys, delete {deletes}, and leave {compared.unchanged} rows as"
    return new.unchanged(
        Unchanged(Outcome.PLANNED, f"{effect} they are"),
        batch_files=len(new.listed.files),
        batch_rows=compared.batch.rows,
        batch_keys=upserts + compared.unchanged,
        rows_unchanged=compared.unchanged,
        plan=replace(plan, upserts=upserts, deletes=deletes),
    )


def _counted(new: NewInput[Any, ReportT], plan: BatchPlan, batch: RowBatch) -> ReportT:
    rows, count = observed_count(batch.rows)
    with batch.reading():
        rows.write.format("noop").mode("overwrite").save()
    read = count if batch.rows_read is None else batch.rows_read
    return _reported(new, plan, read(), batch.dead_letters)


def _reported(
    new: NewInput[Any, ReportT], plan: BatchPlan, rows: int | None = None, letters: DeadLetters | None = None
) -> ReportT:
    count = None if letters is None else letters.count
    if letters is not None and letters.count:
        shown = letters.rows.select("file", "line", "error_class", "reason").orderBy("file", "line").limit(_SHOWN)
        records = (PutAsideRecord(**row.asDict()) for row in shown.collect())
        plan = replace(plan, put_aside=tuple(records))
    reason = f"a run would refuse the batch: {plan.refused}"
    if plan.refused is None:
        made = sum(change.is_made for change in plan.schema_changes)
        aside = f", put {count} records aside" if count else ""
        reason = f"a run would take {rows} rows{aside} and make {made} changes of columns"
        if rows is None:
            reason = f"a run would make {made} changes of columns; what differs in rows can be told once they are made"
    why = Unchanged(Outcome.PLANNED, reason)
    return new.unchanged(why, batch_files=len(new.wanted.listing.files), batch_rows=rows, dead_letters=count, plan=plan)
