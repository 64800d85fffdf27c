"""Random deliveries of a topic never lose an event that was not applied, and never put older over newer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.event_marks import EventMarks, EventOrdering, Mark, union
from airflow_lake_provider.contracts.applied.log_positions import PostgresLogPosition as At
from airflow_lake_provider.contracts.applied.redelivery import (
    CommitTimes,
    EventPositions,
    EventsBelowMark,
    PartitionEvents,
    applied_marks,
    choose_ordering,
    count_repeated,
    refuse_two_logs,
)
from airflow_lake_provider.contracts.applied.stream_remedies import OF_TOPIC, StreamRemedies
from airflow_lake_provider.contracts.errors import BadInputError

# (partition, offset, position): a key is of one partition, so its events are in order there.
Record = tuple[str, int, int]


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """Two partitions whose connector starts again now and then, each sending old positions at new offsets."""
    records: list[Record] = []
    for label in ("t-0", "t-1"):
        positions, newest = [], 0
        for _ in range(draw(st.integers(1, 8))):
            again = draw(st.integers(0, 2)) == 0 and newest > 0
            position = draw(st.integers(1, newest)) if again else newest + 1
            positions += list(range(position, newest + 1)) if again else [position]
            newest = max(newest, position)
        records += [(label, offset, position) for offset, position in enumerate(positions)]
    return records


def is_below(position: int, mark: Mark) -> bool:
    return (0, position) < tuple(mark.position.numbers())


def positions_of(batch: list[Record], marks: EventMarks | None) -> EventPositions:
    """Compute in plain Python what the pass over a batch finds."""
    partitions: dict[str | None, PartitionEvents] = {}
    for label in {record[0] for record in batch}:
        of = [record for record in batch if record[0] == label]
        floor = marks.floor(label) if marks else None
        old = [record for record in of if floor and is_below(record[2], floor)]
        partitions[label] = PartitionEvents(
            mark=Mark(
                position=At(0, max(record[2] for record in of)),
                ts_ms=max(record[2] for record in of),
                consumed=union((record[1], record[1]) for record in of),
            ),
            below_mark=EventsBelowMark(
                count=len(old),
                ts_ms=max((record[2] for record in old), default=None),
                offsets=union((record[1], record[1]) for record in old),
            ),
        )
    return EventPositions(partitions=partitions)


@given(log=logs(), data=st.data())
def test_no_event_is_lost_nor_applied_over_a_newer_one(log: list[Record], data: st.DataObject) -> None:
    marks: EventMarks | None = None
    applied: set[tuple[str, int]] = set()
    read: set[tuple[str, int]] = set()
    for batch in data.draw(st.lists(st.lists(st.sampled_from(log), min_size=1), min_size=1, max_size=6)):
        found = positions_of(batch, marks)
        try:
            dropped = count_repeated(EventOrdering.PARTITION, marks, found, "t") if marks else 0
        except BadInputError as refused:
            if "came late" not in str(refused):
                raise
            continue
        floors = {label: marks.floor(label) if marks else None for label in ("t-0", "t-1")}
        kept = [(p, o, at) for p, o, at in batch if not ((mark := floors[p]) and is_below(at, mark))]
        assert dropped == len(batch) - len(kept)
        for partition, offset, position in set(batch) - set(kept):
            # It was applied, or the connector had sent it before: at an offset that is refused when it comes late.
            first_sent = min(o for p, o, at in log if (p, at) == (partition, position))
            assert (partition, position) in applied or first_sent < offset
            assert (partition, offset) in read or offset > max(o for p, o in read if p == partition)
        for partition, _, position in kept:
            assert all(position >= at for p, at in applied if p == partition)
        applied |= {(p, at) for p, _, at in kept}
        read |= {(p, o) for p, o, _ in batch}
        marks = applied_marks(EventOrdering.PARTITION, marks, found)
        marks = EventMarks.read(marks.to_text())


def test_the_ordering_is_taken_from_the_input_unless_the_table_says_otherwise() -> None:
    placed, bare = EventPositions(), EventPositions(without_offset=2)
    by = {ordering: EventMarks(ordering=ordering) for ordering in EventOrdering}
    assert choose_ordering(None, None, placed, "t") is EventOrdering.PARTITION
    assert choose_ordering(None, by[EventOrdering.PARTITION], placed, "t") is EventOrdering.PARTITION
    assert choose_ordering(None, None, bare, "t") is EventOrdering.UNKNOWN
    for other in (EventOrdering.UNKNOWN, EventOrdering.STREAM, EventOrdering.KEY):
        assert choose_ordering(None, by[other], placed, "t") is EventOrdering.UNKNOWN
    assert choose_ordering(EventOrdering.STREAM, by[EventOrdering.KEY], placed, "t") is EventOrdering.STREAM
    with pytest.raises(BadInputError, match="2 events of t do not tell their partition"):
        choose_ordering(EventOrdering.PARTITION, None, bare, "t")


def test_a_source_that_started_again_is_refused_by_every_ordering() -> None:
    mark = Mark(position=At(9, 9), ts_ms=1_000_000, consumed=((0, 5),))
    marks = EventMarks(ordering=EventOrdering.PARTITION).merged(EventOrdering.PARTITION, {"t-0": mark})
    old = EventsBelowMark(count=1, ts_ms=1_020_000, after_commit_ts_ms=1_020_000, offsets=((6, 6),))
    found = EventPositions(
        partitions={"t-0": PartitionEvents(mark=replace(mark, position=At(1, 1)), below_mark=old)}, below_mark=old
    )
    for ordering in EventOrdering:
        with pytest.raises(BadInputError, match="started again"):
            count_repeated(ordering, marks, found, "t")
    late = EventPositions(below_mark=replace(old, ts_ms=1_000_005, after_commit_ts_ms=1_000_005))
    assert count_repeated(EventOrdering.KEY, marks, late, "t") == 0
    unknown_time = EventPositions(below_mark=replace(old, ts_ms=None))
    assert count_repeated(EventOrdering.STREAM, marks.merged(EventOrdering.STREAM, {}), unknown_time, "t") == 1


def test_the_first_transaction_after_a_snapshot_may_have_lower_positions_than_its_rows() -> None:
    mark = Mark(position=At(100, 100), ts_ms=1_000_000)
    marks = EventMarks(ordering=EventOrdering.KEY).merged(EventOrdering.KEY, {None: mark})
    was_open = EventPositions(below_mark=EventsBelowMark(count=1, ts_ms=1_030_000))
    assert count_repeated(EventOrdering.KEY, marks, was_open, "t") == 0
    beside = CommitTimes(highest=At(100, 100), highest_ts_ms=1_000_000, newest_ts_ms=1_030_000)
    refuse_two_logs(EventOrdering.KEY, EventPositions(partitions={None: PartitionEvents(times=beside)}), "t")
    # Another snapshot, or what has a commit before it, was not open then.
    with pytest.raises(BadInputError, match="started again"):
        count_repeated(
            EventOrdering.KEY,
            marks,
            EventPositions(below_mark=replace(was_open.below_mark, after_commit_ts_ms=1_030_000)),
            "t",
        )
    later = PartitionEvents(times=replace(beside, after_commit_ts_ms=1_030_000))
    with pytest.raises(BadInputError, match="two logs"):
        refuse_two_logs(EventOrdering.KEY, EventPositions(partitions={None: later}), "t")


def test_marks_of_another_ordering_tell_nothing_of_older_events() -> None:
    mark = Mark(position=At(9, 9), ts_ms=5, consumed=((0, 5),))
    old = EventsBelowMark(count=3, ts_ms=4, offsets=((6, 8),))
    found = EventPositions(partitions={"t-0": PartitionEvents(mark=mark, below_mark=old)}, below_mark=old)
    by_partition = EventMarks(ordering=EventOrdering.PARTITION).merged(EventOrdering.PARTITION, {"t-0": mark})
    with pytest.raises(BadInputError, match=r"applied with ordering='partition'.*cannot be told by ordering='stream'"):
        count_repeated(EventOrdering.STREAM, by_partition, found, "t")
    by_stream = by_partition.merged(EventOrdering.STREAM, {})
    assert count_repeated(EventOrdering.STREAM, by_stream, found, "t") == 3
    with pytest.raises(BadInputError, match=r"applied with ordering='stream'.*cannot be told by ordering='partition'"):
        count_repeated(EventOrdering.PARTITION, by_stream, found, "t")
    with pytest.raises(BadInputError, match="nothing tells"):
        count_repeated(EventOrdering.UNKNOWN, by_stream, found, "t")


@pytest.mark.parametrize("ordering", EventOrdering)
def test_a_file_of_an_earlier_log_is_refused_though_its_positions_are_higher(ordering: EventOrdering) -> None:
    restarted = Mark(position=At(400, 500), ts_ms=90_000_000, since_ms=86_400_000)
    marks = EventMarks.read(EventMarks(ordering=ordering).merged(ordering, {"t-0": restarted}).to_text())
    assert marks is not None

    def above(ts_ms: int | None) -> EventPositions:
        part = PartitionEvents(mark=Mark(position=At(9_000, 9_001), ts_ms=ts_ms), above_mark_ts_ms=ts_ms)
        return EventPositions(partitions={"t-0": part}, above_mark_ts_ms=ts_ms)

    with pytest.raises(BadInputError, match=r"above \[400, 500\].*committed earlier.*another log"):
        count_repeated(ordering, marks, above(86_000_000), "t")
    # Rows of a long snapshot are read after what is committed meanwhile; clocks are set, and events may have no time.
    for ts_ms in (86_400_000, 86_400_000 - 9_999, None):
        assert count_repeated(ordering, marks, above(ts_ms), "t") == 0
    of_earlier_version = EventMarks(ordering=ordering).merged(ordering, {"t-0": replace(restarted, since_ms=None)})
    assert count_repeated(ordering, of_earlier_version, above(1), "t") == 0


def test_a_mark_that_an_earlier_version_wrote_is_read_and_goes_on() -> None:
    # EventMarks(ordering=STREAM, table=Mark(position=At(7, 9), ts_ms=5, moved=True)) of version 1 without since_ms.
    found = EventMarks.read("AQEBDgQLAQAA")
    assert found is not None
    assert found.table == Mark(position=At(7, 9), ts_ms=5, moved=True)
    later = found.merged(EventOrdering.STREAM, {None: Mark(position=At(8, 9), ts_ms=6, since_ms=-3)})
    assert EventMarks.read(later.to_text()) == later
    assert later.table == Mark(position=At(8, 9), ts_ms=6, since_ms=-3)


def test_files_of_two_logs_of_a_source_are_no_batch() -> None:
    old_log = CommitTimes(highest=At(5_000, 5_001), highest_ts_ms=1_000_000, newest_ts_ms=1_000_040)
    new_log = CommitTimes(highest=At(1_000, 1_001), highest_ts_ms=1_060_000, newest_ts_ms=1_060_000)
    assert old_log + new_log == new_log + old_log
    mixed = EventPositions(partitions={None: PartitionEvents(times=old_log + new_log)})
    for ordering in EventOrdering:
        with pytest.raises(BadInputError, match=r"two logs of the source.*new snapshot.*new name.*new files only"):
            refuse_two_logs(ordering, mixed, "t")
        for log in (old_log, new_log, CommitTimes(), replace(new_log, newest_ts_ms=None)):
            refuse_two_logs(ordering, EventPositions(partitions={None: PartitionEvents(times=log)}), "t")
    parts: dict[str | None, PartitionEvents] = {
        "a-0": PartitionEvents(times=old_log),
        "b-0": PartitionEvents(times=new_log),
    }
    # Topics of two servers have positions of their own.
    refuse_two_logs(EventOrdering.PARTITION, EventPositions(partitions=parts), "t")
    with pytest.raises(BadInputError, match="two logs"):
        refuse_two_logs(EventOrdering.STREAM, EventPositions(partitions=parts), "t")


def test_no_advice_over_a_topic_is_one_for_files() -> None:
    ordering = EventOrdering.PARTITION
    mark = Mark(position=At(400, 500), ts_ms=90_000_000, since_ms=86_400_000)
    marks = EventMarks(ordering=ordering).merged(ordering, {"t-0": mark})
    below = EventsBelowMark(count=1, ts_ms=99_000_000, after_commit_ts_ms=99_000_000)
    started_again = EventPositions(partitions={"t-0": PartitionEvents(below_mark=below)})
    of_earlier = EventPositions(partitions={"t-0": PartitionEvents(above_mark_ts_ms=1)})
    times = CommitTimes(highest=At(5, 6), highest_ts_ms=1, newest_ts_ms=90_000)
    two_logs = EventPositions(partitions={"t-0": PartitionEvents(times=times)})
    refusals: list[Callable[[StreamRemedies], Any]] = [
        lambda remedies: count_repeated(ordering, marks, started_again, "t", remedies),
        lambda remedies: count_repeated(ordering, marks, of_earlier, "t", remedies),
        lambda remedies: refuse_two_logs(ordering, two_logs, "t", remedies),
    ]
    for refuse in refusals:
        with pytest.raises(BadInputError, match=r"a new name, and as starting a moment between") as caught:
            refuse(OF_TOPIC)
        assert re.search(r"\b(file|folder|path)", str(caught.value)) is None
        with pytest.raises(BadInputError, match=r"a new name and the new files only, by another path or folder"):
            refuse(StreamRemedies())


@pytest.mark.parametrize(
    ("applied", "asked"),
    [
        (EventOrdering.PARTITION, EventOrdering.PARTITION),
        (EventOrdering.PARTITION, EventOrdering.STREAM),
        (EventOrdering.STREAM, EventOrdering.PARTITION),
        (EventOrdering.STREAM, EventOrdering.UNKNOWN),
        (EventOrdering.PARTITION, EventOrdering.KEY),
    ],
)
def test_older_events_of_a_topic_are_refused_without_a_word_of_files(
    applied: EventOrdering, asked: EventOrdering
) -> None:
    mark = Mark(position=At(9, 9), ts_ms=5, consumed=((0, 5), (9, 9)))
    old = EventsBelowMark(count=3, ts_ms=4, offsets=((6, 8),))
    older = EventPositions(
        partitions={"t-0": PartitionEvents(mark=mark, below_mark=old)}, below_mark=old, below_key_floor=3
    )
    marks = EventMarks(ordering=applied).merged(applied, {"t-0": mark})
    if asked is EventOrdering.KEY:
        marks = marks.merged(asked, {})
    with pytest.raises(BadInputError, match="ordering='key'") as caught:
        count_repeated(asked, marks, older, "t", OF_TOPIC)
    assert re.search(r"\b(files?|folder|path)\b", str(caught.value)) is None


def test_an_applied_restart_begins_the_marks_anew() -> None:
    before, after = Mark(position=At(5_000, 5_001), ts_ms=1_000), Mark(position=At(1_000, 1_001), ts_ms=90_000)
    restarted = EventsBelowMark(count=1, ts_ms=90_000)
    for ordering in EventOrdering:
        marks = EventMarks(ordering=ordering).merged(ordering, {"t-0": before, "t-1": before})
        found = EventPositions(
            partitions={"t-0": PartitionEvents(mark=after, below_mark=restarted)}, below_mark=restarted
        )
        assert applied_marks(ordering, marks, found, again=True).floor("t-0") == after
        repeated = EventsBelowMark(count=1, ts_ms=900)
        again = EventPositions(
            partitions={"t-0": PartitionEvents(mark=replace(after, ts_ms=900), below_mark=repeated)},
            below_mark=repeated,
        )
        assert applied_marks(ordering, marks, again, again=True).floor("t-0") == before


def test_events_from_before_the_change_to_key_are_never_applied_over_rows_without_position() -> None:
    mark = Mark(position=At(9, 9), ts_ms=5)
    found = EventPositions(below_mark=EventsBelowMark(count=3, ts_ms=4), below_key_floor=2)
    for before in (EventOrdering.PARTITION, EventOrdering.UNKNOWN, EventOrdering.STREAM):
        marks: EventMarks | None = EventMarks(ordering=before).merged(before, {"t-0": mark})
        for position in (At(20, 20), At(30, 30)):
            assert marks is not None
            if before is EventOrdering.STREAM:
                assert count_repeated(EventOrdering.KEY, marks, found, "t") == 2
            else:
                with pytest.raises(BadInputError, match=r"below \[9, 9\].*went over to ordering='key'.*a new table"):
                    count_repeated(EventOrdering.KEY, marks, found, "t")
            newer = EventPositions(partitions={"t-0": PartitionEvents(mark=Mark(position=position))})
            marks = EventMarks.read(applied_marks(EventOrdering.KEY, marks, newer).to_text())
    filled_by_key = EventMarks(ordering=EventOrdering.KEY).merged(EventOrdering.KEY, {None: mark})
    assert filled_by_key.key_floor == (None, False)


def test_no_refusal_names_an_ordering_that_cannot_be_given() -> None:
    marks = EventMarks(ordering=EventOrdering.UNKNOWN).merged(EventOrdering.UNKNOWN, {None: Mark(position=At(9, 9))})
    old = EventsBelowMark(count=1)
    found = EventPositions(
        partitions={"t-0": PartitionEvents(mark=Mark(position=At(1, 1)), below_mark=old)}, below_mark=old
    )
    for ordering in (EventOrdering.PARTITION, EventOrdering.UNKNOWN):
        with pytest.raises(BadInputError, match="on_repeat='apply'") as refused:
            count_repeated(ordering, marks, found, "t")
        assert "unknown" not in str(refused.value)
