"""Reduce the timeline of each key to one change, with ``ordering="key"``: events may come late and in any order.

The last event of a timeline decides whether the key has a row. A value that this event left out as unchanged is filled
from the latest earlier event since the row was inserted. An envelope says which values those are. Each value has a
position of its own, so a late event still fills the values that are older than it.

From one create, or one row that a snapshot read, to the next delete, a key has one *incarnation*. A change of the
primary key is a delete of the old key and a create of the new one. The values go on from the one incarnation to the
other.

A *place* is where an event stands: ``ordinal`` and ``s0.place`` as a number within one timeline, ``place`` and
``s0.log_place`` in the log. Only places in the log can be compared across keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.position_column import PLACE_FIELDS, POSITION_COLUMN, PlaceTypes
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.cdc.event_order import EVENT_ORDER, FIRST, is_later, place_at
from airflow_lake_provider.spark_jobs.sources.cdc.events import CREATE, DELETE, READ, UPDATE, UPSERTS, op_is
from airflow_lake_provider.spark_jobs.sources.cdc.key_timeline import BEGUN, ENDS, REMOVED, ROW
from airflow_lake_provider.spark_jobs.sources.cdc.rows import PATCH
from airflow_lake_provider.spark_jobs.sources.cdc.unavailable_values import PRESENT, inherit, with_ends, with_parents

_BEGINS = (CREATE, READ, BEGUN)


@dataclass(frozen=True, kw_only=True)
class KeyOutcome:
    """Reduces timelines to changes.

    :param holes: columns with a value that an event of the batch left out, or that is older than its row in the table.
    :param epoch: of the source's log, in the positions that are written.
    :param types: of those positions.
    :param again: events at the position of their row are applied once more.
    :param may_change_keys: False where no key begins at the place at which another one ends.
    """

    holes: Sequence[str]
    epoch: int
    types: PlaceTypes
    again: bool = False
    may_change_keys: bool = True

    def last(self, timeline: DataFrame) -> DataFrame:
        """Return one event for each key that changes: a delete, or an upsert with all its values.

        :param timeline: of :class:`.KeyTimeline`.
        :return: as ``RowBuilder`` takes it, with ``_source_position``. ``_lake_patch`` is true where the table's row
            stands and only values of it change that events had left out. ``s0``, ``s1``, ... say of each of ``holes``
            where its value is: ``text`` and ``types`` of the event that sent it; or ``at`` and ``holder``, snapshot and
            key of the table's row that has it. ``place`` and ``log_place`` are the value's own.
        """
        placed = _with_borders(timeline, again=self.again)
        last = placed.filter("rank = 1")
        if self.holes:
            last = last.join(self._latest_values(_with_incarnations(placed)), "key", "left")
        # The table's row stands, and late events bring values that it had left out.
        patch = op_is(ROW) & self._has_later_value()
        # The delete was noted before, by a run that was cut off before it had deleted the row.
        unfinished = op_is(REMOVED) & sf.col("has_row")
        # The delete was applied before, and there is no row to delete.
        repeated = op_is(DELETE) & sf.col("was_applied") & ~sf.col("has_row")
        changes = last.filter((sf.col("is_new") & ~op_is(BEGUN) & ~repeated) | patch | unfinished)
        every = sf.array(*(sf.lit(name) for name in self.holes)).cast("ARRAY<STRING>")
        return changes.withColumns(
            {
                POSITION_COLUMN: self._position().cast(self.types.row),
                PATCH: op_is(ROW),
                "holes": sf.when(op_is(ROW), every).otherwise(sf.col("holes")),
                "op": sf.when(op_is(*ENDS), DELETE).otherwise(UPDATE),
            }
        )

    def _has_later_value(self) -> Column:
        """Return whether the latest value of any column is another one than the table's row has."""
        has_later = sf.lit(False)
        for i, name in enumerate(self.holes):
            state = sf.col(f"s{i}")
            is_in_row = (state["at"] == PRESENT) & (state["holder"] == sf.col("key"))
            is_as_before = is_in_row & (state["place"] == _place_in_row(name))
            has_later = has_later | ~sf.coalesce(is_as_before, sf.lit(False))
        return has_later

    def _position(self) -> Column:
        """Return ``_source_position``: that of the last event, or of the row that stays, with those of older values."""
        older = self._older_values()
        has_older = sf.size(older) > 0
        of_values = (sf.when(has_older, sf.col("begun")), sf.when(has_older, older))
        of_event = sf.struct(sf.lit(self.epoch), *(sf.col("place")[name] for name in PLACE_FIELDS), *of_values)
        row = sf.col("row_state.position")
        of_row = sf.struct(row["epoch"], *(row[name] for name in PLACE_FIELDS), *of_values)
        return sf.when(op_is(ROW), of_row.cast(self.types.row)).otherwise(of_event.cast(self.types.row))

    def _older_values(self) -> Column:
        """Return the positions of values that are older than their row, by column."""
        entries = []
        for i, name in enumerate(self.holes):
            left_out = op_is(ROW) | sf.array_contains("holes", name)
            is_older = left_out & (sf.col(f"s{i}.place") < sf.col("ordinal"))
            entries.append(sf.when(is_older, sf.struct(sf.lit(name), sf.col(f"s{i}.log_place"))))
        if not entries:
            return sf.lit(None).cast(f"MAP<STRING, {self.types.place}>")
        return sf.map_from_entries(sf.array_compact(sf.array(*entries)))

    def _latest_values(self, numbered: DataFrame) -> DataFrame:
        """Return ``key`` and ``s0``...: the latest value of each column at the end of each timeline."""
        states = [self._latest_value(name).alias(f"s{i}") for i, name in enumerate(self.holes)]
        incarnations = with_ends(numbered, states, sf.lit(None).cast("STRING"))
        if self.may_change_keys:
            parents = with_parents(incarnations.localCheckpoint(), None, ends=ENDS, begins=(CREATE, BEGUN))
            incarnations = inherit(parents, len(self.holes), _later)
        return incarnations.filter("is_last").select(
            sf.col("id.key").alias("key"), *(f"s{i}" for i in range(len(states)))
        )

    def _latest_value(self, name: str) -> Column:
        """Return the latest value of a column within an incarnation: one that an event sent, or that of the row."""
        sent = op_is(*UPSERTS) & sf.map_contains_key("after", name)
        sent = sf.coalesce(sent & ~sf.array_contains("holes", name), sf.lit(False))
        place = _place_in_row(name)
        # A value of the row that is older than a delete or create of the key is of an earlier incarnation. The right
        # one is in an event that is yet to come.
        is_newest = (place >= sf.col("ordinal")) | sf.col("boundary").isNull()
        is_of_incarnation = is_newest | (sf.col("boundary") <= sf.greatest(place, "row_ordinals.since"))
        of_row = op_is(ROW) & sf.coalesce(is_of_incarnation, sf.lit(False))
        # Where all events are applied again, any event wins over a value that the row has from another key.
        from_other_key = (place < sf.col("row_ordinals.since")) if self.again else sf.lit(False)
        row_place = sf.when(from_other_key, FIRST).otherwise(place)
        row_log_place = sf.when(from_other_key, place_at(FIRST, self.types)).otherwise(_log_place_in_row(name))
        state = sf.struct(
            sf.when(sent, sf.element_at("after", sf.lit(name))).alias("text"),
            sf.when(sent, sf.col("types")).alias("types"),
            sf.when(of_row, sf.col("at")).alias("at"),
            sf.when(of_row, sf.col("key")).alias("holder"),
            sf.when(of_row, row_place).otherwise(sf.col("ordinal")).alias("place"),
            sf.when(of_row, row_log_place).otherwise(sf.col("place")).alias("log_place"),
        )
        return sf.max_by(state, sf.when(sent, sf.col("ordinal")).when(of_row, row_place))


