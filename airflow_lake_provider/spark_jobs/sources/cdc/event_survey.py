"""One pass over the events of a batch: what is wrong with them, and which columns they have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.event_marks import EventMarks
from airflow_lake_provider.contracts.applied.log_positions import TuplePosition
from airflow_lake_provider.contracts.applied.redelivery import EventPositions
from airflow_lake_provider.spark_jobs.sources.cdc.events import CREATE, DELETE, UPDATE, op_is
from airflow_lake_provider.spark_jobs.sources.cdc.redelivered_events import (
    IS_EVENT,
    event_positions,
    highest,
    survey_columns,
    survey_groups,
)
from airflow_lake_provider.spark_jobs.sources.cdc.sink_file_names import Names


@dataclass(frozen=True, kw_only=True)
class EventSurvey:
    """Findings of one pass over the events.

    :param events: change events of the table.
    :param tables: full names of the tables that they are of.
    :param columns: names in their images, in the events' order.
    :param hole_columns: those of them that have an unavailable value somewhere.
    :param ambiguous_columns: those with a text that may be a number, or bytes of one.
    :param types: texts by which events tell the types of their columns; ``typeless``: events without one.
    :param key_changes: events that tell the other key of a key change; ``key_change_deletes``: deletes among them.
    :param creates_with_holes: creates with an unavailable value, which only those of key changes have.
    :param ends_with_delete: whether a delete without a create stands at the greatest position.
    :param record_keys: the columns of the records' keys, each combination once; an empty one for records without key.
    :param positions: of the events, in the log and in Kafka.
    """

    events: int
    bad_lines: int
    unsequenced: int
    operations: frozenset[str]
    tables: tuple[str, ...]
    keys_changed: int
    columns: tuple[str, ...]
    hole_columns: tuple[str, ...]
    ambiguous_columns: tuple[str, ...]
    types: tuple[str, ...]
    typeless: int
    key_changes: int = 0
    key_change_deletes: int = 0
    creates_with_holes: int = 0
    ends_with_delete: bool = False
    record_keys: tuple[tuple[str, ...], ...] = ()
    positions: EventPositions = field(default_factory=EventPositions)

    def may_be_cut(self, *, is_whole: bool) -> bool:
        """Tell whether a delete may be half of a key change whose other half is not there.

        :param is_whole: whether none of the events was left out since.
        """
        if DELETE not in self.operations:
            return False
        # Where events tell their key changes, a delete that tells none is none.
        return self.key_change_deletes > 0 if self.key_changes else self.ends_with_delete or not is_whole

    def without(self, excluded: Sequence[str]) -> EventSurvey:
        """Return the same without these columns; names are compared without case."""
        gone = {name.lower() for name in excluded}
        return replace(
            self,
            columns=tuple(name for name in self.columns if name.lower() not in gone),
            hole_columns=tuple(name for name in self.hole_columns if name.lower() not in gone),
        )


def survey(events: DataFrame, log: type[TuplePosition], names: Names, marks: EventMarks | None) -> EventSurvey:
    """Look through all events in one job, which fills the cache of ``events``.

    :param events: see ``event_columns``.
    :param log: kind of the places of the events.
    :param names: what the name of each file tells.
    :param marks: what was applied before.
    """
    moved = (
        op_is(UPDATE) & ~sf.exists("key_before", lambda text: text.isNull()) & (sf.col("key_before") != sf.col("key"))
    )
    is_event = sf.expr(IS_EVENT)
    grouped = events.groupBy(*survey_groups()).agg(
        *survey_columns(marks, log),
        sf.count_if(is_event).alias("events"),
        sf.count_if("bad").alias("bad_lines"),
        sf.count_if(is_event & _unsequenced()).alias("unsequenced"),
        sf.collect_set("op").alias("operations"),
        sf.collect_set(sf.when(is_event, sf.col("table"))).alias("tables"),
        sf.count_if(moved).alias("keys_changed"),
        sf.collect_set("image").alias("images"),
        sf.array_distinct(sf.flatten(sf.collect_set("holes"))).alias("hole_columns"),
        sf.array_distinct(sf.flatten(sf.collect_set("ambiguous"))).alias("ambiguous_columns"),
        sf.collect_set("types").alias("types"),
        sf.count_if(is_event & sf.col("types").isNull()).alias("typeless"),
        sf.collect_set("record_key").alias("record_keys"),
        sf.count_if(is_event & sf.coalesce("new_key", "old_key").isNotNull()).alias("key_changes"),
        sf.count_if(is_event & sf.col("new_key").isNotNull()).alias("key_change_deletes"),
        sf.count_if(is_event & op_is(CREATE) & (sf.size("holes") > 0)).alias("creates_with_holes"),
        highest(op_is(CREATE)).alias("highest_create"),
    )
    groups = [row.asDict() for row in grouped.collect()]
    return _survey(groups, event_positions(groups, names, log))


def _unsequenced() -> Column:
    return sf.col("position").isNull() | sf.col("ordinal").isNull()


def _survey(groups: Sequence[dict[str, Any]], positions: EventPositions) -> EventSurvey:
    images = sorted(_all_of(groups, "images"), key=lambda names: (-len(names), names))
    of_lines = ("events", "bad_lines", "unsequenced", "keys_changed", "typeless")
    counts = (*of_lines, "key_changes", "key_change_deletes", "creates_with_holes")
    return EventSurvey(
        operations=frozenset(_all_of(groups, "operations")),
        tables=tuple(sorted(_all_of(groups, "tables"))),
        columns=tuple(dict.fromkeys(name for names in images for name in names)),
        hole_columns=tuple(sorted(_all_of(groups, "hole_columns"))),
        ambiguous_columns=tuple(sorted(_all_of(groups, "ambiguous_columns"))),
        types=tuple(sorted(_all_of(groups, "types"))),
        record_keys=tuple(sorted(_all_of(groups, "record_keys"))),
        positions=positions,
        ends_with_delete=_at_the_end(groups, "highest_delete") and not _at_the_end(groups, "highest_create"),
        **{count: sum(group[count] for group in groups) for count in counts},
    )


def _at_the_end(groups: Sequence[dict[str, Any]], name: str) -> bool:
    """Tell whether an event for which a flag is true stands at the greatest position of all groups."""
    highest_events = [group[name] for group in groups]
    placed = [event for event in highest_events if event is not None and event["position"] is not None]
    return bool(placed and max(placed)["flag"])


def _all_of(groups: Sequence[dict[str, Any]], name: str) -> set[Any]:
    items = (item for group in groups for item in group[name])
    return {tuple(item) if isinstance(item, list) else item for item in items}
