"""A batch of change events ordered by key: older ones than the table has lose, late values find their place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.window import WindowSpec

from airflow_lake_provider.contracts.applied.position_column import (
    PLACE_FIELDS,
    POSITION_COLUMN,
    PlaceTypes,
)
from airflow_lake_provider.contracts.applied.redelivery import LATE_TOLERANCE_MS
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL, DELETED
from airflow_lake_provider.spark_jobs.sources.base import ChangeBatch
from airflow_lake_provider.spark_jobs.sources.cdc.envelope import EventColumns
from airflow_lake_provider.spark_jobs.sources.cdc.event_order import EVENT_ORDER, FIRST, place_at
from airflow_lake_provider.spark_jobs.sources.cdc.event_survey import EventSurvey
from airflow_lake_provider.spark_jobs.sources.cdc.events import CREATE, DELETE, READ, UPSERTS, op_is
from airflow_lake_provider.spark_jobs.sources.cdc.key_changes_across_batches import (
    OldRows,
    cut_deletes,
    last_rows,
    old_rows,
)
from airflow_lake_provider.spark_jobs.sources.cdc.key_outcome import KeyOutcome
from airflow_lake_provider.spark_jobs.sources.cdc.key_timeline import BEGUN, REMOVED, ROW, KeyOrder, KeyTimeline
from airflow_lake_provider.spark_jobs.sources.cdc.rows import PATCH, RowBuilder
from airflow_lake_provider.spark_jobs.sources.cdc.stream_state import StreamState
from airflow_lake_provider.spark_jobs.sources.cdc.unavailable_values import PRESENT, missing_values, values_at
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted

_MAY_COME = (
    "An event that has them may be in a file that has not come yet: nothing was applied, run again when it is there. "
    "Where every file is there, apply them all again with on_repeat='apply', or take a new snapshot of these rows"
)
_DELETED = "_deleted_position"


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """Findings of one pass over the lines of a batch."""

    older: tuple[str, ...]
    dropped: int
    restarted: int
    begun: int
    deletes: int


def read_by_key(
    events: DataFrame, columns: EventColumns, keys: Sequence[str], surveyed: EventSurvey, order: KeyOrder
) -> ChangeBatch:
    """Reduce the events and what the table knows to the keys that change.

    :param events: typed, see ``KeyTimeline``.
    :raises BadInputError: values that nothing fills, or that a create which has not come is to have; positions that
        start again.
    """
    if POSITION_COLUMN in {name.lower() for name in columns.types}:
        raise BadInputError(
            f"the events have a column {POSITION_COLUMN}, which ordering='key' writes; leave it out with "
            "exclude_columns"
        )
    _refuse_other_positions(order)
    old = old_rows(events, order.history, columns.types, keys, every=True) if surveyed.hole_columns else OldRows()
    timeline = KeyTimeline(order=order, keys=keys, types=columns.types).of(events, old)
    facts = _facts(timeline, again=order.again)
    if facts.restarted and order.again:
        return read_by_key(events, columns, keys, surveyed, replace(order, epoch=order.epoch + 1))
    _refuse_restarted(facts.restarted)
    if facts.deletes and not order.again:
        refuse_reused(timeline)
    if facts.begun and not order.again:
        refuse_pending(timeline)
    holes = sorted({*surveyed.hole_columns, *(name for name in facts.older if name in columns.types)})
    rows = RowBuilder(columns=columns, keys=keys, hole_columns=holes)
    reduced = _RowsOfEvents(rows=rows, order=order, old=old, has_deletes=facts.deletes > 0)
    batch = rows.batch_of(reduced.checked(timeline), surveyed.events, old.hint if old.expired else _MAY_COME)
    deletes = cut_deletes(timeline.filter("is_new"), keys) if surveyed.may_be_cut(is_whole=False) else ()
    # Late values may have come to the row under other keys, so each is looked at.
    cut = tuple(replace(delete, changed=True) for delete in deletes)
    return replace(
        batch,
        # Each use of the patched rows would read the table.
        changes=reduced.whole(batch.changes).localCheckpoint(eager=False)
        if batch.patches
        else batch.changes.drop(PATCH),
        reads_table=True,
        completed=reduced.completed(),
        side=StreamState(
            cut_deletes=cut,
            last_rows=last_rows(timeline, cut, keys, reduced.last_rows),
            deleted_keys=_deleted_keys(timeline, keys, order, holes) if facts.deletes else None,
            epoch=order.epoch,
            dropped=facts.dropped,
        ),
    )


def _refuse_other_positions(order: KeyOrder) -> None:
    """Refuse a table whose positions cannot be compared with a snapshot's."""
    deleted = order.deleted_keys.schema if order.deleted_keys is not None else None
    columns = ((order.schema, POSITION_COLUMN, order.types.row), (deleted, _DELETED, order.types.deleted))
    for schema, name, expected in columns:
        kind = {field.name.lower(): field.dataType.simpleString() for field in schema or ()}.get(name)
        if kind is not None and kind != re.sub(r"(?<=[:,]) ", "", expected.lower()):
            raise BadInputError(
                f"the table has a column {name} of type {kind}, and ordering='key' needs {expected}: another version "
                "or somebody else wrote it. Make the table and its table of deleted keys anew; or drop the column, "
                "so that events win over each row once"
            )


