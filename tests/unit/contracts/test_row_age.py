"""The clock of an expiry of rows, and the value below which rows go, against plain dates."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.row_age import AgeLimit, Clock, age_limit, age_sentence, most_rows
from airflow_lake_provider.contracts.specs.maintenance import RowExpirySpec
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.contracts.table_properties import ACTION

NOW = datetime(2026, 11, 26, 12, 30, tzinfo=UTC)
COLUMNS = {"at": "timestamptz", "local": "timestamp", "day": "date", "name": "string", "nanos": "timestamp_ns"}


def spec(column: str = "at", **given: Any) -> RowExpirySpec:
    return RowExpirySpec(**{"table": "shop.orders", "column": column, "keep": timedelta(days=30), **given})


def commit(days: float, operation: str = "append", **counts: int) -> Snapshot:
    """Return a commit of so many days ago."""
    summary = {"operation": operation, **{name.replace("_", "-"): str(count) for name, count in counts.items()}}
    at = int((NOW - timedelta(days=days)).timestamp() * 1000)
    return Snapshot(id=str(days), parent=None, at=at, summary={"total-records": "1", **summary})


def action(snapshot: Snapshot, name: str) -> Snapshot:
    return replace(snapshot, summary={**snapshot.summary, ACTION: name})


def moment(*history: Snapshot, **given: Any) -> datetime | None:
    limit = age_limit(spec(**given), COLUMNS, NOW, history)
    return None if limit is None else limit.moment


ARRIVED = commit(9, added_records=5)


@pytest.mark.parametrize(
    "newer",
    [
        commit(1, "delete", deleted_records=5),
        commit(1, "overwrite", added_records=3, deleted_records=5),
        commit(1, "overwrite", added_delete_files=1, added_position_deletes=2),
        commit(1, "replace", added_records=5, deleted_records=5),
        commit(1, "overwrite", added_records=5, deleted_records=5),
        action(commit(1, "overwrite", added_records=5, deleted_records=5), "update-rows"),
        commit(1, "overwrite", added_records=5, added_position_deletes=9, removed_position_deletes=4),
        commit(1, "overwrite", added_equality_deletes=4),
    ],
    ids=[
        *("files deleted", "a deletion that writes anew", "deletes by position", "a compaction"),
        *("a compaction by an overwrite", "our update that writes anew"),
        *("an update by vectors", "deletes by equality"),
    ],
)
def test_what_brings_no_rows_does_not_move_the_clock_so_a_stalled_feed_keeps_its_rows(newer: Snapshot) -> None:
    assert moment(newer, ARRIVED) == NOW - timedelta(days=39)


@pytest.mark.parametrize(
    "newer",
    [
        commit(1, added_records=1),
        commit(1, "overwrite", added_records=5, deleted_records=4),
        commit(1, "overwrite", added_records=5, added_equality_deletes=5),
        action(commit(1, "overwrite", added_records=5, deleted_records=5), "upsert"),
    ],
    ids=["an append", "a merge that writes anew", "an upsert of Flink", "our upsert that writes anew"],
)
def test_rows_that_arrive_move_the_clock(newer: Snapshot) -> None:
    assert moment(newer, ARRIVED) == NOW - timedelta(days=31)


PARTS = {
    "an overwrite": [(5, 0), (0, 5)],
    "an overwrite by fewer": [(3, 0), (0, 5)],
    "an upsert of rows that were there": [(5, 0), (0, 2), (0, 3)],
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_parts_of_one_commit_bring_rows_together_or_not_at_all(parts: list[tuple[int, int]]) -> None:
    one = [
        commit(1 + n, "append" if new else "delete", added_records=new, deleted_records=old)
        for n, (new, old) in enumerate(parts)
    ]
    shared = [replace(each, shares_commit=True) for each in one[:-1]]
    assert moment(*shared, one[-1], ARRIVED) == NOW - timedelta(days=39)
    # Of commits of their own, the append brings its rows.
    assert moment(*one, ARRIVED) == NOW - timedelta(days=31)


def test_nobody_knows_the_age_of_rows_whose_arrival_is_forgotten() -> None:
    assert moment(commit(1, "replace", added_records=5, deleted_records=5)) is None
    assert moment() is None
    assert moment(clock=Clock.NOW) == NOW - timedelta(days=30)


def test_a_writer_whose_clock_is_ahead_makes_no_row_older() -> None:
    assert moment(commit(-400, added_records=1)) == NOW - timedelta(days=30)


@pytest.mark.parametrize(("kind", "day"), [("date", 26), ("timestamp", 26), ("timestamptz", 26)])
@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))])
def test_values_count_as_utc_and_a_date_goes_once_its_whole_day_is_old(kind: str, day: int, zone: timezone) -> None:
    limit = AgeLimit(column="x", kind=kind, moment=NOW.astimezone(zone))
    expected = {"date": "2026-11-26", "timestamp": "2026-11-26T12:30:00", "timestamptz": "2026-11-26T12:30:00+00:00"}
    assert limit.literal == expected[kind]
    since = date(2026, 11, day) - date(1970, 1, 1)
    assert limit.number == (since.days if kind == "date" else int(NOW.timestamp() * 1_000_000))


@pytest.mark.parametrize(
    ("column", "why"),
    [("name", "is of type string"), ("nanos", "is of type timestamp_ns"), ("gone", "none of its columns")],
)
def test_a_column_without_a_time_is_refused(column: str, why: str) -> None:
    with pytest.raises(InvalidSpecError, match=why):
        moment(ARRIVED, column=column)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"keep": "PT23H"}, "keep must be at least P1D"),
        ({"keep": timedelta(days=40_000)}, "at most P36500D"),
        ({"max_share": 0.0}, r"max_share is a share in \(0, 1\]"),
        ({"max_share": 1.5}, "max_share is a share"),
        ({"max_attempts": 0}, "max_attempts must be at least 1"),
        ({"clock": "yesterday"}, "clock must be one of 'last-commit', 'now'"),
        ({"catalog": "lake", "asked_at": datetime(2026, 1, 1)}, "a moment with a zone"),  # noqa: DTZ001
    ],
)
def test_what_cannot_be_is_refused_before_spark(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidSpecError, match=why):
        spec(**given).checked()


@pytest.mark.parametrize("share", ["0.29", "0.35", "0.57", "0.1", "0.999"])
def test_a_share_lets_go_what_its_decimal_number_says(share: str) -> None:
    for total in (100, 180, 340, 1_000, 1_500, 10**15):
        assert most_rows(float(share), total) == math.floor(Decimal(share) * total)
    assert most_rows(1.0, 100) is None


def test_a_retry_is_the_same_run_whenever_it_asks() -> None:
    texts = {spec(asked_at=NOW + timedelta(days=n), max_share=0.1 * (n + 1)).digest_text() for n in range(3)}
    assert len(texts) == 1
    assert spec(keep=timedelta(days=31)).digest_text() not in texts


@pytest.mark.parametrize("clock", list(Clock))
@pytest.mark.parametrize("column", ["at", "local", "day"])
def test_the_limit_of_a_dry_run_holds_though_rows_have_arrived_since(column: str, clock: Clock) -> None:
    looked = age_limit(spec(column, clock=clock), COLUMNS, NOW, [ARRIVED])
    assert looked is not None
    later, newer = NOW + timedelta(days=2), commit(-1, added_records=1)
    without = age_limit(spec(column, clock=clock), COLUMNS, later, [newer, ARRIVED])
    asked = spec(column, clock=clock, before=looked.literal)
    limit = age_limit(asked, COLUMNS, later, [newer, ARRIVED])
    assert limit is not None
    assert without is not None
    assert limit.literal == looked.literal < without.literal
    assert f"before {looked.literal}, as asked, are too old" in age_sentence(asked, limit)
    # It lets nothing go that is not old enough.
    assert age_limit(spec(column, clock=clock, before="2999-01-01"), COLUMNS, later, [newer, ARRIVED]) == without


@pytest.mark.parametrize("before", ["yesterday", "None", "2026-13-01", 20261127, "0001-01-01T00:00+14:00"])
def test_what_is_no_value_of_a_column_of_time_is_refused(before: Any) -> None:
    with pytest.raises(InvalidSpecError, match="before must"):
        spec(before=before)
