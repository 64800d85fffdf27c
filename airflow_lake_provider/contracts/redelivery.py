"""Decide what of a change stream was delivered again, by the marks of what was applied; nothing is guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.event_marks import BY_KEY, EventMarks, EventOrdering, partition_digest
from airflow_lake_provider.contracts.mark_codec import Mark
from airflow_lake_provider.contracts.offset_ranges import Ranges, missing, up_to
from airflow_lake_provider.contracts.positions import Comparison, LogPosition, PostgresLogPosition

# Servers note the time of a commit shortly before its place in the log. Events that come late were never applied, so
# no greatest time covers theirs.
LATE_TOLERANCE_MS = 10_000

# The clock of a snapshot's rows is the connector's, not the server's.
CLOCKS_DIFFER_MS = 300_000

# Of a partition that has tombstones only: below every event.
NO_POSITION = PostgresLogPosition(-1, -1)

_NEW_LIFE = (
    "Take a new snapshot with the connector, and give the source a new name and the new files only, "
    "by another path or folder"
)


def _greatest(*times: int | None) -> int | None:
    return max((ts for ts in times if ts is not None), default=None)


@dataclass(frozen=True, kw_only=True)
class OldEvents:
    """Events of a batch that are below a mark.

    :param ts_ms: greatest ``source.ts_ms`` among them; ``led_ts_ms``: without the events of a first transaction, which
        have no commit before them.
    :param offsets: where they may stand in their partition.
    """

    count: int = 0
    ts_ms: int | None = None
    led_ts_ms: int | None = None
    offsets: Ranges = ()

    def __add__(self, other: OldEvents) -> OldEvents:
        return OldEvents(
            count=self.count + other.count,
            ts_ms=_greatest(self.ts_ms, other.ts_ms),
            led_ts_ms=_greatest(self.led_ts_ms, other.led_ts_ms),
            offsets=(*self.offsets, *other.offsets),
        )


@dataclass(frozen=True, kw_only=True)
class SeenTimes:
    """Times of commit beside positions, which they follow in one life of a source.

    :param top: greatest position; ``top_ts_ms``: ``source.ts_ms`` of the event there.
    :param newest_ts_ms: greatest of all changes; ``led_ts_ms``: of those with a commit before them. Rows of a snapshot
        are read after later changes were made.
    """

    top: LogPosition | None = None
    top_ts_ms: int | None = None
    newest_ts_ms: int | None = None
    led_ts_ms: int | None = None

    def __add__(self, other: SeenTimes) -> SeenTimes:
        found = other if other._is_above(self) else self
        return SeenTimes(
            top=found.top,
            top_ts_ms=found.top_ts_ms,
            newest_ts_ms=_greatest(self.newest_ts_ms, other.newest_ts_ms),
            led_ts_ms=_greatest(self.led_ts_ms, other.led_ts_ms),
        )

    def _is_above(self, other: SeenTimes) -> bool:
        if self.top is None or other.top is None:
            return self.top is not None
        found = self.top.compare(other.top)
        is_later = found is Comparison.EQUAL and (self.top_ts_ms or 0) > (other.top_ts_ms or 0)
        return found is Comparison.AFTER or is_later

    def newest(self, ordering: EventOrdering) -> int | None:
        """Return the greatest time that proves something."""
        may_be_open = ordering is EventOrdering.KEY and self.top is not None and self.top.may_be_of_snapshot
        return self.led_ts_ms if may_be_open else self.newest_ts_ms


@dataclass(frozen=True, kw_only=True)
class SeenPartition:
    """Events of a batch from one partition, or from none that is known.

    :param mark: that applying all of it would leave; None where it has no event of the table.
    :param old: events below the mark that the table has of it; ``newer_ts_ms``: least ``source.ts_ms`` of the others.
    """

    mark: Mark | None = None
    old: OldEvents = field(default_factory=OldEvents)
    newer_ts_ms: int | None = None
    times: SeenTimes = field(default_factory=SeenTimes)


@dataclass(frozen=True, kw_only=True)
class SeenEvents:
    """Places of the events of a batch, as one pass over them has found them.

    :param partitions: by label, None for events without one.
    :param unplaced: events whose partition or offset is not known.
    :param old: events below the greatest mark of all; ``newer_ts_ms``: least ``source.ts_ms`` of the others;
        ``unkeyed``: below ``EventMarks.key_floor``.
    """

    partitions: Mapping[str | None, SeenPartition] = field(default_factory=dict)
    unplaced: int = 0
    old: OldEvents = field(default_factory=OldEvents)
    newer_ts_ms: int | None = None
    unkeyed: int = 0


def choose_ordering(
    asked: EventOrdering | None, marks: EventMarks | None, seen: SeenEvents, table: str
) -> EventOrdering:
    """Return what is known of the order of a batch.

    A table whose marks are not by partition keeps on without: what was applied before cannot be told by partition.

    :raises BadInputError: partitions were asked for, and some events do not tell theirs.
    """
    if asked is EventOrdering.PARTITION and seen.unplaced:
        raise BadInputError(
            f"{seen.unplaced} events of {table} do not tell their partition and offset, and ordering='partition' was "
            "asked for. They are told by lines with topic, partition and offset, or by the names that Kafka Connect "
            "sinks give their files. Use ordering='stream' where all events of the table are in order; else "
            f"{BY_KEY}"
        )
    if asked is not None:
        return asked
    by_partition = marks is None or marks.ordering is EventOrdering.PARTITION
    return EventOrdering.PARTITION if by_partition and not seen.unplaced else EventOrdering.UNKNOWN


def refuse_two_lives(ordering: EventOrdering, seen: SeenEvents, table: str) -> None:
    """Refuse a batch in which the positions of the source start again: ordered by position, the old rows would win.

    :raises BadInputError: changes were committed later than the one at the greatest position.
    """
    parts = [part.times for part in seen.partitions.values()]
    if ordering is not EventOrdering.PARTITION:
        parts = [sum(parts, SeenTimes())]
    for times in parts:
        newest = times.newest(ordering)
        if times.top_ts_ms is None or newest is None:
            continue
        if newest > times.top_ts_ms + LATE_TOLERANCE_MS:
            raise BadInputError(
                f"events of {table} were committed until source.ts_ms {newest}, and the one of the "
                f"greatest position, {times.top}, before that, at {times.top_ts_ms}. So the files are of "
                f"two lives of the source: a restored database, or another server. {_NEW_LIFE}. Nothing was applied"
            )


def count_repeated(ordering: EventOrdering, marks: EventMarks, seen: SeenEvents, table: str) -> int:
    """Return how many events were delivered again: those below their mark, which are to be dropped.

    :raises BadInputError: the positions of the source started again, or are those of an earlier log, or it cannot be
        told whether an event is repeated or late.
    """
    _refuse_earlier_life(ordering, marks, seen, table)
    if ordering is EventOrdering.PARTITION:
        return sum(_repeated_of(label, part, marks, table) for label, part in seen.partitions.items() if part.old.count)
    greatest = marks.greatest
    if greatest is None or not seen.old.count:
        return 0
    tolerance = LATE_TOLERANCE_MS if ordering is EventOrdering.KEY else 0
    _refuse_restarted(_telling(ordering, seen.old, greatest), greatest, table, tolerance)
    if ordering is EventOrdering.KEY:
        return _repeated_by_key(marks, seen.unkeyed, table)
    if ordering is EventOrdering.STREAM and marks.ordering in (EventOrdering.STREAM, EventOrdering.UNKNOWN):
        return seen.old.count
    raise BadInputError(_cannot_tell(seen.old.count, ordering, marks, table))


def _refuse_earlier_life(ordering: EventOrdering, marks: EventMarks, seen: SeenEvents, table: str) -> None:
    """Refuse events with higher positions that were committed before what was applied, as no one log has them."""
    found = [(marks.greatest, seen.newer_ts_ms)]
    if ordering is EventOrdering.PARTITION:
        found = [(marks.floor(label or ""), part.newer_ts_ms) for label, part in seen.partitions.items()]
    for mark, oldest in found:
        if mark is None or mark.since_ms is None or oldest is None or oldest >= mark.since_ms - LATE_TOLERANCE_MS:
            continue
        raise BadInputError(
            f"events of {table} have positions above {mark.position}, up to which events were applied, and were "
            f"committed earlier (source.ts_ms {oldest}, applied up to {mark.since_ms}). So they are of another log: of "
            "the source before its positions started again, or of another server. Take their files out of the "
            "source's path: they would take rows back. Where they are of the source that is to be followed: "
            f"{_NEW_LIFE}. Nothing was applied"
        )


def applied_marks(
    ordering: EventOrdering, marks: EventMarks | None, seen: SeenEvents, *, again: bool = False
) -> EventMarks:
    """Return the marks after a batch; none goes back.

    :param again: old events were applied on purpose; where the source has started again, its marks begin anew.
    """
    before = marks or EventMarks(ordering=ordering)
    if again:
        before = _without_restarted(ordering, before, seen)
    applied = {
        label: part.mark
        for label, part in seen.partitions.items()
        # Tombstones have offsets too; those of other topics are of no use.
        if part.mark is not None and (part.mark.position != NO_POSITION or _is_known(before, label))
    }
    return before.merged(ordering, applied)


def _without_restarted(ordering: EventOrdering, marks: EventMarks, seen: SeenEvents) -> EventMarks:
    if ordering is not EventOrdering.PARTITION:
        greatest = marks.greatest
        restarted = greatest is not None and _has_restarted(_telling(ordering, seen.old, greatest), greatest, 0)
        return EventMarks(ordering=ordering) if restarted else marks
    # An unknown partition would begin at the mark of the table.
    anew = {
        partition_digest(label or ""): Mark(position=NO_POSITION)
        for label, part in seen.partitions.items()
        if (floor := marks.floor(label or "")) is not None and _has_restarted(part.old, floor, 0)
    }
    return replace(marks, partitions={**marks.partitions, **anew})


def _is_known(marks: EventMarks, label: str | None) -> bool:
    return partition_digest(label or "") in marks.partitions


def _repeated_of(label: str | None, part: SeenPartition, marks: EventMarks, table: str) -> int:
    floor = marks.floor(label or "")
    if floor is None:
        return 0
    _refuse_restarted(part.old, floor, table, 0)
    if not _is_known(marks, label):
        raise BadInputError(_cannot_tell(part.old.count, EventOrdering.PARTITION, marks, table))
    late = missing(up_to(part.old.offsets, floor.last_offset), floor.consumed)
    if late:
        first, last = late[0][0], late[-1][1]
        raise BadInputError(
            f"{part.old.count} events of {table} in partition {label} are older than what was applied of it, and "
            f"offsets from {first} to {last} among theirs were never read: the file came late. Whether they are older "
            f"than the rows they change cannot be told by partition. Either {BY_KEY}; or, where every file is still "
            "there, apply them all again with on_repeat='apply'. Nothing was applied"
        )
    return part.old.count


def _repeated_by_key(marks: EventMarks, count: int, table: str) -> int:
    floor, by_stream = marks.key_floor
    if not count or floor is None or by_stream:
        return count
    raise BadInputError(
        f"{count} events of {table} are at positions below {floor.position}, up to which events were applied "
        "before the table went over to ordering='key'. Rows and deletes of then have no position, so these events "
        f"cannot be compared with them. Either {BY_KEY}; or take a new snapshot with the connector and give the source "
        "a new name and its files only. Nothing was applied"
    )


def _telling(ordering: EventOrdering, old: OldEvents, mark: Mark) -> OldEvents:
    """Return old events with the time that proves something."""
    # Of events by key the row tells whether they are older.
    may_be_open = ordering is EventOrdering.KEY and mark.position.may_be_of_snapshot
    return replace(old, ts_ms=old.led_ts_ms) if may_be_open else old


def _has_restarted(old: OldEvents, mark: Mark, tolerance: int) -> bool:
    return old.ts_ms is not None and mark.ts_ms is not None and old.ts_ms > mark.ts_ms + tolerance


def _refuse_restarted(old: OldEvents, mark: Mark, table: str, tolerance: int) -> None:
    if not _has_restarted(old, mark, tolerance):
        return
    raise BadInputError(
        f"{old.count} events of {table} have positions below {mark.position}, up to which events were applied, "
        f"and were committed later (source.ts_ms {old.ts_ms}, applied up to {mark.ts_ms}). So the positions of the "
        f"source have started again: a restored database, or another server. {_NEW_LIFE}; or apply the new files only "
        "with on_repeat='apply'. Nothing was applied"
    )


def _cannot_tell(count: int, ordering: EventOrdering, marks: EventMarks, table: str) -> str:
    if ordering is not EventOrdering.UNKNOWN:
        asked = marks.ordering in EventOrdering.asked() and marks.ordering is not ordering
        before, former = (f" with ordering={marks.ordering.value!r}", "use the former; or ") if asked else ("", "")
        return (
            f"{count} events of {table} are older than what was applied{before}, and whether they were applied then "
            f"cannot be told by ordering={ordering.value!r}. What is newer is applied. Either {former}where every file "
            f"is still there, apply them all again with on_repeat='apply'; or {BY_KEY}. Nothing was applied"
        )
    return (
        f"{count} events of {table} are older than what was applied, and nothing tells whether they come again or come "
        "late. Use ordering='stream' where all events of the table arrive in order: then they are dropped as repeated. "
        f"Where they may be late, {BY_KEY}. Files that were put right are applied with on_repeat='apply'. Nothing was "
        "applied"
    )