def _facts(timeline: DataFrame, *, again: bool) -> _Facts:
    key = Window.partitionBy("key")
    is_applied = (op_is(ROW, REMOVED) | sf.col("was_applied")) & (sf.col("at") == PRESENT)
    place = sf.when(is_applied, sf.col("ordinal"))
    lines = timeline.withColumns({"floor": sf.max(place).over(key), "floor_ts": sf.max_by("ts_ms", place).over(key)})
    sent = sf.col("is_new") & (sf.col(f"{ARRIVAL}.file") >= 0)
    # A snapshot's clock is read after its place in the log. One that comes late is dropped, as older events are.
    is_snapshot = op_is(READ)
    latest_ts = sf.col("floor_ts") + sf.when(is_snapshot, LATE_TOLERANCE_MS).otherwise(0)
    restarted = (sf.col("ordinal") < sf.col("floor")) & (sf.col("ts_ms") > latest_ts) & (~is_snapshot | sf.lit(again))
    row = lines.agg(
        sf.array_distinct(sf.flatten(sf.collect_set(sf.map_keys("row_ordinals.older")))).alias("older"),
        sf.count_if(sent & (sf.col("ordinal") <= sf.col("floor"))).alias("dropped"),
        sf.count_if(sent & restarted).alias("restarted"),
        sf.count_if(op_is(BEGUN) & sf.col("old_key").isNotNull()).alias("begun"),
        sf.count_if(op_is(DELETE, REMOVED)).alias("deletes"),
    ).collect()[0]
    return _Facts(**{**row.asDict(), "older": tuple(row["older"])})


def _refuse_restarted(events: int) -> None:
    if events:
        raise BadInputError(
            f"{events} events have a lower position than their row and a newer time: the positions of the source have "
            "started again, as after a restored database or on a new server. Give the new source a name of "
            "its own, or apply this input with on_repeat='apply', and let source be the new files only: their events "
            "then win over every row of before. Nothing was applied"
        )


@dataclass(frozen=True, kw_only=True)
class _RowsOfEvents:
    """Turns timelines into rows."""

    rows: RowBuilder
    order: KeyOrder
    old: OldRows
    has_deletes: bool

    def checked(self, timeline: DataFrame, only: str | None = None) -> DataFrame:
        """Return ``checked_rows`` of the keys that change."""
        outcome = KeyOutcome(
            holes=self.rows.hole_columns,
            epoch=self.order.epoch,
            types=self.order.types,
            again=self.order.again,
            has_deletes=self.has_deletes,
        )
        last = outcome.last(timeline)
        last = last.filter(only) if only else last
        return self.rows.checked_rows(self._filled(last)).localCheckpoint(eager=False)

    def whole(self, changes: DataFrame) -> DataFrame:
        """Return the changes, those that change single values with the rest of the table's row."""
        if self.order.rows is None:
            return changes.drop(PATCH)
        keys, taken = self.rows.keys, [*self.rows.keys, *self.rows.hole_columns]
        patches = changes.filter(PATCH).select(*map(quoted, taken), POSITION_COLUMN, DELETED)
        mine = {name.lower() for name in (*taken, POSITION_COLUMN)}
        others = [name for name in self.order.rows.columns if name.lower() not in mine]
        others = [name for name in others if name != self.order.deleted_column]
        spelled = {name.lower(): name for name in self.rows.types}
        table_rows = self.order.rows.select(
            *(quoted(name).cast(self.rows.types[name]).alias(name) for name in keys),
            *(quoted(name).alias(spelled.get(name.lower(), name)) for name in others),
        )
        patched = table_rows.join(sf.broadcast(patches), list(keys))
        return changes.filter(~sf.col(PATCH)).drop(PATCH).unionByName(patched, allowMissingColumns=True)

    def last_rows(self, before: DataFrame) -> DataFrame:
        """Return the rows that cut deletes took away, see ``last_rows``."""
        return self.whole(self.rows.sound_rows(self.checked(before, only="is_cut")))

    def completed(self) -> tuple[str, ...]:
        """Return the columns of ``whole`` that only the table has."""
        own = {name.lower() for name in (*self.rows.types, POSITION_COLUMN, self.order.deleted_column or "")}
        columns = () if self.order.rows is None else self.order.rows.columns
        return tuple(name for name in columns if name.lower() not in own)

    def _filled(self, last: DataFrame) -> DataFrame:
        """Add ``t0``...: values that rows of the table or of a snapshot hold."""
        holes = self.rows.hole_columns
        if not holes:
            return last
        named = {f"t{i}": name for i, name in enumerate(holes)}
        rows_at = {**({PRESENT: self.order.rows} if self.order.rows is not None else {}), **self.old.rows_at}
        sent = {f"s{i}": _sent(sf.col(f"s{i}")) for i in range(len(holes))}
        if not rows_at:
            # A table that is yet to be made.
            return last.withColumns({**sent, **missing_values(named, self.rows.types)})
        needed = sf.explode(sf.array(*map(_reference, range(len(holes))))).alias("r")
        refs = last.filter(~op_is(DELETE)).select("key", needed)
        refs = refs.filter("r.root.at IS NOT NULL").select("key", "r.root", "r.i").localCheckpoint()
        table_values = values_at(rows_at, refs.select("root").distinct(), self.rows.keys, named, self.rows.types)
        values = refs.join(table_values, "root").groupBy("key").agg(*map(_value_of, range(len(holes))))
        return last.withColumns(sent).join(values, "key", "left")


