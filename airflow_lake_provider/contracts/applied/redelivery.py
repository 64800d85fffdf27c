"""Decide which events of a batch were delivered again, by the marks that earlier batches left on the table.

A mark is the highest position in the log that was applied. An event below it is a repeat, or it comes late, or its log
has started again, as after a restored database. Offsets in Kafka and times of commits tell which. What they leave
open is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_lake_provider.contracts.applied.event_marks import (
    BY_KEY,
    EventMarks,
    EventOrdering,
    Mark,
    Ranges,
    greatest_time,
    missing,
    partition_digest,
    up_to,
)
from airflow_lake_provider.contracts.applied.log_positions import LogPosition
from airflow_lake_provider.contracts.applied.positions import Comparison
from airflow_lake_provider.contracts.applied.stream_remedies import OF_FILES, StreamRemedies
from airflow_lake_provider.contracts.errors import BadInputError

# A server notes the time of a commit shortly before it writes it to the log. An event that comes late was never
# applied, so the greatest time of what was applied does not cover it.
LATE_TOLERANCE_MS = 10_000

# Rows of a snapshot have the clock of who reads it, changes the server's.
CLOCKS_DIFFER_MS = 300_000


@dataclass(frozen=True, kw_only=True)
class EventsBelowMark:
    """Events of a batch whose position is below a mark.

    :param ts_ms: their greatest time of a commit, in epoch milliseconds, as all times here.
    :param after_commit_ts_ms: the same, without events that name no last commit: the first transaction that a stream
        sends after its snapshot.
    :param offsets: Kafka offsets that they have, or may have.
    """

    count: int = 0
    ts_ms: int | None = None
    after_commit_ts_ms: int | None = None
    offsets: Ranges = ()

    def __add__(self, other: EventsBelowMark) -> EventsBelowMark:
        return EventsBelowMark(
            count=self.count + other.count,
            ts_ms=greatest_time(self.ts_ms, other.ts_ms),
            after_commit_ts_ms=greatest_time(self.after_commit_ts_ms, other.after_commit_ts_ms),
            offsets=(*self.offsets, *other.offsets),
        )


@dataclass(frozen=True, kw_only=True)
class CommitTimes:
    """Commit times beside positions. In one log the later of two commits has the higher position.

    :param highest: greatest position.
    :param highest_ts_ms: time of the commit there.
    :param newest_ts_ms: greatest time of all changes. Rows of a snapshot do not count: they are read after
        later changes were made.
    :param after_commit_ts_ms: the same, of changes that name a last commit.
    """

    highest: LogPosition | None = None
    highest_ts_ms: int | None = None
    newest_ts_ms: int | None = None
    after_commit_ts_ms: int | None = None

    def __add__(self, other: CommitTimes) -> CommitTimes:
        above = other if other._is_above(self) else self
        return CommitTimes(
            highest=above.highest,
            highest_ts_ms=above.highest_ts_ms,
            newest_ts_ms=greatest_time(self.newest_ts_ms, other.newest_ts_ms),
            after_commit_ts_ms=greatest_time(self.after_commit_ts_ms, other.after_commit_ts_ms),
        )

    def _is_above(self, other: CommitTimes) -> bool:
        if self.highest is None or other.highest is None:
            return self.highest is not None
        compared = self.highest.compare(other.highest)
        is_later = compared is Comparison.EQUAL and (self.highest_ts_ms or 0) > (other.highest_ts_ms or 0)
        return compared is Comparison.AFTER or is_later

    def newest(self, ordering: EventOrdering) -> int | None:
        """Return the greatest commit time that can be compared with the one at the greatest position.

        With ``ordering="key"``, that position may be where a snapshot was read while transactions were open: these
        commit later and stand below it.
        """
        may_be_open = ordering is EventOrdering.KEY and self.highest is not None and self.highest.may_be_of_snapshot
        return self.after_commit_ts_ms if may_be_open else self.newest_ts_ms


@dataclass(frozen=True, kw_only=True)
class PartitionEvents:
    """Events of a batch from one partition of the topic, or from an unknown one.

    :param mark: what the table would keep once all of them are applied; None without an event of the table.
    :param below_mark: events below the mark that the table has of the partition.
    :param above_mark_ts_ms: least time of a commit of the other events.
    """

    mark: Mark | None = None
    below_mark: EventsBelowMark = field(default_factory=EventsBelowMark)
    above_mark_ts_ms: int | None = None
    times: CommitTimes = field(default_factory=CommitTimes)


@dataclass(frozen=True, kw_only=True)
class EventPositions:
    """Positions of the events of a batch, in the source's log and in Kafka.

    :param partitions: by ``<topic>-<partition>``; None for events without one.
    :param without_offset: count of events whose partition or offset is unknown.
    :param below_mark: events below the greatest of the table's marks.
    :param above_mark_ts_ms: least time of a commit of the other events.
    :param below_key_floor: count of events below ``EventMarks.key_floor``.
    """

    partitions: Mapping[str | None, PartitionEvents] = field(default_factory=dict)
    without_offset: int = 0
    below_mark: EventsBelowMark = field(default_factory=EventsBelowMark)
    above_mark_ts_ms: int | None = None
    below_key_floor: int = 0

    def with_offsets(self, read: Mapping[str, tuple[int, int]]) -> EventPositions:
        """Return the same where more offsets were read than those of the events.

        :param read: first and last one by partition.
        """
        parts = {
            label: replace(part, mark=replace(part.mark, consumed=(offsets,)))
            for label, part in self.partitions.items()
            if part.mark is not None and (offsets := read.get(label or "")) is not None
        }
        return replace(self, partitions={**self.partitions, **parts})


def choose_ordering(
    asked: EventOrdering | None, marks: EventMarks | None, positions: EventPositions, table: str
) -> EventOrdering:
    """Return the ordering by which a batch is applied: the one asked for, else by partition where that is possible.

    By partition is possible where every event has an offset, and where the table's marks, if there are any, are by
    partition too.

    :raises BadInputError: ``ordering="partition"`` was asked for, and some events have no partition or offset.
    """
    if asked is EventOrdering.PARTITION and positions.without_offset:
        raise BadInputError(
            f"{positions.without_offset} events of {table} do not tell their partition and offset, and "
            "ordering='partition' was asked for. They are told by lines with topic, partition and offset, or by the "
            "names that Kafka Connect sinks give their files. Use ordering='stream' where all events of the table are "
            f"in order; else {BY_KEY}"
        )
    if asked is not None:
        return asked
    by_partition = marks is None or marks.ordering is EventOrdering.PARTITION
    return EventOrdering.PARTITION if by_partition and not positions.without_offset else EventOrdering.UNKNOWN


def refuse_two_logs(
    ordering: EventOrdering, positions: EventPositions, table: str, remedies: StreamRemedies = OF_FILES
) -> None:
    """Refuse a batch with events of two logs of the source: ordered by position, rows of the older log would win.

    :raises BadInputError: a change was committed later than the one at the greatest position.
    """
    logs = [part.times for part in positions.partitions.values()]
    if ordering is not EventOrdering.PARTITION:
        logs = [sum(logs, CommitTimes())]
    for times in logs:
        newest = times.newest(ordering)
        if times.highest_ts_ms is None or newest is None:
            continue
        if newest > times.highest_ts_ms + LATE_TOLERANCE_MS:
            raise BadInputError(
                f"events of {table} were committed until {newest} (epoch milliseconds), and the one of "
                f"the greatest position, {times.highest}, before that, at {times.highest_ts_ms}. So these are of "
                f"two logs of the source: a restored database, or another server. {remedies.start_anew}. Nothing was "
                "applied"
            )


def count_repeated(
    ordering: EventOrdering,
    marks: EventMarks,
    positions: EventPositions,
    table: str,
    remedies: StreamRemedies = OF_FILES,
) -> int:
    """Return the number of repeated events, which are below their mark and are dropped.

    :raises BadInputError: events are of a log that has started again, or of an earlier log; or events below their mark
        may be late instead of repeated.
    """
    _refuse_earlier_log(ordering, marks, positions, table, remedies)
    if ordering is EventOrdering.PARTITION:
        parts = [(label, part) for label, part in positions.partitions.items() if part.below_mark.count]
        return sum(_repeated_in_partition(label, part, marks, table, remedies) for label, part in parts)
    greatest = marks.greatest
    if greatest is None or not positions.below_mark.count:
        return 0
    tolerance = LATE_TOLERANCE_MS if ordering is EventOrdering.KEY else 0
    below = _with_comparable_time(ordering, positions.below_mark, greatest)
    _refuse_restarted(below, greatest, table, tolerance, remedies)
    if ordering is EventOrdering.KEY:
        return _repeated_by_key(marks, positions.below_key_floor, table, remedies)
    if ordering is EventOrdering.STREAM and marks.ordering in (EventOrdering.STREAM, EventOrdering.UNKNOWN):
        return positions.below_mark.count
    raise BadInputError(_unknown_whether_repeated(positions.below_mark.count, ordering, marks, table, remedies))


def _refuse_earlier_log(
    ordering: EventOrdering, marks: EventMarks, positions: EventPositions, table: str, remedies: StreamRemedies
) -> None:
    """Refuse events above a mark that were committed before it: they are of another log than what was applied."""
    oldest_above = [(marks.greatest, positions.above_mark_ts_ms)]
    if ordering is EventOrdering.PARTITION:
        parts = positions.partitions.items()
        oldest_above = [(marks.floor(label or ""), part.above_mark_ts_ms) for label, part in parts]
    for mark, oldest in oldest_above:
        if mark is None or mark.since_ms is None or oldest is None or oldest >= mark.since_ms - LATE_TOLERANCE_MS:
            continue
        raise BadInputError(
            f"events of {table} have positions above {mark.position}, up to which events were applied, and were "
            f"committed earlier (at {oldest} in epoch milliseconds, applied up to {mark.since_ms}). So they are of "
            "another log: of the source before its positions started again, or of another server. "
            f"{remedies.of_earlier_log}. Where they are of the source that is to be followed: {remedies.start_anew}. "
            "Nothing was applied"
        )


def applied_marks(
    ordering: EventOrdering, marks: EventMarks | None, positions: EventPositions, *, again: bool = False
) -> EventMarks:
    """Return the table's marks after a batch. No mark goes back.

    :param again: events below their mark were applied on purpose. Where the log has started again, its marks begin
        anew.
    """
    before = marks or EventMarks(ordering=ordering)
    if again:
        before = _without_restarted(ordering, before, positions)
    applied = {
        label: part.mark
        for label, part in positions.partitions.items()
        # A tombstone has an offset and no position. It counts where the partition has had events of the table.
        if part.mark is not None and (part.mark.is_of_events or _has_mark(before, label))
    }
    return before.merged(ordering, applied)


def _without_restarted(ordering: EventOrdering, marks: EventMarks, positions: EventPositions) -> EventMarks:
    if ordering is not EventOrdering.PARTITION:
        greatest = marks.greatest
        if greatest is None:
            return marks
        below = _with_comparable_time(ordering, positions.below_mark, greatest)
        return EventMarks(ordering=ordering) if _is_of_restarted_log(below, greatest, 0) else marks
    # A partition without a mark of its own would go on from the mark of the table.
    anew = {
        partition_digest(label or ""): Mark(position=floor.position.before_all())
        for label, part in positions.partitions.items()
        if (floor := marks.floor(label or "")) is not None and _is_of_restarted_log(part.below_mark, floor, 0)
    }
    return replace(marks, partitions={**marks.partitions, **anew})


def _has_mark(marks: EventMarks, label: str | None) -> bool:
    return partition_digest(label or "") in marks.partitions


def _repeated_in_partition(
    label: str | None, part: PartitionEvents, marks: EventMarks, table: str, remedies: StreamRemedies
) -> int:
    floor = marks.floor(label or "")
    if floor is None:
        return 0
    _refuse_restarted(part.below_mark, floor, table, 0, remedies)
    if not _has_mark(marks, label):
        raise BadInputError(
            _unknown_whether_repeated(part.below_mark.count, EventOrdering.PARTITION, marks, table, remedies)
        )
    late = missing(up_to(part.below_mark.offsets, floor.last_offset), floor.consumed)
    if late:
        first, last = late[0][0], late[-1][1]
        raise BadInputError(
            f"{part.below_mark.count} events of {table} in partition {label} are older than what was applied of it, "
            f"and offsets from {first} to {last} among theirs were never read{remedies.came_late}. Whether they are "
            f"older than the rows they change cannot be told by partition. {remedies.all_again}; or {BY_KEY}. "
            "Nothing was applied"
        )
    return part.below_mark.count


def _repeated_by_key(marks: EventMarks, count: int, table: str, remedies: StreamRemedies) -> int:
    floor, by_stream = marks.key_floor
    if not count or floor is None or by_stream:
        return count
    raise BadInputError(
        f"{count} events of {table} are at positions below {floor.position}, up to which events were applied "
        "before the table went over to ordering='key'. Rows and deletes of then have no position, so these events "
        f"cannot be compared with them. {remedies.start_anew}; or {BY_KEY}. Nothing was applied"
    )


def _with_comparable_time(ordering: EventOrdering, below: EventsBelowMark, mark: Mark) -> EventsBelowMark:
    """Return events below a mark with the commit time that can be compared with the mark's."""
    # With ordering="key" each event is compared with the position of its row anyway.
    may_be_open = ordering is EventOrdering.KEY and mark.position.may_be_of_snapshot
    return replace(below, ts_ms=below.after_commit_ts_ms) if may_be_open else below


