"""Tables that the lake page shows no more: dropped ones, and those that no look has seen for long."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.orm import Session

from airflow_lake_provider.plugins.lake_page.page_data import read_fleet, read_table
from tests.unit.plugins.fleet_of_entries import look_of, night_of
from tests.unit.plugins.left_entries import DAYS, NIGHT, NOW, fleet, leave, scores


def test_a_look_that_a_wrong_clock_dates_in_the_future_is_as_old_as_airflows_clock_says(session: Session) -> None:
    leave(session, look_of({"a.b": 10}, NIGHT + 9 * DAYS), NIGHT - DAYS)
    leave(session, night_of({"a.b": "failed"}, NIGHT + 9 * DAYS), NIGHT - DAYS, task="verdict")
    leave(session, look_of({"a.b": 20}, NIGHT))
    leave(session, night_of({"a.b": "done"}, NIGHT), task="verdict")
    assert [each.outcome for each in fleet(session).tables[0].outcomes] == ["done"]
    assert scores(fleet(session)) == {"a.b": 20}


def test_a_dropped_table_is_gone_though_a_dag_has_looked_at_its_last_change(session: Session) -> None:
    leave(session, look_of({"a.b": 10, "a.c": 10}, NIGHT - 2 * DAYS), NIGHT - 2 * DAYS)
    for table, at in (("a.b", NIGHT - DAYS), ("a.c", NIGHT + DAYS / 9)):
        leave(session, look_of({table: 5}, at, of_changed=True), at, dag_id="by_commits")
    leave(session, look_of({"a.d": 10}, NIGHT))
    # The one was dropped after its last change, the other was made again.
    assert {each.row.table: each.is_gone for each in fleet(session).tables} == {"a.b": True, "a.c": False, "a.d": False}


@pytest.mark.parametrize("nights", [1, 2, 3])
@pytest.mark.parametrize(
    "last",
    [{"of_changed": True}, {"tables": ["a.c"]}, {"tables": ["a.*"]}],
    ids=["by commits", "by hand", "before the patterns were edited"],
)
def test_a_dropped_table_stays_gone_whoever_has_seen_it_last(
    session: Session, last: dict[str, Any], nights: int
) -> None:
    before = NIGHT - 9 * DAYS
    leave(session, look_of({"a.b": 10, "a.c": 10}, before - DAYS / 9), before - DAYS / 9)
    leave(session, look_of({"a.c": 5}, before, **last), before, dag_id="other")
    for night in range(1, nights + 1):
        leave(session, look_of({"a.b": 10}, before + night * DAYS), before + night * DAYS)
    assert {each.row.table: each.is_gone for each in fleet(session).tables} == {"a.b": False, "a.c": True}
    page = read_table(session, {"nightly", "other"}, NOW, "lake", "a.c")
    assert page is not None
    assert page.state.is_gone


@pytest.mark.parametrize(
    "newer",
    [
        {"tables": ["x.*"]},
        {"tables": ["*", "!a.c"]},
        {"allowed": ["x.*"]},
        {"conn_id": "other"},
        {"of_changed": True},
        {"left_out": 3},
        {"allowed": None},
        {"parts": 2},
    ],
    ids=["patterns", "left out by !", "not allowed", "catalog", "changed", "cut", "of an earlier version", "broken"],
)
def test_a_look_that_would_not_have_seen_a_table_says_not_that_it_is_gone(
    session: Session, newer: dict[str, Any]
) -> None:
    leave(session, look_of({"a.c": 5}, NIGHT - DAYS, tables=["a.c"]), NIGHT - DAYS, dag_id="other")
    of_look = {name: value for name, value in newer.items() if name in ("tables", "conn_id", "of_changed")}
    entries = look_of({"a.b": 10}, NIGHT, **of_look)
    header = next(entry for key, entry in entries.items() if "rows" not in key and "details" not in key)
    header |= {name: value for name, value in newer.items() if name not in of_look}
    leave(session, entries)
    assert {each.row.table: each.is_gone for each in fleet(session).tables}["a.c"] is False


def test_a_look_whose_rows_a_user_may_not_see_says_of_no_table_that_it_is_gone(session: Session) -> None:
    leave(session, look_of({"a.c": 5}, NIGHT - DAYS, tables=["a.c"]), NIGHT - DAYS, dag_id="mine")
    leave(session, look_of({"a.c": 7}, NIGHT), NIGHT, dag_id="theirs")
    (table,) = read_fleet(session, {"mine"}, NOW, {("lake", "a.other")}).tables
    assert (table.row.score, table.is_gone) == (5, False)


def test_tables_are_not_gone_where_the_newest_look_cannot_be_read(session: Session) -> None:
    leave(session, look_of({"a.b": 10}, NIGHT - DAYS), NIGHT - DAYS)
    entries = look_of({"a.b": 10}, NIGHT)
    leave(session, {key: value for key, value in entries.items() if not key.startswith("lake_fleet_rows")})
    assert [each.is_gone for each in fleet(session).tables] == [False]


def test_an_old_look_is_said_to_be_old(session: Session) -> None:
    leave(session, look_of({"a.b": 10}, NIGHT - 5 * DAYS), NIGHT - 5 * DAYS)
    (table,) = fleet(session).tables
    assert (table.is_old, table.seen_at) == (True, NIGHT - 5 * DAYS)