def _reference(number: int) -> Column:
    state = sf.col(f"s{number}")
    left_out = sf.size("holes") > 0
    root = sf.struct(state["holder"].alias("key"), sf.when(left_out, state["at"]).alias("at"))
    return sf.struct(sf.lit(number).alias("i"), root.alias("root"))


def _value_of(number: int) -> Column:
    value = f"t{number}"
    return sf.first(sf.when(sf.col("i") == number, sf.col(value)), ignorenulls=True).alias(value)


def _sent(state: Column) -> Column:
    is_sent = state.isNotNull() & state["at"].isNull()
    return sf.when(is_sent, sf.struct(state["text"].alias("text"), state["types"].alias("types")))


def _deleted_keys(timeline: DataFrame, keys: Sequence[str], order: KeyOrder, holes: Sequence[str]) -> DataFrame:
    """Return the deletes that are the last of their key, or that ended a row which goes on under another key."""
    key = Window.partitionBy("key")
    lines = timeline.withColumns(
        {
            "newest": sf.max("ordinal").over(key),
            "values": _values_place(key.orderBy("ordinal", ARRIVAL), holes, order.types),
            "has_row": sf.max(sf.col("row_state.position").isNotNull() & (sf.col("at") == PRESENT)).over(key),
        }
    )
    creates = (
        timeline.filter(_is_new(CREATE))
        .groupBy("ordinal")
        .agg(
            sf.when(sf.count("key") == 1, sf.first("key")).alias("created"),
            sf.first("old_key").alias("told"),
        )
    )
    deletes = lines.filter(_is_new(DELETE)).join(creates, "ordinal", "left")
    fits = sf.col("told").isNull() | (sf.col("told") == sf.col("key"))
    heir = sf.coalesce("new_key", sf.when(fits, sf.col("created")))
    is_last = sf.col("ordinal") == sf.col("newest")
    # A row that is flagged as deleted keeps its position itself.
    needed = is_last & ~sf.col("has_row") if order.deleted_column else is_last
    names = [(f"k{i}", name) for i, name in enumerate(keys)]
    return deletes.filter(needed | heir.isNotNull()).select(
        *(sf.col(f"key.{short}").alias(name) for short, name in names),
        sf.struct(sf.lit(order.epoch), *(sf.col("place")[name] for name in PLACE_FIELDS))
        .cast(order.types.deleted)
        .alias(_DELETED),
        sf.when(heir.isNotNull(), sf.struct(*(heir[short].alias(name) for short, name in names))).alias("_moved_to"),
        sf.col("values.place").cast(order.types.place).alias("_values_position"),
    )


