"""Find the positions of events in their source and in Kafka, in the one pass over them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.event_marks import EventMarks, EventOrdering
from airflow_lake_provider.contracts.mark_codec import DIGEST_BYTES, Mark
from airflow_lake_provider.contracts.offset_ranges import BUCKET, Ranges, of_bitmap, union
from airflow_lake_provider.contracts.positions import PostgresLogPosition
from airflow_lake_provider.contracts.redelivery import (
    CLOCKS_DIFFER_MS,
    NO_POSITION,
    OldEvents,
    SeenEvents,
    SeenPartition,
    SeenTimes,
)
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.debezium.sink_file_names import SinkFile
from airflow_lake_provider.spark_jobs.sql.older_pyspark import try_cast

Names = Sequence[SinkFile | None]

# Events of one life of a source, oldest first.
EVENT_ORDER = ("first", "second", ARRIVAL)
IS_EVENT = "op IS NOT NULL AND NOT bad"
_MARK = "STRUCT<first: BIGINT, second: BIGINT, moved: BOOLEAN, deleted: BOOLEAN>"
# Only such a create comes from a change of the key.
_MOVED = "op = 'c' AND size(holes) > 0"
_DELETED = "op = 'd'"
# Not of the first transaction after a snapshot, which may have been open then.
_LED = "op = 'r' OR last_commit IS NOT NULL"


def partition_label(names: Names) -> Column:
    """Return ``<topic>-<partition>`` as the record has it, else as its file's name does."""
    number = try_cast(sf.col("partition"), "bigint")
    of_record = sf.when(number.isNotNull(), sf.concat_ws("-", "topic", number))
    if not any(names):
        return of_record
    labels = json.dumps([name.label if name else None for name in names])
    # As one text: an array of literals is a node of the plan for each.
    return sf.coalesce(of_record, sf.get(sf.from_json(sf.lit(labels), "ARRAY<STRING>"), sf.col(f"{ARRIVAL}.file")))


def place_groups() -> list[Column]:
    """Return what the one pass groups by: a partition's offsets by bitmaps, or by files where only names tell any."""
    file = sf.when(sf.col("partition").isNotNull() & sf.col("offset").isNull(), sf.col(f"{ARRIVAL}.file"))
    return [sf.col("partition"), file.alias("file"), sf.expr(f"offset div {BUCKET}").alias("bucket")]


def place_columns(marks: EventMarks | None) -> list[Column]:
    """Return the aggregates that :func:`seen_events` reads.

    :param marks: what was applied before.
    """
    is_event = sf.expr(IS_EVENT)
    tops = [sf.struct("first", "second", sf.expr(flag).alias("flag")) for flag in (_MOVED, _DELETED)]
    found = [
        sf.count(sf.lit(1)).alias("lines"),
        sf.count_if(is_event & (sf.col("partition").isNull() | sf.col("offset").isNull())).alias("without_offset"),
        *(sf.max(sf.when(is_event, top)).alias(name) for top, name in zip(tops, ("moved", "deleted"), strict=True)),
        sf.max(sf.when(is_event, sf.col("ts_ms"))).alias("ts_ms"),
        sf.max(sf.when(is_event, sf.struct("first", "second", "ts_ms"))).alias("top"),
        sf.max(sf.when(is_event & (sf.col("op") != "r"), sf.col("ts_ms"))).alias("change_ts_ms"),
        sf.min(sf.when(is_event & (sf.col("op") == "r"), sf.col("ts_ms"))).alias("row_ts_ms"),
        sf.max(sf.when(is_event & sf.col("last_commit").isNotNull(), sf.col("ts_ms"))).alias("led_ts_ms"),
        _bitmap(sf.lit(True)).alias("offsets"),
    ]
    if marks is None:
        return found
    of_partition = is_event & is_old(marks, EventOrdering.PARTITION)
    of_table = is_event & is_old(marks, EventOrdering.STREAM)
    return [
        *found,
        sf.count_if(of_partition).alias("old"),
        sf.max(sf.when(of_partition, sf.col("ts_ms"))).alias("old_ts_ms"),
        sf.min(sf.when(is_event & ~of_partition, sf.col("ts_ms"))).alias("newer_ts_ms"),
        sf.min(sf.when(is_event & ~of_table, sf.col("ts_ms"))).alias("newer_of_table_ts_ms"),
        _bitmap(of_partition).alias("old_offsets"),
        sf.count_if(of_table).alias("old_of_table"),
        sf.max(sf.when(of_table, sf.col("ts_ms"))).alias("old_of_table_ts_ms"),
        sf.max(sf.when(of_table & sf.expr(_LED), sf.col("ts_ms"))).alias("old_led_ts_ms"),
        sf.count_if(is_event & is_old(marks, EventOrdering.KEY)).alias("unkeyed"),
    ]


