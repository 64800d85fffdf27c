"""One pass over the events of a batch: what is wrong with them, and which columns they have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.event_marks import EventMarks
from airflow_lake_provider.contracts.applied.redelivery import EventPositions
from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.sources.arrival_order import describe_first
from airflow_lake_provider.spark_jobs.sources.cdc.redelivered_events import (
    IS_EVENT,
    event_positions,
    survey_columns,
    survey_groups,
)
from airflow_lake_provider.spark_jobs.sources.cdc.sink_file_names import Names
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.envelope import mark_bad
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.values import ConnectType, parse_types


@dataclass(frozen=True, kw_only=True)
class EventSurvey:
    """Findings of one pass over the events.

    :param events: change events of the table.
    :param columns: names in their images, in the events' order.
    :param hole_columns: those of them that have an unavailable value somewhere.
    :param connect_types: by text of the connect schema, each column's connect type.
    :param key_changes: events whose header tells a changed key; ``key_change_deletes``: deletes among them.
    :param ends_with_delete: whether a delete without a create stands at the greatest position.
    :param record_keys: the columns of the records' keys, each combination once; an empty one for records without key.
    :param positions: of the events, in the log and in Kafka.
    """

    events: int
    bad_lines: int
    unsequenced: int
    operations: frozenset[str]
    keys_changed: int
    columns: tuple[str, ...]
    hole_columns: tuple[str, ...]
    connect_types: dict[str, dict[str, ConnectType]]
    schemaless: int
    key_changes: int = 0
    key_change_deletes: int = 0
    ends_with_delete: bool = False
    record_keys: tuple[tuple[str, ...], ...] = ()
    positions: EventPositions = field(default_factory=EventPositions)

    def may_be_cut(self, *, is_whole: bool) -> bool:
        """Tell whether a delete may be half of a key change whose other half is not there.

        :param is_whole: whether none of the events was left out since.
        """
        if "d" not in self.operations:
            return False
        # Where headers tell key changes, a delete without one is none.
        return self.key_change_deletes > 0 if self.key_changes else self.ends_with_delete or not is_whole

    def without(self, excluded: Sequence[str]) -> EventSurvey:
        """Return the same without these columns; names are compared without case."""
        gone = {name.lower() for name in excluded}
        return replace(
            self,
            columns=tuple(name for name in self.columns if name.lower() not in gone),
            hole_columns=tuple(name for name in self.hole_columns if name.lower() not in gone),
        )


def survey(events: DataFrame, names: Names = (), marks: EventMarks | None = None) -> EventSurvey:
    """Look through all events in one job, which fills the cache of ``events``.

    :param events: see ``debezium_lines.read_events``.
    :param names: what the name of each file tells.
    :param marks: what was applied before.
    """
    moved = (
        (sf.col("op") == "u")
        & ~sf.exists("key_before", lambda text: text.isNull())
        & (sf.col("key_before") != sf.col("key"))
    )
    is_event = sf.expr(IS_EVENT)
    grouped = events.groupBy(*survey_groups()).agg(
        *survey_columns(marks),
        sf.count_if(is_event).alias("events"),
        sf.count_if("bad").alias("bad_lines"),
        sf.count_if(is_event & _unsequenced()).alias("unsequenced"),
        sf.collect_set("op").alias("operations"),
        sf.count_if(moved).alias("keys_changed"),
        sf.collect_set("image").alias("images"),
        sf.array_distinct(sf.flatten(sf.collect_set("holes"))).alias("hole_columns"),
        sf.collect_set("types").alias("types"),
        sf.count_if(is_event & sf.col("types").isNull()).alias("schemaless"),
        sf.collect_set("record_key").alias("record_keys"),
        sf.count_if(is_event & sf.coalesce("new_key", "old_key").isNotNull()).alias("key_changes"),
        sf.count_if(is_event & sf.col("new_key").isNotNull()).alias("key_change_deletes"),
        sf.max(sf.when(is_event, sf.struct("first", "second", sf.expr("op = 'c'").alias("flag")))).alias("created"),
    )
    groups = [row.asDict() for row in grouped.collect()]
    return _survey(groups, event_positions(groups, names))


def _unsequenced() -> Column:
    return sf.col("first").isNull() | sf.col("second").isNull()


def _survey(groups: Sequence[dict[str, Any]], positions: EventPositions) -> EventSurvey:
    images = sorted(_all_of(groups, "images"), key=lambda names: (-len(names), names))
    counts = ("events", "bad_lines", "unsequenced", "keys_changed", "schemaless", "key_changes", "key_change_deletes")
    return EventSurvey(
        operations=frozenset(_all_of(groups, "operations")),
        columns=tuple(dict.fromkeys(name for names in images for name in names)),
        hole_columns=tuple(sorted(_all_of(groups, "hole_columns"))),
        connect_types={text: parse_types(text) for text in sorted(_all_of(groups, "types"))},
        record_keys=tuple(sorted(_all_of(groups, "record_keys"))),
        positions=positions,
        ends_with_delete=_at_the_end(groups, "deleted") and not _at_the_end(groups, "created"),
        **{count: sum(group[count] for group in groups) for count in counts},
    )


def _at_the_end(groups: Sequence[dict[str, Any]], name: str) -> bool:
    """Tell whether an event for which a flag is true stands at the greatest position of all groups."""
    greatest = [place for place in (group[name] for group in groups) if place is not None and None not in place]
    return bool(greatest and max(greatest)["flag"])


def _all_of(groups: Sequence[dict[str, Any]], name: str) -> set[Any]:
    items = (item for group in groups for item in group[name])
    return {tuple(item) if isinstance(item, list) else item for item in items}


def refuse_bad_events(
    spark: SparkSession, facts: EventSurvey, source: Debezium, files: tuple[InputFile, ...], keys: Sequence[str]
) -> None:
    """Refuse what cannot be applied.

    :param files: the files that were read, to say where a bad line stands.
    :raises BadInputError: lines that are no change events, events without an order, keys that are not the stream's,
        updates that move a key.
    :raises UnsupportedError: truncations, and operations this package does not know.
    """
    table = source.table
    if facts.bad_lines:
        place = describe_first(mark_bad(spark, source, files), sf.col("bad"), files)
        raise BadInputError(
            f"{facts.bad_lines} lines are no Debezium change events, which are JSON with op and source.table: {place}"
        )
    if "t" in facts.operations:
        raise UnsupportedError(
            f"the events of {table} hold a truncation (op 't'), which an upsert cannot apply. Set skipped.operations=t "
            "in the connector, so that there are no more. To go on, take a new snapshot with the connector, delete the "
            "table's rows, and give the source a new name and the new files only, by another path or folder"
        )
    unknown = sorted(facts.operations - set("crud"))
    if unknown:
        raise BadInputError(f"events of {table} have the operations {unknown}; known ones are c, r, u, d, m and t")
    if facts.unsequenced:
        raise BadInputError(
            f"{facts.unsequenced} of {facts.events} events of {table} have no source.sequence with two positions, "
            "which orders them; the PostgreSQL connector writes it, other connectors are not supported yet"
        )
    _refuse_other_keys(facts, source, keys)
    if facts.keys_changed:
        raise BadInputError(
            f"{facts.keys_changed} updates of {table} change the key columns; the connector splits such an update into "
            "a delete and a create only for the primary key, so give the primary key as keys"
        )


def _refuse_other_keys(facts: EventSurvey, source: Debezium, keys: Sequence[str]) -> None:
    """Refuse keys that do not tell the rows of the source apart, where the records say which columns do."""
    table = source.table
    if source.key_field_name in facts.columns:
        raise BadInputError(
            f"rows of {table} have a column {source.key_field_name}, so it is no field that a transform adds to the "
            "key, as key_field_name says of it; give key_field_name the name of that field, or leave it out"
        )
    if () in facts.record_keys:
        raise BadInputError(
            f"events of {table} have no key: the source table has no primary key, so several of its rows may be equal "
            f"in {list(keys)}, and an upsert would make one of them. REPLICA IDENTITY FULL does not help. Give the "
            "table a primary key, or name columns that are unique in the connector's message.key.columns"
        )
    others = [names for names in facts.record_keys if set(names) != set(keys)]
    added = sorted({name for names in others for name in names} - set(facts.columns))
    if added:
        raise BadInputError(
            f"events of {table} are keyed by {list(others[0])}, and their rows have no {added}. Where a transform adds "
            f"it to the key, such as ByLogicalTableRouter, give the source key_field_name={added[0]!r}. Where the "
            "connector leaves the column out of the rows, let it send the column: the rows have no key without it"
        )
    if others:
        raise BadInputError(
            f"events of {table} are keyed by {list(others[0])}, and keys are {list(keys)}, which would make one row of "
            f"several, or several of one; give keys={list(others[0])}"
        )
