"""A batch of change events ordered by key: older ones than the table has lose, late values find their place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.window import WindowSpec

from airflow_lake_provider.contracts.applied.position_column import PLACE_FIELDS, POSITION_COLUMN, PlaceTypes
from airflow_lake_provider.contracts.applied.stream_remedies import StreamRemedies
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL, DELETED
from airflow_lake_provider.spark_jobs.sources.base import ChangeBatch
from airflow_lake_provider.spark_jobs.sources.cdc.envelope import EventColumns
from airflow_lake_provider.spark_jobs.sources.cdc.event_order import FIRST, place_at
from airflow_lake_provider.spark_jobs.sources.cdc.event_survey import EventSurvey
from airflow_lake_provider.spark_jobs.sources.cdc.events import CREATE, DELETE, UPSERTS, op_is
from airflow_lake_provider.spark_jobs.sources.cdc.key_changes_across_batches import (
    OldRows,
    cut_deletes,
    last_rows,
    old_rows,
)
from airflow_lake_provider.spark_jobs.sources.cdc.key_outcome import KeyOutcome
from airflow_lake_provider.spark_jobs.sources.cdc.key_timeline import ROW, KeyOrder, KeyTimeline
from airflow_lake_provider.spark_jobs.sources.cdc.rows import PATCH, RowBuilder
from airflow_lake_provider.spark_jobs.sources.cdc.stream_state import StreamState
from airflow_lake_provider.spark_jobs.sources.cdc.timeline_survey import is_new, survey_timeline
from airflow_lake_provider.spark_jobs.sources.cdc.unavailable_values import PRESENT, missing_values, values_at
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted

_DELETED = "_deleted_position"


def read_by_key(
    events: DataFrame,
    columns: EventColumns,
    keys: Sequence[str],
    surveyed: EventSurvey,
    order: KeyOrder,
    remedies: StreamRemedies,
) -> ChangeBatch:
    """Reduce the events and what the table knows to the keys that change.

    :param events: typed, see ``KeyTimeline``.
    :raises BadInputError: values that nothing fills, or that a create which has not come is to have; positions that
        start again.
    """
    _refuse_position_column(columns)
    _refuse_other_positions(order)
    has_old_rows = surveyed.hole_columns and surveyed.creates_with_holes
    old = old_rows(events, order.history, columns.types, keys, every=True) if has_old_rows else OldRows()
    timelines = KeyTimeline(order=order, keys=keys, types=columns.types)
    timeline = timelines.of(events, old, names_old_keys=surveyed.key_changes > 0)
    facts = survey_timeline(timeline, again=order.again)
    if facts.restarted and order.again:
        return read_by_key(events, columns, keys, surveyed, replace(order, epoch=order.epoch + 1), remedies)
    _refuse_restarted(facts.restarted, remedies)
    if not order.again:
        facts.refuse(timeline, remedies)
    holes = sorted({*surveyed.hole_columns, *(name for name in facts.older if name in columns.types)})
    rows = RowBuilder(columns=columns, keys=keys, hole_columns=holes)
    reduced = _RowsOfEvents(rows=rows, order=order, old=old, may_change_keys=facts.may_change_keys)
    batch = rows.batch_of(reduced.checked(timeline), surveyed.events, old.hint if old.expired else _may_come(remedies))
    may_be_cut = facts.may_be_cut and surveyed.may_be_cut(is_whole=False)
    deletes = cut_deletes(timeline.filter("is_new"), keys) if may_be_cut else ()
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


def _refuse_position_column(columns: EventColumns) -> None:
    if POSITION_COLUMN in {name.lower() for name in columns.types}:
        raise BadInputError(
            f"the events have a column {POSITION_COLUMN}, which ordering='key' writes; leave it out with "
            "exclude_columns"
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


def _may_come(remedies: StreamRemedies) -> str:
    return (
        f"An event that has them may be {remedies.may_come}. {remedies.all_again}, or take a new snapshot of these rows"
    )


def _refuse_restarted(events: int, remedies: StreamRemedies) -> None:
    if events:
        raise BadInputError(
            f"{events} events have a lower position than their row and a newer time: the positions of the source have "
            "started again, as after a restored database or on a new server. "
            f"{remedies.start_anew}{remedies.of_new_log}. Nothing was applied"
        )


@dataclass(frozen=True, kw_only=True)
class _RowsOfEvents:
    """Turns timelines into rows."""

    rows: RowBuilder
    order: KeyOrder
    old: OldRows
    may_change_keys: bool

    def checked(self, timeline: DataFrame, only: str | None = None) -> DataFrame:
        """Return ``checked_rows`` of the keys that change."""
        outcome = KeyOutcome(
            holes=self.rows.hole_columns,
            epoch=self.order.epoch,
            types=self.order.types,
            again=self.order.again,
            may_change_keys=self.may_change_keys,
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
        # Read twice, and its plan is long.
        last = last.localCheckpoint(eager=False)
        needed = sf.explode(sf.array(*map(_reference, range(len(holes))))).alias("r")
        refs = last.filter(~op_is(DELETE)).select("key", needed)
        refs = refs.filter("r.root.at IS NOT NULL").select("key", "r.root", "r.i")
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
        timeline.filter(is_new(CREATE))
        .groupBy("ordinal")
        .agg(
            sf.when(sf.count("key") == 1, sf.first("key")).alias("created"),
            sf.first("old_key").alias("told"),
        )
    )
    deletes = lines.filter(is_new(DELETE)).join(creates, "ordinal", "left")
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
