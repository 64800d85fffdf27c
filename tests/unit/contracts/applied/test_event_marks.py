"""The marks of change events: merged, forgotten and packed, against sets of plain numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied import event_marks
from airflow_lake_provider.contracts.applied.event_marks import EventMarks, EventOrdering, Mark, partition_digest
from airflow_lake_provider.contracts.applied.log_positions import PostgresLogPosition as At
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.sources import Debezium, source
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError

offset_sets = st.sets(st.integers(0, 70_000), max_size=30) | st.sets(st.integers(0, 60), max_size=50)


def ranges_of(offsets: set[int]) -> event_marks.Ranges:
    return event_marks.union((n, n) for n in offsets)


def offsets_of(ranges: event_marks.Ranges) -> set[int]:
    return {n for low, high in ranges for n in range(low, high + 1)}


marks = st.builds(
    Mark,
    position=st.builds(At, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)),
    ts_ms=st.none() | st.integers(-(2**40), 2**42),
    moved=st.booleans(),
    deleted=st.booleans(),
    consumed=offset_sets.map(ranges_of),
)


@given(one=offset_sets, other=offset_sets, last=st.integers(0, 70_000))
def test_ranges_of_offsets_are_sets_of_numbers(one: set[int], other: set[int], last: int) -> None:
    assert offsets_of(event_marks.union(ranges_of(one), ranges_of(other))) == one | other
    assert offsets_of(event_marks.missing(ranges_of(one), ranges_of(other))) == one - other
    assert offsets_of(event_marks.up_to(ranges_of(one), last)) == {n for n in one if n <= last}


@given(bits=st.sets(st.integers(0, event_marks.BUCKET - 1), max_size=200), bucket=st.integers(0, 3))
def test_a_bitmap_of_spark_stands_for_its_offsets(bits: set[int], bucket: int) -> None:
    bitmap = bytearray(event_marks.BUCKET // 8)
    for bit in bits:
        bitmap[bit // 8] |= 1 << bit % 8
    found = event_marks.of_bitmap(bucket, bytes(bitmap))
    assert found == ranges_of({bucket * event_marks.BUCKET + bit for bit in bits})


@given(one=marks, other=marks)
def test_a_merged_mark_is_the_greater_in_each_and_never_goes_back(one: Mark, other: Mark) -> None:
    merged = one.merged(other)
    assert merged == other.merged(one)
    assert merged.merged(one) == merged
    assert merged.position.to_plain() == max(one.position.to_plain(), other.position.to_plain())
    assert offsets_of(merged.consumed) == offsets_of(one.consumed) | offsets_of(other.consumed)


@given(
    table=st.none() | marks,
    partitions=st.dictionaries(st.integers(0, 20).map(lambda n: partition_digest(str(n))), marks, max_size=4),
    ordering=st.sampled_from(EventOrdering),
    unkeyed=st.none() | marks,
    name=st.none() | st.text(st.characters(codec="utf-8"), max_size=40),
)
def test_marks_are_read_from_the_property_as_they_were_written(
    table: Mark | None, partitions: dict[str, Mark], ordering: EventOrdering, unkeyed: Mark | None, name: str | None
) -> None:
    written = EventMarks(ordering=ordering, table=table, partitions=partitions, unkeyed=unkeyed, full_name=name)
    position = SourcePosition(generation=1, events=written)
    properties = position.to_properties("a")
    assert len(properties["lake.events.a"]) <= 3_500
    assert SourcePosition.read(properties, "a") == position
    assert SourcePosition.read(properties, "b").events is None


def test_offsets_that_do_not_fit_are_forgotten_from_the_oldest_on() -> None:
    scattered = Mark(position=At(5, 6), consumed=tuple((3 * n, 3 * n) for n in range(5_000)))
    few = Mark(position=At(7, 8), consumed=((0, 10), (20, 30)))
    marks = {partition_digest("t-0"): scattered, partition_digest("t-1"): few}
    text = EventMarks(ordering=EventOrdering.PARTITION, partitions=marks).to_text()
    read = EventMarks.read(text)
    assert read is not None
    assert 3_000 < len(text) <= 3_500
    assert read.partitions[partition_digest("t-1")] == few
    kept = read.partitions[partition_digest("t-0")].consumed
    assert kept == scattered.consumed[-len(kept) :]
    assert len(kept) > 900


def test_more_partitions_than_fit_are_refused_with_the_way_that_needs_no_marks() -> None:
    mark = Mark(position=At(2**48, 2**48 + 500), ts_ms=1_795_221_485_534, consumed=((0, 10**9),))
    fit = EventMarks(ordering=EventOrdering.PARTITION, partitions={f"{n:012x}": mark for n in range(75)})
    assert len(fit.to_text()) <= 3_500
    with pytest.raises(UnsupportedError, match=r"200 partitions.*ordering='key'"):
        EventMarks(ordering=EventOrdering.PARTITION, partitions={f"{n:012x}": mark for n in range(200)}).to_text()


def test_a_change_of_the_ordering_keeps_the_greatest_mark() -> None:
    low, high = (
        Mark(position=At(1, 1), ts_ms=9, consumed=((0, 3),)),
        Mark(position=At(5, 5), ts_ms=7, consumed=((0, 9),)),
    )
    empty = EventMarks(ordering=EventOrdering.PARTITION)
    by_partition = empty.merged(EventOrdering.PARTITION, {"t-0": low, "t-1": high})
    assert by_partition.floor("t-0") == low
    assert by_partition.floor("t-2") is None
    stream = by_partition.merged(EventOrdering.STREAM, {})
    assert (stream.table, dict(stream.partitions)) == (Mark(position=At(5, 5), ts_ms=9), {})
    again = stream.merged(EventOrdering.PARTITION, {"t-0": Mark(position=At(6, 6), consumed=((4, 4),))})
    assert again.floor("t-0") == Mark(position=At(6, 6), consumed=((4, 4),))
    assert again.floor("t-1") == Mark(position=At(5, 5), ts_ms=9)


def test_an_ordering_is_for_change_events_and_one_of_three() -> None:
    events = {"type": "debezium", "path": "in", "table": "orders"}
    assert source({**events, "ordering": "key"}) == Debezium("in", table="orders", ordering=EventOrdering.KEY)
    with pytest.raises(InvalidSpecError, match="'partition', 'stream', 'key'"):
        source({**events, "ordering": "unknown"})
    with pytest.raises(InvalidSpecError, match=r"source has no \['ordering'\]"):
        source({"type": "files", "path": "in", "format": "json", "ordering": "stream"})
