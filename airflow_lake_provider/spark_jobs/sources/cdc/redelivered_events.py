"""Redelivered events: which of a batch stand below the marks of what was applied, by place in the log and in Kafka.

A stream that starts again sends events again, at new offsets, and a sink may write a file again. A table keeps marks
of what was applied (``contracts/applied/event_marks.py``). Here one pass over a batch measures its positions and counts
what is below the marks. ``contracts/applied/redelivery.py`` decides by these numbers what is dropped or refused.
"""

from __future__ import annotations

import json
from collections import defaultdict
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


def event_positions(groups: Iterable[Mapping[str, Any]], names: Names, log: type[TuplePosition]) -> EventPositions:
    """Return the positions of all groups.

    :param groups: rows with ``partition``, ``file``, ``bucket`` and the aggregates of :func:`survey_columns`.
    :param log: kind of their places.
    """
    partitions: dict[str | None, PartitionEvents] = {}
    # Joined once: to sort all offsets of a partition again for each of its ranges takes minutes for a long history.
    consumed: dict[str | None, list[Ranges]] = defaultdict(list)
    offsets_below: dict[str | None, list[Ranges]] = defaultdict(list)
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
        label = group["partition"]
        before = partitions.get(label, PartitionEvents())
        mark = _mark(group, log)
        consumed[label].append(_offsets_of_file(group, name) if name else _offsets(group, "offsets"))
        if group.get("below_mark"):
            # A file name has the first offset only, so all lines of the file count.
            below = _offsets_of_file(group, name) if name else _offsets(group, "below_mark_offsets")
            offsets_below[label].append(below)
        partitions[label] = PartitionEvents(
            mark=before.mark.merged(mark) if before.mark else mark,
            below_mark=before.below_mark + _below_mark(group),
            above_mark_ts_ms=_least(before.above_mark_ts_ms, group.get("above_mark_ts_ms")),
            times=before.times + _times(group, log),
        )
    placed = {
        label: replace(
            part,
            mark=replace(part.mark, consumed=union(*consumed[label])) if part.mark else None,
            below_mark=replace(part.below_mark, offsets=union(*offsets_below[label])),
        )
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


def _below_mark(group: Mapping[str, Any]) -> EventsBelowMark:
    count = group.get("below_mark", 0)
    return EventsBelowMark(count=count, ts_ms=group["below_mark_ts_ms"]) if count else EventsBelowMark()


def _offsets_of_file(group: Mapping[str, Any], name: SinkFile) -> Ranges:
    # Sinks may leave out records without a value, so the file may reach further than it has lines.
    return ((name.first, name.last if name.last is not None else name.first + group["lines"] - 1),)


def _offsets(group: Mapping[str, Any], name: str) -> Ranges:
    bitmap = group.get(name)
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
