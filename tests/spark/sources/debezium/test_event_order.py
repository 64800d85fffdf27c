"""Places in the log: what comes after what on one key, by a model of the server that knows it."""

from __future__ import annotations

import os
import random
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.position_column import PlaceTypes
from airflow_lake_provider.spark_jobs.sources.cdc.event_order import is_later, with_ordinals
from tests.source_log import SourceLog, Told

TYPES = PlaceTypes()
_PLACE = TYPES.place
_ROW_STATE = f"STRUCT<since: {_PLACE}, older: MAP<STRING, {_PLACE}>>"
_EVENTS = (
    f"key STRUCT<k: BIGINT>, op STRING, at STRING, ordinal BIGINT, place {_PLACE}, row_state {_ROW_STATE}, "
    f"values_up_to {_PLACE}"
)
Line = list[Told]


def lines(seed: int, count: int) -> list[Line]:
    """Some events of each key of many histories, each told once, in order."""
    found: list[Line] = []
    for number in range(count):
        draw = random.Random(seed * count + number)
        log = SourceLog(draw)
        by_key: dict[int, Line] = defaultdict(list)
        for event in log.run(30):
            if draw.random() < 0.7:
                by_key[event.key].append(log.as_told_again(event))
        found += by_key.values()
    return found


def place(event: Told) -> tuple[int, int | None, int, bool]:
    return event.lsn, event.last_commit, event.ts_ms, event.snapshot


# One example has 300 histories, and takes two jobs.
@settings(max_examples=int(os.environ.get("LAKE_EXAMPLES", "2")), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_events_stand_in_the_order_of_their_commits_whatever_commit_they_tell(spark: SparkSession, seed: int) -> None:
    made = lines(seed, 300)
    rows = [
        ((number,), "r" if event.snapshot else "u", "", event.lsn, place(event), None, None)
        for number, line in enumerate(made)
        for event in line
    ]
    found = with_ordinals(spark.createDataFrame(rows, _EVENTS), TYPES).select("key.k", "place", "ordinal").collect()
    numbers = {(row["k"], row["place"]["lsn"], row["place"]["snapshot"]): row["ordinal"] for row in found}
    for number, line in enumerate(made):
        given_numbers = [numbers[number, event.lsn, event.snapshot] for event in line]
        assert given_numbers == sorted(set(given_numbers)), line
    assert any(line != sorted(line, key=lambda event: event.lsn) for line in made)


@settings(max_examples=int(os.environ.get("LAKE_EXAMPLES", "2")), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_two_places_compare_as_they_do_in_a_line(spark: SparkSession, seed: int) -> None:
    pairs = [
        (place(one), place(other), i > j)
        for line in lines(seed, 100)
        for i, one in enumerate(line)
        for j, other in enumerate(line)
    ]
    frame = spark.createDataFrame(pairs, f"one {_PLACE}, other {_PLACE}, is_later BOOLEAN")
    wrong = frame.filter(is_later(sf.col("one"), sf.col("other")) != sf.col("is_later"))
    assert wrong.collect() == []


def test_places_that_a_row_remembers_stand_in_the_line_of_its_key(spark: SparkSession) -> None:
    """A row at 120 has a value of the snapshot at 100; an event at 90 comes late, of a transaction that was open."""
    snapshot, late, row = (100, None, 5_000, True), (90, 105, 5_000, False), (120, 110, 6_000, False)
    rows = [
        ((1,), "row", "", 120, row, (snapshot, {"note": snapshot, "n": (95, 105, 5_000, False)}), None),
        ((1,), "u", "", 90, late, None, None),
        ((2,), "d", "", 120, row, None, snapshot),
        ((2,), "u", "", 90, late, None, None),
    ]
    found = with_ordinals(spark.createDataFrame(rows, _EVENTS), TYPES).orderBy("key", "ordinal").collect()
    assert [row["ordinal"] for row in found] == [90, 120, 90, 120]
    assert (found[1]["row_ordinals"]["since"], found[1]["row_ordinals"]["older"]) == (89, {"note": 89, "n": 95})
    assert found[3]["values_up_to"] == 89