def is_old(marks: EventMarks, ordering: EventOrdering) -> Column:
    """Tell events that are below the mark of their partition, or of the whole table."""
    of_table = marks.key_floor[0] if ordering is EventOrdering.KEY else marks.greatest
    floor = _literal(_plain(of_table), _MARK)
    if ordering is EventOrdering.PARTITION:
        partitions = {digest: _plain(mark) for digest, mark in marks.partitions.items()}
        digest = sf.substring(sf.sha2("partition", 256), 1, 2 * DIGEST_BYTES)
        own = sf.try_element_at(_literal(partitions, f"MAP<STRING, {_MARK}>"), digest)
        floor = sf.coalesce(own, _literal(_plain(marks.table), _MARK))
    at, of_mark = sf.struct("first", "second"), sf.struct(floor["first"], floor["second"])
    same = (floor["moved"] & sf.expr(_MOVED)) | (floor["deleted"] & sf.expr(_DELETED))
    return sf.coalesce(floor.isNotNull() & ((at < of_mark) | ((at == of_mark) & same)), sf.lit(False))


def seen_events(groups: Iterable[Mapping[str, Any]], names: Names) -> SeenEvents:
    """Put the groups of the pass together.

    :param groups: with ``partition``, ``file``, ``bucket`` and the aggregates of :func:`place_columns`.
    """
    partitions: dict[str | None, SeenPartition] = {}
    unplaced, unkeyed, old, newer = 0, 0, OldEvents(), None
    for group in groups:
        name = names[group["file"]] if group["file"] is not None and names else None
        if name is not None and name.label != group["partition"]:
            name = None
        unplaced += 0 if name else group["without_offset"]
        old += OldEvents(
            count=group.get("old_of_table", 0),
            ts_ms=group.get("old_of_table_ts_ms"),
            led_ts_ms=group.get("old_led_ts_ms"),
        )
        unkeyed += group.get("unkeyed", 0)
        newer = _least(newer, group.get("newer_of_table_ts_ms"))
        before = partitions.get(group["partition"], SeenPartition())
        mark = _mark(group, name)
        partitions[group["partition"]] = SeenPartition(
            mark=before.mark.merged(mark) if before.mark else mark,
            old=before.old + _old(group, name),
            newer_ts_ms=_least(before.newer_ts_ms, group.get("newer_ts_ms")),
            times=before.times + _times(group),
        )
    placed = {
        label: replace(part, old=replace(part.old, offsets=union(part.old.offsets)))
        for label, part in partitions.items()
        if label is not None or (part.mark and part.mark.position != NO_POSITION)
    }
    return SeenEvents(partitions=placed, unplaced=unplaced, old=old, newer_ts_ms=newer, unkeyed=unkeyed)


def _least(*times: int | None) -> int | None:
    return min((ts for ts in times if ts is not None), default=None)


def _mark(group: Mapping[str, Any], name: SinkFile | None) -> Mark:
    consumed = _of_file(group, name) if name else _offsets(group, "offsets")
    moved, deleted = group["moved"], group["deleted"]
    if moved is None or moved["first"] is None or moved["second"] is None:
        return Mark(position=NO_POSITION, consumed=consumed)
    return Mark(
        position=PostgresLogPosition(moved["first"], moved["second"]),
        ts_ms=group["ts_ms"],
        moved=bool(moved["flag"]),
        deleted=bool(deleted["flag"]),
        consumed=consumed,
        since_ms=_since(group),
    )


def _since(group: Mapping[str, Any]) -> int | None:
    """Return a time before which nothing above the group's positions was committed.

    The rows of a snapshot are read for hours, and later changes are committed meanwhile: its first row counts.
    """
    first_row = group["row_ts_ms"]
    times = (group["change_ts_ms"], None if first_row is None else first_row - CLOCKS_DIFFER_MS)
    return max((ts for ts in times if ts is not None), default=None)


def _times(group: Mapping[str, Any]) -> SeenTimes:
    top = group["top"]
    if top is None or top["first"] is None or top["second"] is None:
        return SeenTimes()
    return SeenTimes(
        top=PostgresLogPosition(top["first"], top["second"]),
        top_ts_ms=top["ts_ms"],
        newest_ts_ms=group["change_ts_ms"],
        led_ts_ms=group["led_ts_ms"],
    )


def _old(group: Mapping[str, Any], name: SinkFile | None) -> OldEvents:
    count = group.get("old", 0)
    if not count:
        return OldEvents()
    # Which of a file's lines has which offset is not known, so all of its lines count.
    offsets = _of_file(group, name) if name else _offsets(group, "old_offsets")
    return OldEvents(count=count, ts_ms=group["old_ts_ms"], offsets=offsets)


def _of_file(group: Mapping[str, Any], name: SinkFile) -> Ranges:
    # Sinks may leave out records without a value: a file reaches at least as far as it has lines.
    return ((name.first, name.last if name.last is not None else name.first + group["lines"] - 1),)


def _offsets(group: Mapping[str, Any], name: str) -> Ranges:
    bitmap = group.get(name)
    return of_bitmap(group["bucket"], bytes(bitmap)) if bitmap is not None else ()


def _bitmap(wanted: Column) -> Column:
    place = sf.when(wanted, sf.col("offset") % BUCKET)
    # An empty one is 4 KB, too.
    return sf.when(sf.count(place) > 0, sf.bitmap_construct_agg(place))


def _plain(mark: Mark | None) -> dict[str, Any] | None:
    if mark is None:
        return None
    first, second = mark.position.to_plain()
    return {"first": first, "second": second, "moved": mark.moved, "deleted": mark.deleted}


def _literal(value: Any, kind: str) -> Column:
    return sf.from_json(sf.lit(json.dumps(value)), kind)