def _place_in_row(name: str) -> Column:
    return sf.coalesce(sf.element_at("row_ordinals.older", sf.lit(name)), "ordinal")


def _log_place_in_row(name: str) -> Column:
    return sf.coalesce(sf.element_at("row_state.older", sf.lit(name)), "place")


def _later(state: str, inherited: str) -> Column:
    """Return the later of two values: of an incarnation, and of the one that it goes on from."""
    own, of_parent = sf.col(state), sf.col(inherited)
    # Places are numbers within one timeline, and the parent is of another key.
    is_parents = is_later(of_parent["log_place"], own["log_place"])
    return sf.when(own.isNull() | is_parents, of_parent).otherwise(own)


def _with_borders(timeline: DataFrame, *, again: bool) -> DataFrame:
    """Add to each event where incarnations of its key begin and end.

    :param again: whether the table's row does not count at the place of an event.
    :return: the same with ``begins``, 1 of an event that begins an incarnation, and ``begun``, its begin in the log;
        ``boundary``, the last create or delete before the event; ``has_row``, true where the table has a row of the
        key; ``rank``, 1 of the key's last event.
    """
    key = Window.partitionBy("key").orderBy(*EVENT_ORDER)
    past = key.rowsBetween(Window.unboundedPreceding, -1)
    before, op, ordinal, is_row = sf.lag("op").over(key), sf.col("op"), sf.col("ordinal"), op_is(ROW)
    begins = op.isin(*_BEGINS) | before.isNull() | before.isin(*ENDS)
    at_one_place = is_row.asc() if again else is_row.desc()
    newest = Window.partitionBy("key").orderBy(ordinal.desc(), at_one_place, sf.col(ARRIVAL).desc())
    return timeline.withColumns(
        {
            "boundary": sf.max(sf.when(op.isin(*_BEGINS, *ENDS), ordinal)).over(past),
            "begun": sf.max_by("place", sf.when(op.isin(*_BEGINS), ordinal)).over(key),
            "begins": begins.cast("int"),
            "has_row": sf.max(is_row & (sf.col("at") == PRESENT)).over(Window.partitionBy("key")),
            "rank": sf.row_number().over(newest),
        }
    )


def _with_incarnations(placed: DataFrame) -> DataFrame:
    """Add ``number``, of the incarnation that an event is of."""
    key = Window.partitionBy("key").orderBy(*EVENT_ORDER)
    return placed.withColumn("number", sf.sum("begins").over(key))
