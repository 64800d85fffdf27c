"""Offsets of a topic that runs read after each other, against a plain model of a topic."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.positions import OffsetsPosition
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.author.merge_engines import Aggregation, Deduplicate, FirstRow, History
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.formats.base import AppliedState
from airflow_lake_provider.spark_jobs.sources.kafka.cluster import TopicOffsets
from airflow_lake_provider.spark_jobs.sources.kafka.offsets import (
    TopicListing,
    lost_in_words,
    refuse_unordered_share,
    shares,
)
from airflow_lake_provider.spark_jobs.sources.named_inputs import InputsListing
from airflow_lake_provider.spark_jobs.sources.new_input import decide_input

NOTHING = SourcePosition()
LAKE: dict[str, Any] = {"catalog": "lake", "table": "shop.orders", "run": RunIdentity.of("dag", "run", "task", "-1")}
COUNTS = st.dictionaries(st.sampled_from("0123"), st.integers(0, 50), min_size=1)


def listed(
    ends: dict[str, int],
    earliest: dict[str, int] | None = None,
    most: int | None = None,
    topic: str = "a",
    stop: dict[str, int] | None = None,
) -> TopicListing:
    first = {**dict.fromkeys(ends, 0), **(earliest or {})}
    offsets = TopicOffsets(id=topic, earliest=first, beginning=first, end=ends)
    return TopicListing.of(offsets, most, "s", {"topic": "x"}, stop)


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


@pytest.mark.parametrize(
    ("read", "last_commit", "most", "moves"),
    [
        (9_999, timedelta(minutes=59), None, False),
        (10_000, timedelta(0), None, True),
        (1, timedelta(minutes=61), None, True),
        # Its snapshot has expired, or no commit was of this source.
        (1, None, None, True),
        (0, None, None, False),
        # Some wait, so the next run would read the same.
        (3, timedelta(0), 2, True),
    ],
)
def test_records_without_a_row_are_consumed_when_there_are_many_or_it_is_time(
    read: int, last_commit: timedelta | None, most: int | None, moves: bool
) -> None:
    after = listed({"0": 5, "1": 5}).position_after(NOTHING, None)
    wanted = listed({"0": 5 + read, "1": 5}, {"0": 4}, most).beyond(after)
    moved_at = None if last_commit is None else wanted.at - last_commit
    assert wanted.has_to_move(moved_at) is moves
    both = InputsListing(source_name="s", whole={"t": wanted}, wanted={"t": wanted})
    assert both.has_to_move(moved_at) is moves


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
        (listed({"0": 9, "1": 9}, topic="b"), "its id was a and is b"),
        # Of another cluster, where its broker tells none.
        (listed({"0": 9, "1": 9}, topic=""), "its id was a and is told by none of the brokers"),
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


@pytest.mark.parametrize(("then", "now"), [("", "a"), ("", "")])
def test_a_topic_whose_id_the_broker_did_not_tell_goes_on_and_keeps_the_one_that_it_gets(then: str, now: str) -> None:
    after = listed({"0": 5}, topic=then).position_after(NOTHING, None)
    grown = listed({"0": 7}, topic=now)
    wanted = grown.beyond(after)
    assert (wanted.remade, wanted.ranges, grown.consumed_by(after)) == ("", {"0": (5, 7)}, 1)
    assert grown.position_after(after, None).of(OffsetsPosition) == OffsetsPosition({"0": 7}, then or now)
    # One that was made anew still is recognised by its end.
    assert listed({"0": 3}, topic=now).beyond(after).remade.startswith("partition 0 ends at offset 3")


@given(COUNTS, st.lists(st.tuples(COUNTS, COUNTS), max_size=6), st.integers(1, 20), st.booleans())
def test_a_run_that_goes_on_reads_what_was_there_at_its_start_once_and_nothing_else(
    waiting: dict[str, int], steps: list[tuple[dict[str, int], dict[str, int]]], most: int, is_named: bool
) -> None:
    ends, earliest, position = dict(waiting), dict.fromkeys(waiting, 0), NOTHING
    seen: dict[str, list[int]] = {name: [] for name in ends}
    commits: list[tuple[str, ...]] = []
    begin: dict[str, int] = {}
    while True:
        # Meanwhile others write, partitions come, and retention goes on.
        more, gone = steps.pop() if steps else ({}, {})
        ends |= {name: ends.get(name, 0) + count for name, count in more.items()}
        earliest |= {name: min(ends[name], earliest.get(name, 0) + gone.get(name, 0)) for name in ends}
        begin = begin or dict(earliest)
        now = listed(dict(ends), dict(earliest), most, stop=waiting)
        whole: Any = of_inputs(now) if is_named else now
        commits.append(whole.identities_behind(position))
        part: Any = whole.beyond(position)
        wanted = part.wanted["o"] if is_named else part
        for name, (start, end) in wanted.ranges.items():
            seen[name] += range(start, end)
        position = whole.position_after(position, None)
        if not part.goes_on:
            break
    assert all(sorted(read) == read and len(set(read)) == len(read) for read in seen.values())
    assert all(set(range(begin[name], end)) <= set(seen[name]) for name, end in waiting.items())
    # What is beyond was lost while the run went on.
    assert all(offset < max(waiting[name], earliest[name]) for name, read in seen.items() for offset in read)
    assert len(set(commits)) == len(commits)
    assert listed(ends, earliest, most, stop=waiting).beyond(position.of_input("o" if is_named else "")).is_empty


def of_inputs(listing: TopicListing, name: str = "o") -> InputsListing:
    return InputsListing(source_name="s", shape={}, whole={name: listing}, wanted={name: listing})


@pytest.mark.parametrize("most", [None, 1])
@pytest.mark.parametrize("wrap", [lambda listing: listing, of_inputs])
def test_a_topic_under_another_name_is_not_added_again_though_each_partition_has_grown(most: Any, wrap: Any) -> None:
    before = wrap(listed({"0": 5, "1": 9})).position_after(NOTHING, None)
    spec = AppendSpec(**LAKE, source=KafkaTopic("kafka", "orders", schema="id BIGINT", name="new"))
    grown = wrap(listed({"0": 6, "1": 10}, most=most))
    with pytest.raises(BadInputError, match=r"under the name old, and an append would add them twice.*name='old'"):
        decide_input(spec, AppliedState(), grown, lambda: {"old": before})
    # What the broker has removed is not read again, and another topic is another one.
    cut = wrap(listed({"0": 6, "1": 10}, {"0": 5, "1": 9}))
    other = wrap(listed({"0": 6, "1": 10}, topic="b"))
    for unknown in (cut, other):
        assert decide_input(spec, AppliedState(), unknown, lambda: {"old": before}).warnings == ()


def test_a_single_topic_goes_on_from_the_named_input_that_it_was() -> None:
    named = of_inputs(listed({"0": 5})).position_after(NOTHING, None)
    now = listed({"0": 7})
    assert now.beyond(named).ranges == {"0": (5, 7)}
    after = now.position_after(named, None)
    assert (after.of(OffsetsPosition), after.generation) == (OffsetsPosition({"0": 7}, "a"), 2)
    assert now.beyond(after).is_empty
    # Back again, all of it is new, which an append refuses.
    assert of_inputs(listed({"0": 9})).new_inputs(after) == ("o",)
    # An input of another topic says nothing.
    assert listed({"0": 7}, topic="b").beyond(named).ranges == {"0": (0, 7)}


def test_a_share_is_told_from_all_that_waits() -> None:
    part, whole = listed({"0": 5}, most=2).beyond(NOTHING), listed({"0": 5}).beyond(NOTHING)
    assert [each.is_share for each in (part, whole, of_inputs(part), of_inputs(whole))] == [True, False, True, False]


KEYED = KafkaTopic("kafka", "orders", schema="n BIGINT", key_schema="id BIGINT, region STRING", max_records=3, name="s")
LATER: dict[str, Any] = {"metadata_columns": ["timestamp"], "tombstones": "skip"}
TIMED = KafkaTopic("kafka", "orders", schema="n BIGINT, id BIGINT", max_records=3, name="s", **LATER)
GROWN = listed({"0": 5, "1": 5}, most=3).beyond(listed({"0": 1}).position_after(NOTHING, None))
SHARE = listed({"0": 5, "1": 5}, most=3).beyond(NOTHING)
BY_TIME: dict[str, Any] = {"source": TIMED, "order_by": ("kafka_timestamp",)}


@pytest.mark.parametrize(
    ("listing", "given", "says"),
    [
        (SHARE, {}, "leaves 7 records of topic orders to others, and records of one key may be in several"),
        (SHARE, {"merge_engine": FirstRow()}, "Leave max_records out, or give order_by with"),
        (SHARE, BY_TIME, "or all columns of key_schema among the keys"),
        (SHARE, {**BY_TIME, "merge_engine": History(at="2026-01-01T00:00:00Z")}, "an older one may come after"),
        (SHARE, {"source": TIMED, "merge_engine": Aggregation({"n": "last"})}, "take its place"),
        (SHARE, {"source": TIMED, "merge_engine": Aggregation({"n": "sum"}), "delete_when": "n < 0"}, "take its place"),
        (GROWN, {}, "partitions 1 are new, which moves keys .* Leave max_records out for this run"),
        (SHARE, {**BY_TIME, "merge_engine": Deduplicate(ignore_stale=True)}, None),
        (SHARE, {**BY_TIME, "merge_engine": History()}, None),
        (SHARE, {"source": TIMED, "merge_engine": Aggregation({"n": "sum"})}, None),
        (listed({"0": 5, "1": 5}).beyond(NOTHING), {}, None),
    ],
)
def test_a_share_without_an_order_of_keys_is_refused_where_a_later_run_would_win(
    listing: TopicListing, given: dict[str, Any], says: str | None
) -> None:
    spec = UpsertSpec(**{**LAKE, "source": KEYED, "keys": ("id",), **given})
    if says is None:
        refuse_unordered_share(spec, TIMED, listing, ["n"])
        return
    with pytest.raises(BadInputError, match=says):
        refuse_unordered_share(spec, TIMED, listing, ["n"])


def test_a_share_of_an_append_has_no_order_and_one_below_a_query_has_columns_that_nobody_knows() -> None:
    refuse_unordered_share(AppendSpec(**LAKE, source=TIMED), TIMED, SHARE, ["n"])
    below = KafkaTopic("kafka", "orders", schema="n BIGINT", max_records=3, **LATER)
    made = Query("SELECT n AS id, n FROM source", over=below, name="s")
    with pytest.raises(BadInputError, match="take its place"):
        refuse_unordered_share(
            UpsertSpec(**LAKE, source=made, keys=("id",), merge_engine=Aggregation({"n": "sum"})), below, SHARE, ["n"]
        )


def test_a_run_that_goes_on_keeps_what_another_one_consumed_of_a_new_partition() -> None:
    end = {"0": 15, "1": 15}
    ours = listed({**end, "2": 5}, most=10, stop=end)
    first = listed(end, most=10, stop=end).position_after(NOTHING, None)
    position = listed({"0": 5, "1": 5, "2": 5}).position_after(first, None)
    while not ours.beyond(position).is_empty:
        position = ours.position_after(position, None)
    assert listed({**end, "2": 5}).beyond(position).is_empty
