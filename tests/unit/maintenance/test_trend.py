"""The trend of a table as XCom has it: short enough whatever the table is named, and true to a thousandth."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from airflow_lake_provider.maintenance.trend import MOST_BYTES, MOST_POINTS, TrendPoint, trend_entry, trend_points

AT = datetime(2026, 11, 26, 3, 4, 5, tzinfo=UTC)
COUNTS = st.none() | st.integers(-1, 2**70)
MOMENTS = st.datetimes(timezones=st.just(UTC))
POINTS = st.builds(
    TrendPoint,
    at=MOMENTS,
    outcome=st.text(),
    score=st.none() | st.integers(),
    files=COUNTS,
    bytes=COUNTS,
    deletes=COUNTS,
)
NAMES = st.text(max_size=2000) | st.text("\x00\ud800😀", min_size=200, max_size=2000)
LARGEST = [
    TrendPoint(
        at=datetime(1 if number % 2 else 9999, 1, 1, tzinfo=UTC),
        outcome="a" * 99,
        score=100,
        files=2**63,
        bytes=2**63,
        deletes=2**63,
    )
    for number in range(MOST_POINTS)
]


@given(NAMES, st.lists(POINTS, max_size=40))
@example("😀" * 500, LARGEST)
@example("a" * 160, LARGEST)
def test_an_entry_never_has_more_than_a_kilobyte(name: str, points: list[TrendPoint]) -> None:
    entry = trend_entry(name, points)
    # In ASCII, which is the longest form that Airflow may store.
    assert len(json.dumps(entry)) <= MOST_BYTES
    assert len(entry["score"].split()) == min(len(points), MOST_POINTS)


@given(st.lists(st.integers(0, 10**18), min_size=1, max_size=MOST_POINTS))
def test_a_count_is_read_back_to_a_thousandth_of_the_largest(counts: list[int]) -> None:
    points = [TrendPoint(at=AT + timedelta(days=number), bytes=count) for number, count in enumerate(counts)]
    entry = trend_entry("shop.orders", points)
    most = entry["most"][1]
    assert most == max(counts)
    for item, count in zip(map(int, entry["bytes"].split()), counts, strict=True):
        assert math.isclose(most * item / 999, count, abs_tol=most / 999)


def test_two_long_names_never_become_one() -> None:
    long = "a" * 500
    names = {trend_entry(f"{long}.{suffix}", [])["table"] for suffix in "bc"}
    assert len(names) == 2
    assert trend_entry("shop.orders", [])["table"] == "shop.orders"


def row(run: str, hour: int, **counts: Any) -> dict[str, Any]:
    """Return a row of the history."""
    none = dict.fromkeys(("score_before", "data_files_after", "bytes_after", "delete_files_after"))
    at = AT + timedelta(hours=hour)
    return {**none, "table_name": "shop.orders", "run_key": run, "ended_at": at, "outcome": "done", **counts}


def test_a_run_is_one_point_with_what_its_last_action_has_left() -> None:
    rows = [
        row("b", 25, score_before=60, data_files_after=2, outcome="failed"),
        row("a", 0, score_before=40, data_files_after=9, delete_files_after=7, bytes_after=90),
        row("a", 1, score_before=40, data_files_after=4),
    ]
    points = trend_points(rows)["shop.orders"]
    assert [(each.score, each.files, each.deletes, each.outcome) for each in points] == [
        (40, 4, 7, "done"),
        (60, 2, None, "failed"),
    ]
    assert trend_entry("shop.orders", points) == {
        "version": 1,
        "table": "shop.orders",
        "at": "2026-11-27T04:04:05+00:00",
        "outcome": "failed",
        "hours": "24 0",
        "score": "40 60",
        "files": "999 500",
        "bytes": "999 -1",
        "deletes": "999 -1",
        "most": [4, 90, 7],
    }
