"""Reduce the events of each key with ``ordering="key"``, where events may come late and in any order.

The last event of a line says what becomes of the key. A value that it leaves out is the newest that the line knows of
the same life of the row, and each value has a position: a late event brings those that are older than its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.position_column import PLACE_FIELDS, PLACE_TYPE, POSITION_COLUMN, POSITION_TYPE
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.debezium.log_places import FIRST, is_later, place_at
from airflow_lake_provider.spark_jobs.sources.debezium.operations import BEGUN, HELD, REMOVED
from airflow_lake_provider.spark_jobs.sources.debezium.redelivered_events import EVENT_ORDER
from airflow_lake_provider.spark_jobs.sources.debezium.rows import PATCH
from airflow_lake_provider.spark_jobs.sources.debezium.unavailable_values import inherit, with_parents

_BEGINS, _ENDS = ("c", "r", BEGUN), ("d", REMOVED)


@dataclass(frozen=True, kw_only=True)
class KeyOutcome:
    """Reduces lines of events.

    :param holes: columns of which the batch leaves out a value, or the table has one older than its row.
    :param has_deletes: False where no key of the lines ever ended, so none can have gone on as another.
    """

    holes: Sequence[str]
    epoch: int
    again: bool = False
    has_deletes: bool = True

    def last(self, timeline: DataFrame) -> DataFrame:
        """Return one event per key that changes: ``d``, or what a row becomes.

        :return: as ``RowBuilder`` takes it, with ``s0``... (``text``, ``types``, ``at``, ``holder``, ``place``,
            ``log_place``), ``_source_position`` and ``_lake_patch`` (only values that were left out change).
        """
        placed = _placed(timeline)
        last = _last_of_key(placed, again=self.again)
        if self.holes:
            last = last.join(self._known(placed), "key", "left")
        patch = (sf.col("op") == HELD) & self._differs()
        gone = (sf.col("op") == REMOVED) & sf.col("is_held")
        repeated = (sf.col("op") == "d") & sf.col("was_known") & ~sf.col("is_held")
        changes = last.filter((sf.col("is_new") & (sf.col("op") != BEGUN) & ~repeated) | patch | gone)
        every = sf.array(*(sf.lit(name) for name in self.holes)).cast("ARRAY<STRING>")
        return changes.select(
            "*",
            self._position().cast(POSITION_TYPE).alias(POSITION_COLUMN),
            (sf.col("op") == HELD).alias(PATCH),
        ).withColumns(
            {
                "holes": sf.when(sf.col(PATCH), every).otherwise(sf.col("holes")),
                "op": sf.when(sf.col("op").isin(*_ENDS), "d").otherwise("u"),
            }
        )

    def _differs(self) -> Column:
        """Tell whether a value that the table holds is not the newest known one any more."""
        differs = sf.lit(False)
        for i, name in enumerate(self.holes):
            state = sf.col(f"s{i}")
            mine = (state["at"] == "") & (state["holder"] == sf.col("key")) & (state["place"] == _own_place(name))
            differs = differs | ~sf.coalesce(mine, sf.lit(False))
        return differs

    def _position(self) -> Column:
        older = self._older()
        has_older = sf.size(older) > 0
        found = (sf.when(has_older, sf.col("begun")), sf.when(has_older, older))
        mine = sf.struct(sf.lit(self.epoch), *(sf.col("place")[name] for name in PLACE_FIELDS), *found)
        held = sf.col("held.position")
        kept = sf.struct(held["epoch"], *(held[name] for name in PLACE_FIELDS), *found)
        return sf.when(sf.col("op") == HELD, kept.cast(POSITION_TYPE)).otherwise(mine.cast(POSITION_TYPE))

    def _older(self) -> Column:
        entries = []
        for i, name in enumerate(self.holes):
            left_out = (sf.col("op") == HELD) | sf.array_contains("holes", name)
            is_older = left_out & (sf.col(f"s{i}.place") < sf.col("second"))
            entries.append(sf.when(is_older, sf.struct(sf.lit(name), sf.col(f"s{i}.log_place"))))
        if not entries:
            return sf.lit(None).cast(f"MAP<STRING, {PLACE_TYPE}>")
        return sf.map_from_entries(sf.array_compact(sf.array(*entries)))

    def _known(self, placed: DataFrame) -> DataFrame:
        """Return ``key`` and ``s0``...: the newest known values at the end of each line."""
        key = Window.partitionBy("key")
        states = [self._last_known(name).alias(f"s{i}") for i, name in enumerate(self.holes)]
        order = sf.struct(*EVENT_ORDER)
        states_only = [f"s{i}" for i in range(len(self.holes))]
        lives = (
            placed.withColumn("numbers", sf.max("number").over(key))
            .groupBy("key", "number", "numbers")
            .agg(
                sf.min_by(sf.struct("op", "first", "second", "old_key"), order).alias("start"),
                sf.max_by(sf.struct("op", "first", "second"), order).alias("end"),
                *states,
            )
            .select(
                sf.struct("key", "number").alias("id"),
                (sf.col("number") == sf.col("numbers")).alias("is_last"),
                sf.lit(None).cast("STRING").alias("root"),
                *("start", "end", *states_only),
            )
        )
        found = lives
        if self.has_deletes:
            parents = with_parents(lives.localCheckpoint(), None, ends=_ENDS, begins=("c", BEGUN))
            found = inherit(parents, len(self.holes), _newer)
        return found.filter("is_last").select(sf.col("id.key").alias("key"), *states_only)

    def _last_known(self, name: str) -> Column:
        sent = sf.col("op").isin("c", "r", "u") & sf.map_contains_key("after", name)
        sent = sf.coalesce(sent & ~sf.array_contains("holes", name), sf.lit(False))
        place = _own_place(name)
        # Not of a life of the key that ended before the row: then an event that is yet to come has the value.
        whole = (place >= sf.col("second")) | sf.col("boundary").isNull()
        whole = whole | (sf.col("boundary") <= sf.greatest(place, "line.since"))
        held = (sf.col("op") == HELD) & sf.coalesce(whole, sf.lit(False))
        # All events come again: what the row took over from another key counts where they do not tell it.
        untrusted = (place < sf.col("line.since")) if self.again else sf.lit(False)
        trusted = sf.when(untrusted, FIRST).otherwise(place)
        own = sf.when(untrusted, place_at(FIRST)).otherwise(_own_log_place(name))
        state = sf.struct(
            sf.when(sent, sf.element_at("after", sf.lit(name))).alias("text"),
            sf.when(sent, sf.col("types")).alias("types"),
            sf.when(held, sf.col("at")).alias("at"),
            sf.when(held, sf.col("key")).alias("holder"),
            sf.when(held, trusted).otherwise(sf.col("second")).alias("place"),
            sf.when(held, own).otherwise(sf.col("place")).alias("log_place"),
        )
        return sf.max_by(state, sf.when(sent, sf.col("second")).when(held, trusted))


def _own_place(name: str) -> Column:
    return sf.coalesce(sf.element_at("line.older", sf.lit(name)), "second")


def _own_log_place(name: str) -> Column:
    return sf.coalesce(sf.element_at("held.older", sf.lit(name)), "place")


def _newer(state: str, inherited: str) -> Column:
    mine, theirs = sf.col(state), sf.col(inherited)
    # Numbers are of one line, and the values may come from another.
    later = is_later(theirs["log_place"], mine["log_place"])
    return sf.when(mine.isNull() | later, theirs).otherwise(mine)


def _placed(timeline: DataFrame) -> DataFrame:
    """Add the life of the key that an event belongs to, where that began, and the last begin or end before."""
    key = Window.partitionBy("key").orderBy(*EVENT_ORDER)
    past = key.rowsBetween(Window.unboundedPreceding, -1)
    before, op, second = sf.lag("op").over(key), sf.col("op"), sf.col("second")
    begins = op.isin(*_BEGINS) | before.isNull() | before.isin(*_ENDS)
    return timeline.withColumns(
        {
            "boundary": sf.max(sf.when(op.isin(*_BEGINS, *_ENDS), second)).over(past),
            "begun": sf.max_by("place", sf.when(op.isin(*_BEGINS), second)).over(key),
            "begins": begins.cast("int"),
            "is_held": sf.max((op == HELD) & (sf.col("at") == "")).over(Window.partitionBy("key")),
        }
    ).withColumn("number", sf.sum("begins").over(key))


def _last_of_key(placed: DataFrame, *, again: bool) -> DataFrame:
    held = sf.col("op") == HELD
    at_one_place = held.asc() if again else held.desc()
    newest = Window.partitionBy("key").orderBy(sf.col("second").desc(), at_one_place, sf.col(ARRIVAL).desc())
    return placed.withColumn("place_in_line", sf.row_number().over(newest)).filter("place_in_line = 1")
