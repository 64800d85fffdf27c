"""Redelivered events: which of a batch stand below the marks of what was applied, by place in the log and in Kafka.

A stream that starts again sends events again, at new offsets, and a sink may write a file again. A table keeps marks
of what was applied (``contracts/applied/event_marks.py``). Here one pass over a batch measures its positions and counts
what is below the marks. ``contracts/applied/redelivery.py`` decides by these numbers what is dropped or refused.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
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
from airflow_lake_provider.contracts.applied.log_positions import TuplePosition
from airflow_lake_provider.contracts.applied.redelivery import (
    CLOCKS_DIFFER_MS,
    CommitTimes,
    EventPositions,
    EventsBelowMark,
    PartitionEvents,
)
from airflow_lake_provider.contracts.applied.stream_remedies import StreamRemedies
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.cdc.events import CREATE, DELETE, READ, op_is
from airflow_lake_provider.spark_jobs.sources.cdc.sink_file_names import Names, SinkFile

IS_EVENT = "op IS NOT NULL AND NOT bad"


def refuse_other_log(marks: EventMarks | None, log: type[TuplePosition], table: str, remedies: StreamRemedies) -> None:
    """Refuse events of another kind of log than what was applied: no mark says which of them are new.

    :raises BadInputError: with both kinds.
    """
    applied = marks.log if marks is not None else None
    if applied is not None and applied.kind != log.kind:
        raise BadInputError(
            f"what was applied of {table} has places of the log {applied.kind}, and these events have places "
            f"of the log {log.kind}. Nothing orders the ones among the others. {remedies.start_anew}; a table whose "
            "rows keep positions (ordering='key') is made anew. Nothing was applied"
        )


def survey_groups() -> list[Column]:
    """Return the columns to group by: partition, and range of offsets; or file, where only file names have offsets."""
    file = sf.when(sf.col("partition").isNotNull() & sf.col("offset").isNull(), sf.col(f"{ARRIVAL}.file"))
    return [sf.col("partition"), file.alias("file"), sf.expr(f"offset div {BUCKET}").alias("bucket")]


def survey_columns(marks: EventMarks | None, log: type[TuplePosition]) -> list[Column]:
    """Return the aggregates that :func:`event_positions` reads.

    :param marks: of the table; None where nothing was applied before.
    :param log: kind of the places.
    """
    is_event = sf.expr(IS_EVENT)
    has_offset = sf.col("partition").isNotNull() & sf.col("offset").isNotNull()
    columns = [
        sf.count(sf.lit(1)).alias("lines"),
        sf.count_if(is_event & ~has_offset).alias("without_offset"),
        # The greatest place, with whether such an event stands there.
        highest(_is_key_change()).alias("highest_key_change"),
        highest(op_is(DELETE)).alias("highest_delete"),
        # The greatest place, with its time.
        sf.max(sf.when(is_event, sf.struct("position", "ts_ms"))).alias("highest"),
        _latest(is_event).alias("ts_ms"),
        _latest(is_event & ~op_is(READ)).alias("change_ts_ms"),
        _earliest(is_event & op_is(READ)).alias("snapshot_ts_ms"),
        _latest(is_event & sf.col("last_commit").isNotNull()).alias("after_commit_ts_ms"),
        _offset_bitmap(sf.lit(True)).alias("offsets"),
    ]
    return columns if marks is None else [*columns, *_below_and_above(marks, log)]


def _below_and_above(marks: EventMarks, log: type[TuplePosition]) -> list[Column]:
    """Return the aggregates of events below a mark, and above: of their partition's, of the table's."""
    is_event = sf.expr(IS_EVENT)
    below = is_event & is_below_mark(marks, EventOrdering.PARTITION, log)
    below_table = is_event & is_below_mark(marks, EventOrdering.STREAM, log)
    # The first transaction after a snapshot names no last commit. It may have been open when the snapshot was read.
    after_commit = op_is(READ) | sf.col("last_commit").isNotNull()
    return [
        sf.count_if(below).alias("below_mark"),
        _latest(below).alias("below_mark_ts_ms"),
        _earliest(is_event & ~below).alias("above_mark_ts_ms"),
        _earliest(is_event & ~below_table).alias("above_table_mark_ts_ms"),
        _offset_bitmap(below).alias("below_mark_offsets"),
        sf.count_if(below_table).alias("below_table_mark"),
        _latest(below_table).alias("below_table_mark_ts_ms"),
        _latest(below_table & after_commit).alias("below_table_mark_after_commit_ts_ms"),
        sf.count_if(is_event & is_below_mark(marks, EventOrdering.KEY, log)).alias("below_key_floor"),
    ]


def highest(is_such: Column) -> Column:
    """Return the greatest place of all events, with ``flag``: whether such an event stands there."""
    return sf.max(sf.when(sf.expr(IS_EVENT), sf.struct("position", is_such.alias("flag"))))


def _latest(wanted: Column) -> Column:
    return sf.max(sf.when(wanted, sf.col("ts_ms")))


def _earliest(wanted: Column) -> Column:
    return sf.min(sf.when(wanted, sf.col("ts_ms")))


def _is_key_change() -> Column:
    """Return whether an event is the create of a key change: no other create leaves out values."""
    return op_is(CREATE) & (sf.size("holes") > 0)


def is_below_mark(marks: EventMarks, ordering: EventOrdering, log: type[TuplePosition]) -> Column:
    """Return whether an event was applied before, by its place: below the mark of its partition, or of the table.

    At the mark's own place only a delete counts, and the create of a key change, where the mark has noted one. One
    record of the log makes at most one of each, so it is the same one that comes again.
    """
    of_table = marks.key_floor[0] if ordering is EventOrdering.KEY else marks.greatest
    kind = f"STRUCT<position: {log.sql_type()}, moved: BOOLEAN, deleted: BOOLEAN>"
    mark = _literal(_mark_fields(of_table, log), kind)
    if ordering is EventOrdering.PARTITION:
        partitions = {digest: _mark_fields(each, log) for digest, each in marks.partitions.items()}
        digest = sf.substring(sf.sha2("partition", 256), 1, 2 * DIGEST_BYTES)
        own = sf.try_element_at(_literal(partitions, f"MAP<STRING, {kind}>"), digest)
        mark = sf.coalesce(own, _literal(_mark_fields(marks.table, log), kind))
    place, at_mark = sf.col("position"), mark["position"]
    is_same = (mark["moved"] & _is_key_change()) | (mark["deleted"] & op_is(DELETE))
    return sf.coalesce(mark.isNotNull() & ((place < at_mark) | ((place == at_mark) & is_same)), sf.lit(False))


def event_positions(groups: Sequence[Mapping[str, Any]], names: Names, log: type[TuplePosition]) -> EventPositions:
    """Return the positions of all groups.

    :param groups: rows with ``partition``, ``file``, ``bucket`` and the aggregates of :func:`survey_columns`.
    :param log: kind of their places.
    """
    by_label: dict[str | None, list[Mapping[str, Any]]] = defaultdict(list)
    for group in groups:
        by_label[group["partition"]].append(group)
    partitions = {label: _partition(of_label, names, log) for label, of_label in by_label.items()}
    return EventPositions(
        partitions={
            label: part
            for label, part in partitions.items()
            if label is not None or (part.mark and part.mark.is_of_events)
        },
        without_offset=sum(0 if _file_of(group, names) else group["without_offset"] for group in groups),
        below_mark=sum(map(_below_table_mark, groups), EventsBelowMark()),
        above_mark_ts_ms=_least(*(group.get("above_table_mark_ts_ms") for group in groups)),
        below_key_floor=sum(group.get("below_key_floor", 0) for group in groups),
    )


def _partition(groups: Sequence[Mapping[str, Any]], names: Names, log: type[TuplePosition]) -> PartitionEvents:
    """Return the positions of the groups of one partition."""
    # Joined at once: to sort all offsets again for each of the ranges takes minutes for a long history.
    consumed = union(*(_offsets(group, "offsets", names) for group in groups))
    # A file name has the first offset only, so all lines of the file count.
    below = union(*(_offsets(group, "below_mark_offsets", names) for group in groups if group.get("below_mark")))
    return PartitionEvents(
        mark=replace(reduce(Mark.merged, (_mark(group, log) for group in groups)), consumed=consumed),
        below_mark=replace(sum(map(_below_mark, groups), EventsBelowMark()), offsets=below),
        above_mark_ts_ms=_least(*(group.get("above_mark_ts_ms") for group in groups)),
        times=sum((_times(group, log) for group in groups), CommitTimes()),
    )


def _file_of(group: Mapping[str, Any], names: Names) -> SinkFile | None:
    """Return what the name of the group's file tells, where it is of the group's partition."""
    name = names[group["file"]] if group["file"] is not None and names else None
    return name if name is not None and name.label == group["partition"] else None


def _least(*times: int | None) -> int | None:
    return min((ts for ts in times if ts is not None), default=None)


def _mark(group: Mapping[str, Any], log: type[TuplePosition]) -> Mark:
    key_change, delete = group["highest_key_change"], group["highest_delete"]
    if key_change is None or key_change["position"] is None:
        return Mark(position=log.before_all())
    return Mark(
        position=_place(key_change, log),
        ts_ms=group["ts_ms"],
        moved=bool(key_change["flag"]),
        deleted=bool(delete["flag"]),
        since_ms=_since(group),
    )


def _place(event: Mapping[str, Any], log: type[TuplePosition]) -> TuplePosition:
    return log.from_plain(map(int, event["position"]))


def _since(group: Mapping[str, Any]) -> int | None:
    """Return a time before which nothing was committed that stands above the group's places.

    Rows of a snapshot are read for hours, while later changes are committed. So the first of its rows counts.
    """
    first_row = group["snapshot_ts_ms"]
    times = (group["change_ts_ms"], None if first_row is None else first_row - CLOCKS_DIFFER_MS)
    return max((ts for ts in times if ts is not None), default=None)


def _times(group: Mapping[str, Any], log: type[TuplePosition]) -> CommitTimes:
    highest_event = group["highest"]
    if highest_event is None or highest_event["position"] is None:
        return CommitTimes()
    return CommitTimes(
        highest=_place(highest_event, log),
        highest_ts_ms=highest_event["ts_ms"],
        newest_ts_ms=group["change_ts_ms"],
        after_commit_ts_ms=group["after_commit_ts_ms"],
    )


def _below_table_mark(group: Mapping[str, Any]) -> EventsBelowMark:
    return EventsBelowMark(
        count=group.get("below_table_mark", 0),
        ts_ms=group.get("below_table_mark_ts_ms"),
        after_commit_ts_ms=group.get("below_table_mark_after_commit_ts_ms"),
    )


def _below_mark(group: Mapping[str, Any]) -> EventsBelowMark:
    count = group.get("below_mark", 0)
    return EventsBelowMark(count=count, ts_ms=group["below_mark_ts_ms"]) if count else EventsBelowMark()


def _offsets(group: Mapping[str, Any], column: str, names: Names) -> Ranges:
    """Return the offsets that a column has, or all of the file whose name has its first one."""
    if name := _file_of(group, names):
        # Sinks may leave out records without a value, so the file may reach further than it has lines.
        return ((name.first, name.last if name.last is not None else name.first + group["lines"] - 1),)
    bitmap = group.get(column)
    return of_bitmap(group["bucket"], bytes(bitmap)) if bitmap is not None else ()


def _offset_bitmap(wanted: Column) -> Column:
    """Return the offsets of the group's bucket, as :func:`.of_bitmap` reads them; NULL without any."""
    place = sf.when(wanted, sf.col("offset") % BUCKET)
    # An empty bitmap would take 4 KB.
    return sf.when(sf.count(place) > 0, sf.bitmap_construct_agg(place))


def _mark_fields(mark: Mark | None, log: type[TuplePosition]) -> dict[str, Any] | None:
    if mark is None:
        return None
    position = dict(zip(log.names(), mark.position.to_plain(), strict=True))
    return {"position": position, "moved": mark.moved, "deleted": mark.deleted}


def _literal(value: Any, kind: str) -> Column:
    return sf.from_json(sf.lit(json.dumps(value)), kind)