def _is_of_restarted_log(below: EventsBelowMark, mark: Mark, tolerance: int) -> bool:
    return below.ts_ms is not None and mark.ts_ms is not None and below.ts_ms > mark.ts_ms + tolerance


def _refuse_restarted(below: EventsBelowMark, mark: Mark, table: str, tolerance: int, remedies: StreamRemedies) -> None:
    if not _is_of_restarted_log(below, mark, tolerance):
        return
    raise BadInputError(
        f"{below.count} events of {table} have positions below {mark.position}, up to which events were applied, "
        f"and were committed later (at {below.ts_ms} in epoch milliseconds, applied up to {mark.ts_ms}). So "
        f"the positions of the source have started again: a restored database, or another server. "
        f"{remedies.start_anew}{remedies.of_new_log}. Nothing was applied"
    )


def _unknown_whether_repeated(
    count: int, ordering: EventOrdering, marks: EventMarks, table: str, remedies: StreamRemedies
) -> str:
    if ordering is not EventOrdering.UNKNOWN:
        asked = marks.ordering in EventOrdering.asked() and marks.ordering is not ordering
        before, former = (f" with ordering={marks.ordering.value!r}", "use the former; or ") if asked else ("", "")
        return (
            f"{count} events of {table} are older than what was applied{before}, and whether they were applied then "
            f"cannot be told by ordering={ordering.value!r}. What is newer is applied. {remedies.all_again}; or "
            f"{former}{BY_KEY}. Nothing was applied"
        )
    return (
        f"{count} events of {table} are older than what was applied, and nothing tells whether they come again or come "
        "late. Use ordering='stream' where all events of the table arrive in order: then they are dropped as repeated. "
        f"Where they may be late, {BY_KEY}. Events that were put right are applied with on_repeat='apply'. Nothing was "
        "applied"
    )
