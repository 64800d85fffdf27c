"""Offsets of a topic that runs read after each other, against a plain model of a topic."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.positions import OffsetsPosition
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.spark_jobs.sources.kafka.cluster import TopicOffsets
from airflow_lake_provider.spark_jobs.sources.kafka.offsets import TopicListing, lost_in_words, shares

NOTHING = SourcePosition()
COUNTS = st.dictionaries(st.sampled_from("0123"), st.integers(0, 50), min_size=1)


def listed(
    ends: dict[str, int], earliest: dict[str, int] | None = None, most: int | None = None, topic: str = "a"
) -> TopicListing:
    first = {**dict.fromkeys(ends, 0), **(earliest or {})}
    return TopicListing.of(TopicOffsets(id=topic, earliest=first, beginning=first, end=ends), most, "s", {"topic": "x"})


@given(COUNTS, st.none() | st.integers(1, 60))
def test_shares_are_as_many_as_asked_for_and_none_is_more_than_waits(waiting: dict[str, int], most: int | None) -> None:
    taken = shares(waiting, most)
    total = sum(waiting.values())
    assert sum(taken.values()) == (total if most is None else min(total, most))
    assert all(0 <= taken[name] <= count for name, count in waiting.items())
    if most is not None and total > most:
        assert all(abs(taken[name] - count * most / total) < 1 for name, count in waiting.items())


@given(st.lists(st.tuples(COUNTS, COUNTS), max_size=8), st.none() | st.integers(1, 20))
def test_runs_read_or_count_as_lost_each_offset_once_whatever_grows_and_goes(
    steps: list[tuple[dict[str, int], dict[str, int]]], most: int | None
) -> None:
    ends, earliest, position = {"0": 0}, {"0": 0}, NOTHING
    seen: dict[str, list[int]] = {}
    for more, gone in steps:
        for name, count in more.items():
            ends[name] = ends.get(name, 0) + count
        for name, count in gone.items():
            if name in ends and position is not NOTHING:
                earliest[name] = min(ends[name], earliest.get(name, 0) + count)
        listing = listed(dict(ends), dict(earliest), most)
        wanted = listing.beyond(position)
        if wanted.is_empty:
            assert listing.position_after(position, None) == position
            continue
        read = 0
        for name, (start, end) in wanted.ranges.items():
            seen.setdefault(name, []).extend(range(start, end))
            read += end - max(start, listing.topic.earliest[name])
        assert most is None or read <= most
        assert read + sum(wanted.lost.values()) == sum(end - start for start, end in wanted.ranges.values())
        position = listing.position_after(position, None)
        assert SourcePosition.read(position.to_properties("s"), "s") == position
    # No offset twice, none left out.
    for name, offsets in seen.items():
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
        assert most is not None or len(offsets) + offsets[0] == ends[name]


def test_a_table_that_has_nothing_begins_at_the_first_record_that_is_there() -> None:
    listing = listed({"0": 9, "1": 5}, {"0": 4})
    assert listing.beyond(NOTHING).ranges == {"0": (4, 9), "1": (0, 5)}
    assert listing.beyond(NOTHING).lost == {}
    after = listing.position_after(NOTHING, None)
    assert after.of(OffsetsPosition) == OffsetsPosition({"0": 9, "1": 5}, "a")
    assert (after.generation, after.shape) == (1, {"topic": "x"})


def test_what_is_gone_is_told_with_its_partitions() -> None:
    after = listed({"0": 5, "1": 5}).position_after(NOTHING, None)
    wanted = listed({"0": 9, "1": 9, "2": 3}, {"0": 7, "2": 1}, most=4).beyond(after)
    assert lost_in_words(wanted) == "3 offsets that no run has applied: 2 of partition 0, 1 of partition 2"
    assert wanted.new_partitions == ("2",)
    assert wanted.waiting == 4
    assert wanted.applied(wanted, after) == (
        "applied the offsets of partitions 0: 7 to 7, 1: 5 to 6, 2: 1 to 1; gone before they were read are 3 offsets "
        "that no run has applied: 2 of partition 0, 1 of partition 2; 4 offsets wait for the next run"
    )


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (listed({"0": 9}, topic="b"), "its id was a and is b"),
        (listed({"0": 3, "1": 9}), "partition 0 ends at offset 3, and offset 4 was applied"),
        (listed({"0": 9}), "its partitions 1 are gone"),
    ],
)
def test_a_topic_that_is_made_anew_is_recognised_and_its_position_begins_anew(now: Any, says: str) -> None:
    after = listed({"0": 5, "1": 5}).position_after(NOTHING, None)
    assert now.beyond(after).remade == says
    assert not now.beyond(after).is_empty
    # Where all of it is asked for.
    again = now.position_after(after, None)
    assert again.of(OffsetsPosition) == OffsetsPosition(now.topic.end, now.topic.id)
    assert now.beyond(again).is_empty
