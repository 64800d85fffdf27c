"""A batch of change events, read and reduced to the last change per key, with all of its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field, replace

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, StructField, StructType

from airflow_lake_provider.contracts.applied.event_marks import EventMarks, EventOrdering
from airflow_lake_provider.contracts.applied.position_column import PlaceTypes
from airflow_lake_provider.contracts.applied.redelivery import (
    applied_marks,
    choose_ordering,
    count_repeated,
    refuse_two_logs,
)
from airflow_lake_provider.contracts.applied.stream_remedies import StreamRemedies
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL, DELETED, RESET, released_on_failure
from airflow_lake_provider.spark_jobs.formats.base import KeyHistory
from airflow_lake_provider.spark_jobs.sources.base import ChangeBatch
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_columns, refuse_unordered_columns
from airflow_lake_provider.spark_jobs.sources.cdc.envelope import Envelope, EventColumns, types_hash
from airflow_lake_provider.spark_jobs.sources.cdc.event_order import EVENT_ORDER, refuse_below_snapshots
from airflow_lake_provider.spark_jobs.sources.cdc.event_survey import EventSurvey, survey
from airflow_lake_provider.spark_jobs.sources.cdc.events import READ, is_delete
from airflow_lake_provider.spark_jobs.sources.cdc.events_by_key import read_by_key
from airflow_lake_provider.spark_jobs.sources.cdc.key_changes_across_batches import (
    OldRows,
    cut_deletes,
    last_rows,
    old_rows,
)
from airflow_lake_provider.spark_jobs.sources.cdc.key_timeline import KeyOrder
from airflow_lake_provider.spark_jobs.sources.cdc.redelivered_events import is_below_mark, refuse_other_log
from airflow_lake_provider.spark_jobs.sources.cdc.renamed_table import (
    MOST_TABLES,
    EarlierTable,
    refuse_other_schema,
    refuse_other_table,
    spellings,
)
from airflow_lake_provider.spark_jobs.sources.cdc.rows import RowBuilder
from airflow_lake_provider.spark_jobs.sources.cdc.sink_file_names import sink_file
from airflow_lake_provider.spark_jobs.sources.cdc.stream_state import StreamState
from airflow_lake_provider.spark_jobs.sources.cdc.unavailable_values import (
    PRESENT,
    last_known_values,
    with_table_values,
)
from airflow_lake_provider.spark_jobs.sources.text_schema import declared_types

_TABLES_NAMED = 20
_ABOUT_TWINS = (
    "a lake table has one of them. Leave one out of the stream, or rename it there; exclude_columns leaves both out. "
    "Where the source has renamed it, apply the events from before that in a run of their own"
)


@dataclass(frozen=True)
class TargetState:
    """The table that change events are read for, before this batch.

    :param schema: its columns; None when it does not exist yet.
    :param rows: read only for keys whose values the batch does not hold.
    :param history: what it knows of keys, such as key changes that earlier batches began.
    :param keeps_history: whether those that this batch begins will be remembered; on a branch none is.
    :param marks: what was applied of the stream; events that they show to be repeated are dropped first of all.
    :param has_had_events: whether an event of this source was ever applied; else other tables' events alone are an
        error.
    :param earlier: table of the stream that the source was read for before; None where it is the same one.
    :param whole: where a share is read, opens all that is there; else None.
    """

    schema: StructType | None = None
    rows: DataFrame | None = None
    _: KW_ONLY
    history: KeyHistory = field(default_factory=KeyHistory)
    keeps_history: bool = True
    marks: EventMarks | None = None
    has_had_events: bool = True
    earlier: EarlierTable | None = None
    whole: Callable[[], AbstractContextManager[Envelope]] | None = None


def read_change_events(
    stream: Envelope,
    keys: Sequence[str],
    target: TargetState,
    *,
    exclude_columns: Sequence[str] = (),
    ignore_deletes: bool = False,
    tells_resets: bool = False,
    ignore_marks: bool = False,
    order: KeyOrder | None = None,
) -> ChangeBatch:
    """Read the change events of one source table and keep the last change of each key.

    The greatest place in the log is last, then the latest arrival. The text is read once, and once more when a
    column's type is neither declared, nor the table's, nor told by the events. Columns of the table that no event
    has are not in the result; a column that only some final rows lack is NULL in them and counted in ``absent``.

    :param stream: the lines of the batch, and how they tell events of one table.
    :param keys: key columns: the source table's primary key.
    :param exclude_columns: columns of the events that are not stored; they are not even converted.
    :param ignore_deletes: a delete changes nothing; the last other event of its key stands.
    :param tells_resets: whether ``changes`` has ``_lake_reset``, for a table whose other columns keep their values.
    :param ignore_marks: apply repeated events, too.
    :param order: with ``ordering="key"``, what the table knows of the keys.
    :raises BadInputError: lines that are no events, events without order, events that may be late, values that do not
        convert, NULL keys, unavailable values that nothing fills.
    :raises UnsupportedError: truncations, types that events cannot have.
    """
    remedies = stream.words.remedies
    with released_on_failure() as cached:
        raw, facts = _surveyed(stream, keys, target, exclude_columns, cached)
        repeated = _repeated_events(stream, facts, target, ignore_marks=ignore_marks)
        if repeated.dropped == facts.events:
            raw.unpersist()
            return repeated.on(_empty(stream, target.schema, facts.events))
        columns = stream.columns(facts, target.schema)
        rows = RowBuilder(columns=columns, keys=_spelled_keys(keys, facts.columns), hole_columns=facts.hole_columns)
        refuse_unordered_columns(StructType([StructField(*each) for each in columns.types.items()]), rows.keys)
        # Checkpoints, not caches: a cache keeps the whole plan, and planning it over and over is most of a small batch.
        events = _typed_events(repeated.left(raw, target.marks, stream), columns, keys).localCheckpoint()
        raw.unpersist()
        if order is not None:
            return repeated.on(read_by_key(events, columns, rows.keys, facts, order, remedies))
        if READ in facts.operations:
            refuse_below_snapshots(events, stream.source.table, PlaceTypes(stream.log.number_type), remedies)
        reduction = _Reduction(events, rows, facts, target, remedies, ignore_deletes, tells_resets)
        return repeated.on(reduction.batch(is_whole=repeated.dropped == 0))


def _surveyed(
    stream: Envelope, keys: Sequence[str], target: TargetState, exclude_columns: Sequence[str], cached: list[DataFrame]
) -> tuple[DataFrame, EventSurvey]:
    """Return the events of the table, and what one pass over them has found, without the excluded columns.

    :param cached: takes what is to be released when the batch fails.
    """
    table = stream.source.table
    refuse_other_log(target.marks, stream.log, table, stream.words.remedies)
    names = [sink_file(file.path, table) for file in stream.files]
    raw = stream.events(keys, names).persist()
    cached.append(raw)
    surveyed = survey(raw, stream.log, names, target.marks)
    surveyed = replace(surveyed, positions=surveyed.positions.with_offsets(stream.offsets))
    stream.refuse(surveyed, keys)
    facts = surveyed.without(exclude_columns)
    refuse_unfit_columns(facts.columns, f"the batch of events of {table}", _ABOUT_TWINS)
    if not target.has_had_events and not facts.events:
        _refuse_without_events(stream, target)
    return raw, facts


@dataclass(frozen=True)
class _Reduction:
    """Events of one order, to be reduced to the last of each key."""

    events: DataFrame
    rows: RowBuilder
    facts: EventSurvey
    target: TargetState
    remedies: StreamRemedies
    ignore_deletes: bool
    tells_resets: bool

    def batch(self, *, is_whole: bool) -> ChangeBatch:
        """Fill, convert and check the rows, lazily: the job that counts and checks them also keeps them.

        :param is_whole: whether no event was left out as a repeated one.
        """
        rows, events = self.rows, self.events
        # An earlier batch may have begun a key change whose values are needed.
        has_old_rows = bool(rows.hole_columns and self.facts.creates_with_holes)
        old = old_rows(events, self.target.history, rows.types, rows.keys) if has_old_rows else OldRows()
        old = replace(old, remedies=self.remedies)
        values = _UnsentValues(rows=rows, old=old, table_rows=self.target.rows)
        counted = events.filter(~is_delete()) if self.ignore_deletes else events
        last = values.fill(_last_events(counted, self.tells_resets), events)
        batch = rows.batch_of(rows.checked_rows(last).localCheckpoint(eager=False), self.facts.events, old.hint)
        # A delete may be one half of a key change.
        may_be_cut = self.target.keeps_history and not self.ignore_deletes and self.facts.may_be_cut(is_whole=is_whole)
        if not may_be_cut:
            return batch
        cut = cut_deletes(events, rows.keys)
        ended = last_rows(events, cut, rows.keys, values.last_rows)
        return replace(batch, side=StreamState(cut_deletes=cut, last_rows=ended))


@dataclass(frozen=True, kw_only=True)
class _Repeated:
    """Findings about events that were delivered again."""

    ordering: EventOrdering
    dropped: int
    marks: EventMarks | None

    def left(self, raw: DataFrame, marks: EventMarks | None, stream: Envelope) -> DataFrame:
        """Return the events that are to be applied."""
        new = raw.filter(~is_below_mark(marks, self.ordering, stream.log)) if marks and self.dropped else raw
        return new.filter("op IS NOT NULL")

    def on(self, batch: ChangeBatch) -> ChangeBatch:
        state = StreamState.of(batch)
        dropped = self.dropped + (state.dropped or 0)
        side = replace(state, ordering=self.ordering.value, dropped=dropped, marks=self.marks)
        return replace(batch, side=side)


def _repeated_events(stream: Envelope, facts: EventSurvey, target: TargetState, *, ignore_marks: bool) -> _Repeated:
    """Decide which events were delivered again, and refuse those that may be late or of another log."""
    table, marks, positions = stream.source.table, target.marks, facts.positions
    if target.earlier is not None:
        refuse_other_table(stream, target.earlier, positions, ignore_marks=ignore_marks)
    elif marks is not None:
        refuse_other_schema(table, marks.full_name, facts.tables)
    asked = EventOrdering(stream.source.ordering) if stream.source.ordering else None
    ordering = choose_ordering(asked, marks, positions, table)
    remedies = stream.words.remedies
    refuse_two_logs(ordering, positions, table, remedies)
    return _Repeated(
        ordering=ordering,
        dropped=count_repeated(ordering, marks, positions, table, remedies) if marks and not ignore_marks else 0,
        marks=_marks_of(facts, applied_marks(ordering, marks, positions, again=ignore_marks))
        if facts.events
        else marks,
    )


def _marks_of(facts: EventSurvey, marks: EventMarks) -> EventMarks:
    return replace(marks, full_name=next(iter(facts.tables), marks.full_name))


def _refuse_without_events(stream: Envelope, target: TargetState) -> None:
    """Refuse lines without an event of the table, where it had none before; a later share of a stream may have one.

    :raises BadInputError: the name may be a mistake, or there is no table that would keep how far a share was read.
    """
    table = stream.source.table
    if target.whole is None:
        _refuse_other_tables(stream)
    elif target.schema is None:
        raise BadInputError(
            f"none of the events of this share belongs to {table}, and there is no table yet that would keep how far "
            "the stream was read. Leave max_records and catch_up out for this run, or create the table before it"
        )
    elif target.earlier is not None:
        # Once the position is of the new name, nothing would tell that it is a mistake. So this is looked for once.
        with target.whole() as whole:
            if not any(table in spellings(name) for name in whole.count_tables(MOST_TABLES)):
                _refuse_other_tables(whole)


def _refuse_other_tables(stream: Envelope) -> None:
    """Refuse lines of which none belongs to the table; once it has had events, it may be quiet.

    :raises BadInputError: with the tables whose events were seen.
    """
    seen = stream.count_tables(_TABLES_NAMED)
    if not seen:
        return
    listed = ", ".join(f"{table} ({count})" for table, count in seen.items())
    raise BadInputError(
        f"none of the events belongs to {stream.source.table}, and no earlier run has had one; there are events of "
        f"{listed}. Give table as one of these, as <table> or <schema>.<table>; or wait with this task until "
        "the table has its first event"
    )


@dataclass(frozen=True, kw_only=True)
class _UnsentValues:
    """Places where unavailable values are looked for.

    :param old: rows of the table that key changes of earlier batches began with; ``table_rows``: its present ones.
    """

    rows: RowBuilder
    old: OldRows
    table_rows: DataFrame | None

    def fill(self, last: DataFrame, events: DataFrame) -> DataFrame:
        """Add what is known of the unavailable values of ``last``.

        :param events: all of the batch, those included that ``last`` leaves out.
        """
        if not self.rows.hole_columns:
            return last
        values = last_known_values(events, self.rows.hole_columns, self.old.roots)
        named = {f"t{i}": name for i, name in enumerate(self.rows.hole_columns)}
        rows_at = {**({PRESENT: self.table_rows} if self.table_rows is not None else {}), **self.old.rows_at}
        return last.join(with_table_values(values, rows_at, self.rows.keys, named, self.rows.types), "key", "left")

    def last_rows(self, before: DataFrame) -> DataFrame:
        """Return the rows that cut deletes took away, see ``last_rows``.

        :raises BadInputError: such a row lacks a value that a half of a key change may bring.
        """
        last = _last_events(before.filter("is_cut"), tells_resets=False)
        checked = self.rows.checked_rows(self.fill(last, before)).localCheckpoint()
        if self.old.unknown:
            # The half that has the value may still come. Once this row is gone it would come too late.
            self.rows.refuse_unfilled(checked, self.old.hint)
        return self.rows.sound_rows(checked)


def _last_events(events: DataFrame, tells_resets: bool) -> DataFrame:
    if tells_resets:
        events = events.withColumn(RESET, sf.max(is_delete()).over(Window.partitionBy("key")))
    newest = Window.partitionBy("key").orderBy(*(sf.col(name).desc() for name in EVENT_ORDER))
    return events.withColumn("number", sf.row_number().over(newest)).filter("number = 1").drop("number")


def _spelled_keys(keys: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the keys after seeing that events have them.

    :raises BadInputError: an event column of that exact name does not exist.
    """
    if not columns:
        raise BadInputError(
            f"no event tells the key columns {list(keys)}: all are deletes without the row of before, and the records' "
            "keys are no objects with these columns. Let the stream write keys as JSON or Avro, or the row of before"
        )
    missing = [name for name in keys if name not in columns]
    if missing:
        raise BadInputError(
            f"keys {list(keys)} name columns that the events lack: {missing}; they have {list(columns)}"
        )
    return list(keys)


def _empty(stream: Envelope, table_schema: StructType | None, events: int) -> ChangeBatch:
    fields = [StructField(name, kind) for name, kind in declared_types(stream.source.schema, table_schema).items()]
    changes = stream.spark.createDataFrame([], StructType([*fields, StructField(DELETED, BooleanType())]))
    return ChangeBatch(changes=changes, rows=events, keys=0, upserts=0, deletes=0)


def _typed_events(raw: DataFrame, columns: EventColumns, keys: Sequence[str]) -> DataFrame:
    return raw.select(
        ARRIVAL,
        "op",
        "position",
        "ordinal",
        "last_commit",
        "after",
        "holes",
        types_hash().alias("types"),
        "ts_ms",
        columns.key(keys, "key").alias("key"),
        *(sf.when(sf.col(name).isNotNull(), columns.key(keys, name)).alias(name) for name in ("old_key", "new_key")),
    )
