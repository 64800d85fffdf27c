"""Make a batch into changes of a history: versions that begin, end, are split or are none any more."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StructType, TimestampType

from airflow_lake_provider.contracts.author.merge_engines import History
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import UpsertReport
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.contracts.table_properties import HISTORY_AT
from airflow_lake_provider.spark_jobs.actions.load_batch import NewInput
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED, released_on_failure
from airflow_lake_provider.spark_jobs.batch.key_ranges import (
    KeyRanges,
    in_parts_of,
    ranges_column,
    read_ranges,
    without_gaps,
)
from airflow_lake_provider.spark_jobs.batch.key_versions import FAULTS, KeyVersions, with_history_columns
from airflow_lake_provider.spark_jobs.session.pinned_settings import without_adaptive_execution
from airflow_lake_provider.spark_jobs.sources.base import ChangeBatch
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted

_TIMES = ("date", "timestamp", "timestamp_ntz")
_OTHER_COLUMNS = (
    "name other columns in History(valid_from=, valid_to=). Both have to be of the same type: a TIMESTAMP, a "
    "TIMESTAMP_NTZ or a DATE"
)
_OTHER_TIME = (
    "order by a time of the table's type, which a Query makes, or name other columns in History(valid_from=, valid_to=)"
)
_MOST_BROADCAST = 2_000_000
_ROWS_OF_FILE = 100_000
# In place of NULL, where others keep a history.
_NEVER = 9999


def stored_with_history(new: NewInput[UpsertSpec, UpsertReport], rows: DataFrame) -> DataFrame:
    """Return the rows of a batch in all columns that the table is to have; those of a history have no values yet.

    :raises BadInputError: the batch has one of them, a time that is none, or the table has rows without them.
    """
    spec, engine = new.spec, new.spec.merge_engine
    if not isinstance(engine, History):
        return rows
    written = {name.lower() for name in engine.history_columns}
    if given := sorted(name for name in rows.columns if name.lower() in written):
        raise BadInputError(
            f"{spec.table}: the batch has columns {given}, which the History writes; leave them out by "
            "exclude_columns, or choose other names in History(valid_from=, valid_to=, current=)"
        )
    table_columns = {name.lower() for name in (new.target.schema() or StructType()).names}
    if new.applied_state.base is not None and (lacking := sorted(written - table_columns)):
        raise BadInputError(
            f"{spec.table}: the table has rows and lacks the columns {lacking} of a History, so nobody can say since "
            "when its rows are valid. Load the history into a new table. Or add the columns with ALTER TABLE, and "
            f"fill {engine.valid_from} in all rows with LakeUpdateRowsOperator"
        )
    present = {field.name.lower(): field.dataType for field in new.target.schema() or ()}
    time = _time_type(spec, engine, rows, present)
    for name in (engine.valid_from, engine.valid_to):
        if present.get(name.lower(), time) != time:
            raise BadInputError(
                f"{spec.table}: {name} is {present[name.lower()].simpleString()} and the time of a row is "
                f"{time.simpleString()}; {_OTHER_COLUMNS if engine.at else _OTHER_TIME}"
            )
    return with_history_columns(rows, engine, time)


def refuse_earlier_batch(new: NewInput[UpsertSpec, UpsertReport]) -> None:
    """Refuse a batch of a history of which nobody can say what it would have changed in one that came later.

    :raises BadInputError: with both times.
    """
    at = _time_of_batch(new)
    if (newest := _later_time(new, at)) is not None:
        raise BadInputError(
            f"{new.spec.table}: the batch is of {at}, and one of {newest.isoformat()} was applied. Of a batch "
            "with one time only what differs is kept, so that an earlier one has nothing to be compared with. Run the "
            "batches in the order of their times; max_active_runs=1 does that"
        )


def newest_time_entry(new: NewInput[UpsertSpec, UpsertReport]) -> dict[str, str]:
    """Return the time of a batch of a history as an entry of the commit; empty where a later one was applied.

    An earlier batch is not refused where it has no rows, as it changes nothing.
    """
    at = _time_of_batch(new)
    return {} if at is None or _later_time(new, at) is not None else {HISTORY_AT: at}


def _time_of_batch(new: NewInput[UpsertSpec, UpsertReport]) -> str | None:
    engine = new.spec.merge_engine
    return engine.at if isinstance(engine, History) else None


def _later_time(new: NewInput[UpsertSpec, UpsertReport], at: str | None) -> datetime | None:
    """Return the newest time that was applied, where it is later than that of the batch."""
    newest = new.applied_state.newest_time
    return newest if at is not None and newest is not None and datetime.fromisoformat(at) < newest else None


def changes_of_history(new: NewInput[UpsertSpec, UpsertReport], batch: ChangeBatch, engine: History) -> ChangeBatch:
    """Return a batch of rows of the table, each identified by its key and the time from which it is valid.

    :param batch: of which the columns fit the table; it is given back together with the result.
    :raises BadInputError: the batch, or the table, has no time where it needs one, or one that stands for none.
    """
    spec, target, base = new.spec, new.target, new.applied_state.base
    schema = target.schema() or StructType()
    columns = {name.lower() for name in schema.names}
    if unknown := [name for name in engine.track or () if name.lower() not in columns]:
        raise BadInputError(f"{spec.table}: track names columns that the batch and the table lack: {unknown}")
    versions = KeyVersions(engine=engine, schema=schema, keys=spec.keys, order_by=spec.order_by)
    identity = engine.identity_in_table(spec.keys)
    faults = _faults(engine, schema)
    stored = target.as_stored(batch.changes, spec.keys)
    rows, of_batch = None, batch.key_ranges
    if base is not None:
        keys, of_batch = _keys_of(spec, batch, schema)
        rows = _rows_of_keys(new, keys, of_batch, is_broadcast=_is_broadcast(batch))
    with released_on_failure() as cached:
        # Where the keys are broadcast, the join is given, and one job does all of it.
        with without_adaptive_execution(stored.sparkSession) if _is_broadcast(batch) else nullcontext():
            if rows is not None:
                # Lazy: the job that makes the changes also fills it.
                cached.append(rows.persist())
            changes = versions.changes(stored, rows, batch.keys, list(faults.values()))
            cached.append(changes.persist())
            fields = changes.select(*map(quoted, identity)).schema
            ranges = ranges_column([(quoted(each.name), each.dataType) for each in fields])
            never = ~sf.col(DELETED) & (_is_never(quoted(engine.valid_from)) | _is_never(quoted(engine.valid_to)))
            counts = [sf.count_if(sf.col(FAULTS).bitwiseAND(1 << bit) != 0) for bit in range(len(faults))]
            row = changes.agg(sf.count_if(DELETED), sf.count_if(never), ranges, *counts).collect()[0]
        deletes, without_time, measures, *faulty = row
        _refuse_faults(spec, dict(zip(faults, faulty, strict=True)))
        _refuse_never(spec, without_time)
    key_ranges = in_parts_of(read_ranges(identity, measures), of_batch)
    total = key_ranges.keys
    return replace(
        batch,
        # A data file of each partition would be too many.
        changes=changes.drop(FAULTS).coalesce(1 + total // _ROWS_OF_FILE),
        keys=total,
        upserts=total - deletes,
        deletes=deletes,
        key_ranges=key_ranges,
        reads_table=True,
        located=rows,
        cached=(*batch.cached, *cached),
    )


def _is_broadcast(batch: ChangeBatch) -> bool:
    return batch.keys <= _MOST_BROADCAST


def _is_never(time: Column) -> Column:
    return sf.coalesce(sf.year(time) >= _NEVER, sf.lit(False))


def _refuse_never(spec: UpsertSpec, count: int) -> None:
    """Refuse a time that stands for none: a table with it would be refused by the next batch.

    :raises BadInputError: with the count.
    """
    if count:
        raise BadInputError(
            f"{spec.table}: {count} versions would begin or end in the year 9999 or later, which others write for no "
            "time at all. The time of a row is that of its change, so leave such rows out, or give them their time, in "
            "a Query"
        )


def _time_type(spec: UpsertSpec, engine: History, rows: DataFrame, present: Mapping[str, DataType]) -> DataType:
    """Return the type of the times: that of the rows, and of a batch with one time that of the table.

    :param present: types of the table's columns, by their names in lower case.
    """
    if engine.at is not None:
        of_table = present.get(engine.valid_from.lower())
        return of_table if of_table is not None and of_table.typeName() in _TIMES else TimestampType()
    column = next(field for field in rows.schema if field.name.lower() == spec.order_by[0].lower())
    if column.dataType.typeName() not in _TIMES:
        raise BadInputError(
            f"{spec.table}: the first column of order_by is the time from which a row is valid, and {column.name} is "
            f"{column.dataType.simpleString()}; give it a type in the source's schema, or cast it to a TIMESTAMP or a "
            "DATE in a Query"
        )
    return column.dataType


def _keys_of(spec: UpsertSpec, batch: ChangeBatch, schema: StructType) -> tuple[DataFrame, KeyRanges | None]:
    """Return the keys of a batch in the types of the table, and the parts of their ranges that have keys."""
    kinds = {field.name.lower(): field for field in schema}
    fields = [(kinds[key.lower()], key) for key in spec.keys]
    keys = batch.changes.select(*(quoted(key).cast(each.dataType).alias(each.name) for each, key in fields))
    if (ranges := batch.key_ranges) is None:
        return keys, None
    columns = [each for each in ranges.columns if each.column.lower() in (key.lower() for key in spec.keys)]
    return keys, without_gaps(replace(ranges, columns=tuple(columns)), keys)


def _rows_of_keys(
    new: NewInput[UpsertSpec, UpsertReport], keys: DataFrame, ranges: KeyRanges | None, *, is_broadcast: bool
) -> DataFrame:
    """Return the rows of the table with one of the keys."""
    rows = new.target.rows_of_keys(new.applied_state.base, keys, ranges)
    assert rows is not None, "a table without snapshots has no rows"
    return rows.join(sf.broadcast(keys) if is_broadcast else keys, on=keys.columns, how="left_semi")


def _faults(engine: History, schema: StructType) -> dict[str, Column]:
    """Return the conditions of rows of which no history can be made, by what is said of them.

    :param schema: of the table.
    """
    start, end = quoted(engine.valid_from), quoted(engine.valid_to)
    is_current = quoted(engine.current) if engine.current else sf.lit(False)
    faults = {
        # And rows that begin while another is valid, see ``KeyVersions.changes``.
        f"end in {engine.valid_to} before they begin, or when the next version of their key has already begun, or "
        "never where there is one, so nobody can say which of them is valid; repair them with LakeUpdateRowsOperator "
        "or LakeDeleteRowsOperator": end <= start,
        f"have NULL in {engine.valid_from}, so nobody can say since when they are valid; fill it with "
        "LakeUpdateRowsOperator": start.isNull(),
        f"have an end in {engine.valid_to} and are current, or end in the year 9999 or later. A version that is valid "
        f"now has NULL there; set it with LakeUpdateRowsOperator": end.isNotNull() & (is_current | _is_never(end)),
    }
    if engine.at is not None:
        kinds = {each.name.lower(): each.dataType for each in schema}
        at = sf.lit(engine.at).cast(kinds[engine.valid_from.lower()])
        faults[
            f"begin or end later than {engine.at}, the time of the batch. Run the batches in the order of their times; "
            "max_active_runs=1 does that"
        ] = (start > at) | (end > at)
    return faults


def _refuse_faults(spec: UpsertSpec, counts: Mapping[str, int]) -> None:
    """Refuse rows of which no history can be made.

    :raises BadInputError: with the count of the first kind that there is.
    """
    for fault, count in counts.items():
        if count:
            raise BadInputError(f"{spec.table}: {count} rows of the table with keys of the batch {fault}")