def _values_place(window: WindowSpec, holes: Sequence[str], types: PlaceTypes) -> Column:
    """Return up to which position no earlier event of the key can bring a value, of the events before this one.

    :param holes: columns that are stored; an event that leaves out another one is complete.
    """
    stored = sf.array(*map(sf.lit, holes)).cast("ARRAY<STRING>")
    kind = f"STRUCT<number: {types.number}, place: {types.place}>"

    def numbered(number: Column, place: Column) -> Column:
        return sf.struct(number.alias("number"), place.alias("place")).cast(kind)

    own, unknown = numbered(sf.col("ordinal"), sf.col("place")), numbered(sf.lit(FIRST), place_at(FIRST, types))
    whole = sf.when(sf.size(sf.array_intersect("holes", stored)) == 0, own).otherwise(unknown)
    older = sf.transform(
        sf.map_keys("row_ordinals.older"),
        lambda name: numbered(sf.col("row_ordinals.older")[name], sf.col("row_state.older")[name]),
    )
    of_row = sf.array_min(sf.concat(sf.array(own), sf.coalesce(older, sf.array().cast(f"ARRAY<{kind}>"))))
    place = sf.when(op_is(ROW), of_row).when(op_is(*UPSERTS), whole)
    return sf.max(place).over(window.rowsBetween(Window.unboundedPreceding, -1))


def refuse_reused(timeline: DataFrame) -> None:
    """Refuse begins and ends of a key between what was known of it and its end, and changes of a key used again since.

    :param timeline: of ``KeyTimeline``.
    """
    ends = _applied_key_changes(timeline).filter("values_up_to IS NOT NULL")
    borders = timeline.filter(_is_new(CREATE, READ, DELETE) & ~sf.col("was_applied")).select("key", "ordinal")
    # A create that comes again begins an incarnation that was applied, as its old key's delete tells it.
    begun = timeline.filter(op_is(BEGUN)).select("key", "ordinal")
    borders = borders.join(begun, ["key", "ordinal"], "left_anti")
    between = borders.join(ends, "key").filter("ordinal > values_up_to AND ordinal < end").select("key")
    creates = timeline.filter(_is_new(CREATE)).select("ordinal", sf.lit(True).alias("created")).distinct()
    moved = timeline.filter(_is_new(DELETE) & ~sf.col("was_applied")).join(creates, "ordinal", "left")
    moved = moved.filter("new_key IS NOT NULL OR created").select("key", "ordinal")
    applied_later = sf.col("was_applied") | (op_is(ROW) & (sf.col("at") == PRESENT))
    later = timeline.filter(applied_later).select("key", sf.col("ordinal").alias("newer"))
    since = moved.join(later, "key").filter("newer > ordinal").select("key")
    if count := between.union(since).distinct().count():
        raise BadInputError(
            f"{count} keys were used again before the events of their key change came, so values that they leave out "
            "are not in the events, nor surely in the table. Nothing was applied; apply all files again with "
            "on_repeat='apply', or take a new snapshot of these rows"
        )


def refuse_pending(timeline: DataFrame) -> None:
    """Refuse late events of rows whose key has changed while an event with a new key has not come."""
    after = Window.partitionBy("key").orderBy(*EVENT_ORDER).rowsBetween(1, Window.unboundedFollowing)
    following = sf.struct("op", "values_up_to")
    ahead = sf.first(sf.when(~op_is(BEGUN), following), ignorenulls=True).over(after)
    begun = timeline.withColumn("ahead", ahead).filter(op_is(BEGUN) & sf.col("old_key").isNotNull())
    # Ended before any event of it was seen, or not even ended.
    unseen = sf.col("ahead.op").isin(DELETE, REMOVED) & sf.col("ahead.values_up_to").isNull()
    open_ends = begun.filter(sf.col("ahead").isNull() | unseen)
    late = timeline.filter(_is_new(*UPSERTS)).select("key", "ordinal")
    joined = late.join(_applied_key_changes(timeline), "key")
    new_events = joined.filter("ordinal < end AND ordinal > coalesce(values_up_to, -1)")
    if not open_ends.isEmpty() and (count := new_events.count()):
        raise BadInputError(
            f"{count} late events are of rows whose key has changed, and the event with the new key has not come. "
            "Nothing was applied; run again when the file with it is there"
        )


def _is_new(*kinds: str) -> Column:
    """Return whether an event is of the batch, and of one of some kinds."""
    return sf.col("is_new") & op_is(*kinds)


def _applied_key_changes(timeline: DataFrame) -> DataFrame:
    """Return ``key``, ``end`` and ``values_up_to`` of key changes that were applied before."""
    is_key_change = op_is(DELETE, REMOVED) & sf.col("new_key").isNotNull()
    ends = timeline.filter(sf.col("was_applied") & is_key_change)
    return ends.select("key", sf.col("ordinal").alias("end"), "values_up_to")
