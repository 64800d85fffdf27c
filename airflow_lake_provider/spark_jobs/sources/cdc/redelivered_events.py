"""Find events that were delivered again, by their positions in the source's log and in Kafka.

Positions are aggregates of the one pass over a batch.

``first`` and ``second`` are the two numbers of PostgreSQL's ``source.sequence``: the LSN of the last commit before the
event, or the event's own where there was none yet, and the LSN of the event.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.event_marks import (
    BUCKET,
    DIGEST_BYTES,
    EventMarks,
    EventOrdering,
    Mark,
    Ranges,
    of_bitmap,
    union,
)
from airflow_lake_provider.contracts.applied.log_positions import PairPosition
from airflow_lake_provider.contracts.applied.redelivery import (
    CLOCKS_DIFFER_MS,
    CommitTimes,
    EventPositions,
    EventsBelowMark,
    PartitionEvents,
)
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.cdc.events import READ, op_is
from airflow_lake_provider.spark_jobs.sources.cdc.sink_file_names import Names, SinkFile

IS_EVENT = "op IS NOT NULL AND NOT bad"
_MARK = "STRUCT<first: BIGINT, second: BIGINT, moved: BOOLEAN, deleted: BOOLEAN>"
# Of creates, only the second half of a key change leaves out values.
_MOVED = "op = 'c' AND size(holes) > 0"
_DELETED = "op = 'd'"
# The first transaction after a snapshot names no last commit. It may have been open when the snapshot was read.
_AFTER_COMMIT = "op = 'r' OR last_commit IS NOT NULL"


def survey_groups() -> list[Column]:
    """Return the columns to group by: partition, and range of offsets; or file, where only file names have offsets."""
    file = sf.when(sf.col("partition").isNotNull() & sf.col("offset").isNull(), sf.col(f"{ARRIVAL}.file"))
    return [sf.col("partition"), file.alias("file"), sf.expr(f"offset div {BUCKET}").alias("bucket")]


def survey_columns(marks: EventMarks | None) -> list[Column]:
    """Return the aggregates that :func:`event_positions` reads.

    :param marks: of the table; None where nothing was applied before.
    """
    is_event = sf.expr(IS_EVENT)
    tops = [sf.struct("first", "second", sf.expr(flag).alias("flag")) for flag in (_MOVED, _DELETED)]
    columns = [
        sf.count(sf.lit(1)).alias("lines"),
        sf.count_if(is_event & (sf.col("partition").isNull() | sf.col("offset").isNull())).alias("without_offset"),
        *(sf.max(sf.when(is_event, top)).alias(name) for top, name in zip(tops, ("moved", "deleted"), strict=True)),
        sf.max(sf.when(is_event, sf.col("ts_ms"))).alias("ts_ms"),
        sf.max(sf.when(is_event, sf.struct("first", "second", "ts_ms"))).alias("top"),
        sf.max(sf.when(is_event & ~op_is(READ), sf.col("ts_ms"))).alias("change_ts_ms"),
        sf.min(sf.when(is_event & op_is(READ), sf.col("ts_ms"))).alias("row_ts_ms"),
        sf.max(sf.when(is_event & sf.col("last_commit").isNotNull(), sf.col("ts_ms"))).alias("after_commit_ts_ms"),
        _bitmap(sf.lit(True)).alias("offsets"),
    ]
    if marks is None:
        return columns
    of_partition = is_event & is_below_mark(marks, EventOrdering.PARTITION)
    of_table = is_event & is_below_mark(marks, EventOrdering.STREAM)
    return [
        *columns,
        sf.count_if(of_partition).alias("below_mark"),
        sf.max(sf.when(of_partition, sf.col("ts_ms"))).alias("below_mark_ts_ms"),
        sf.min(sf.when(is_event & ~of_partition, sf.col("ts_ms"))).alias("above_mark_ts_ms"),
        sf.min(sf.when(is_event & ~of_table, sf.col("ts_ms"))).alias("above_table_mark_ts_ms"),
        _bitmap(of_partition).alias("below_mark_offsets"),
        sf.count_if(of_table).alias("below_table_mark"),
        sf.max(sf.when(of_table, sf.col("ts_ms"))).alias("below_table_mark_ts_ms"),
        sf.max(sf.when(of_table & sf.expr(_AFTER_COMMIT), sf.col("ts_ms"))).alias(
            "below_table_mark_after_commit_ts_ms"
        ),
        sf.count_if(is_event & is_below_mark(marks, EventOrdering.KEY)).alias("below_key_floor"),
    ]


def is_below_mark(marks: EventMarks, ordering: EventOrdering) -> Column:
    """Return whether an event is below the mark of its partition, or of the table, depending on the ordering.

    A key change and a delete are below the mark at its own position too: one record of the log makes only one of each.
    """
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


def event_positions(groups: Iterable[Mapping[str, Any]], names: Names, log: type[PairPosition]) -> EventPositions:
    """Return the positions of all groups.

    :param groups: rows with ``partition``, ``file``, ``bucket`` and the aggregates of :func:`survey_columns`.
    :param log: kind of their places.
    """
    partitions: dict[str | None, PartitionEvents] = {}
    without_offset, below_key_floor, below_mark, oldest_above = 0, 0, EventsBelowMark(), None
    for group in groups:
        name = names[group["file"]] if group["file"] is not None and names else None
        if name is not None and name.label != group["partition"]:
            name = None
        without_offset += 0 if name else group["without_offset"]
        below_mark += EventsBelowMark(
            count=group.get("below_table_mark", 0),
            ts_ms=group.get("below_table_mark_ts_ms"),
            after_commit_ts_ms=group.get("below_table_mark_after_commit_ts_ms"),
        )
        below_key_floor += group.get("below_key_floor", 0)
        oldest_above = _least(oldest_above, group.get("above_table_mark_ts_ms"))
        before = partitions.get(group["partition"], PartitionEvents())
        mark = _mark(group, name, log)
        partitions[group["partition"]] = PartitionEvents(
            mark=before.mark.merged(mark) if before.mark else mark,
            below_mark=before.below_mark + _below_mark(group, name),
            above_mark_ts_ms=_least(before.above_mark_ts_ms, group.get("above_mark_ts_ms")),
            times=before.times + _times(group, log),
        )
    placed = {
        label: replace(part, below_mark=replace(part.below_mark, offsets=union(part.below_mark.offsets)))
        for label, part in partitions.items()
        if label is not None or (part.mark and part.mark.is_of_events)
    }
    return EventPositions(
        partitions=placed,
        without_offset=without_offset,
        below_mark=below_mark,
        above_mark_ts_ms=oldest_above,
        below_key_floor=below_key_floor,
    )


def _least(*times: int | None) -> int | None:
    return min((ts for ts in times if ts is not None), default=None)


def _mark(group: Mapping[str, Any], name: SinkFile | None, log: type[PairPosition]) -> Mark:
    consumed = _of_file(group, name) if name else _offsets(group, "offsets")
    moved, deleted = group["moved"], group["deleted"]
    if moved is None or moved["first"] is None or moved["second"] is None:
        return Mark(position=log.before_all(), consumed=consumed)
    return Mark(
        position=log(moved["first"], moved["second"]),
        ts_ms=group["ts_ms"],
        moved=bool(moved["flag"]),
        deleted=bool(deleted["flag"]),
        consumed=consumed,
        since_ms=_since(group),
    )


def _since(group: Mapping[str, Any]) -> int | None:
    """Return a time such that whatever stands above the group's positions was committed after it.

    Rows of a snapshot are read for hours, while later changes are committed. So the first of its rows counts.
    """
    first_row = group["row_ts_ms"]
    times = (group["change_ts_ms"], None if first_row is None else first_row - CLOCKS_DIFFER_MS)
    return max((ts for ts in times if ts is not None), default=None)


def _times(group: Mapping[str, Any], log: type[PairPosition]) -> CommitTimes:
    top = group["top"]
    if top is None or top["first"] is None or top["second"] is None:
        return CommitTimes()
    return CommitTimes(
        highest=log(top["first"], top["second"]),
        highest_ts_ms=top["ts_ms"],
        newest_ts_ms=group["change_ts_ms"],
        after_commit_ts_ms=group["after_commit_ts_ms"],
    )


def _below_mark(group: Mapping[str, Any], name: SinkFile | None) -> EventsBelowMark:
    count = group.get("below_mark", 0)
    if not count:
        return EventsBelowMark()
    # A file name has the first offset only, so all lines of the file count.
    offsets = _of_file(group, name) if name else _offsets(group, "below_mark_offsets")
    return EventsBelowMark(count=count, ts_ms=group["below_mark_ts_ms"], offsets=offsets)


def _of_file(group: Mapping[str, Any], name: SinkFile) -> Ranges:
    # Sinks may leave out records without a value, so the file may reach further than it has lines.
    return ((name.first, name.last if name.last is not None else name.first + group["lines"] - 1),)


def _offsets(group: Mapping[str, Any], name: str) -> Ranges:
    bitmap = group.get(name)
    return of_bitmap(group["bucket"], bytes(bitmap)) if bitmap is not None else ()


def _bitmap(wanted: Column) -> Column:
    place = sf.when(wanted, sf.col("offset") % BUCKET)
    # An empty bitmap would take 4 KB.
    return sf.when(sf.count(place) > 0, sf.bitmap_construct_agg(place))


def _plain(mark: Mark | None) -> dict[str, Any] | None:
    if mark is None:
        return None
    first, second = mark.position.to_plain()
    return {"first": first, "second": second, "moved": mark.moved, "deleted": mark.deleted}


def _literal(value: Any, kind: str) -> Column:
    return sf.from_json(sf.lit(json.dumps(value)), kind)
