"""Nights in a row: a plan begins at one hour, its work ends later, and what is asked for each day comes each night."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_lake_provider.maintenance.health import OrphanCount, TableHealth
from airflow_lake_provider.maintenance.history import MaintenanceRun
from airflow_lake_provider.maintenance.past_outcomes import PastOutcome
from airflow_lake_provider.maintenance.planner import plan_of
from tests.unit.maintenance.plans_of_numbers import AGED, SMALL, WELL, hot, policy

FIRST = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)
NIGHTS = 15
Seen = tuple[dict[str, Any], list[PastOutcome]]


def outcomes(action: str, word: str, ended: datetime | None) -> list[PastOutcome]:
    return [] if ended is None else [PastOutcome(action=action, run="r", at=ended, outcome=word)]


def statistics(now: datetime, ended: datetime | None) -> Seen:
    return {"statistics_at": ended, "last_data_commit": now - timedelta(hours=1)}, []


def orphans(now: datetime, ended: datetime | None) -> Seen:
    return {"orphans": None if ended is None else OrphanCount(files=0, bytes=0, counted_at=ended)}, []


def failed_looks(now: datetime, ended: datetime | None) -> Seen:
    # Of each other night, as three failures in a row have a rest of their own.
    return {}, [] if ended is None or now.day % 2 else outcomes("remove-orphans", "failed", ended)


def old_rows(now: datetime, ended: datetime | None) -> Seen:
    return {"last_arrival": now - timedelta(hours=1)}, outcomes("expire-rows", "done", ended)


def compactions(now: datetime, ended: datetime | None) -> Seen:
    runs = {} if ended is None else {"compaction": MaintenanceRun(snapshot="5", at=ended)}
    return {"files": SMALL, "last_maintenance": runs}, []


def hot_tables(now: datetime, ended: datetime | None) -> Seen:
    given, past = compactions(now, ended)
    return {**given, "hot_partitions": (replace(hot(""), newest=now - timedelta(minutes=5)),)}, past


def tags(now: datetime, ended: datetime | None) -> Seen:
    # A retry finds the tag of its first try.
    return {"snapshot_at": FIRST - timedelta(days=9)}, outcomes("create-tag", "nothing-due", ended)


def nights_of(action: str, settings: dict[str, Any], seen: Any, minutes: int) -> list[int]:
    """Return the nights with an action whose work ends so many minutes after the plan."""
    ended, nights = None, []
    for night in range(NIGHTS):
        # A scheduler is some seconds late, and not always as many.
        now = FIRST + timedelta(days=night, seconds=20 - night)
        given, past = seen(now, ended)
        health: TableHealth = replace(WELL, **given)
        if action in {each.action for each in plan_of(health, policy(**settings), now, past).actions}:
            nights.append(night)
            ended = now + timedelta(minutes=minutes)
    return nights


@pytest.mark.parametrize("minutes", [1, 40, 300])
@pytest.mark.parametrize(
    ("action", "settings", "seen", "days"),
    [
        ("compute-statistics", {"statistics": {"every": "P1D"}}, statistics, 1),
        ("compute-statistics", {"statistics": {"every": "P7D"}}, statistics, 7),
        ("remove-orphans", {"orphans": {"mode": "delete", "every": "P1D"}}, orphans, 1),
        ("remove-orphans", {"orphans": {"mode": "dry-run"}}, orphans, 7),
        ("remove-orphans", {"orphans": {"mode": "dry-run"}}, failed_looks, 1),
        ("expire-rows", AGED, old_rows, 1),
        ("compaction", {"compaction": {"every": "P1D"}}, compactions, 1),
        ("compaction", {}, hot_tables, 1),
        ("create-tag", {"tags": {"daily": 7}}, tags, 1),
    ],
)
def test_what_is_asked_for_every_so_many_days_is_planned_in_those_nights(
    action: str, settings: dict[str, Any], seen: Any, days: int, minutes: int
) -> None:
    assert nights_of(action, settings, seen, minutes) == list(range(0, NIGHTS, days))


@pytest.mark.parametrize(
    ("action", "settings", "seen"),
    [
        ("compute-statistics", {"statistics": {"every": "PT12H"}}, statistics),
        ("compaction", {"compaction": {"every": "PT23H"}}, compactions),
    ],
)
def test_a_time_of_less_than_a_day_is_waited_for_to_its_end(action: str, settings: dict[str, Any], seen: Any) -> None:
    every = policy(**settings)
    span = every.statistics.every or every.compaction.every
    for early, due in ((timedelta(seconds=1), False), (timedelta(0), True)):
        given, past = seen(FIRST, FIRST - span + early)
        plan = plan_of(replace(WELL, **given), every, FIRST, past)
        assert (action in {each.action for each in plan.actions}) == due


def test_an_action_that_keeps_failing_rests_for_whole_nights() -> None:
    past: list[PastOutcome] = []
    for night in range(NIGHTS):
        now = FIRST + timedelta(days=night, seconds=20 - night)
        health = replace(WELL, statistics_at=None, last_data_commit=now - timedelta(hours=1))
        plan = plan_of(health, policy(statistics={"every": "P1D"}), now, past)
        if "compute-statistics" in {each.action for each in plan.actions}:
            past.append(
                PastOutcome(
                    action="compute-statistics", run=f"night {night}", at=now + timedelta(minutes=40), outcome="failed"
                )
            )
    # 6, 12 and 24 hours pass within a day; then two days, four, and a week.
    assert [each.run for each in past] == [f"night {night}" for night in (0, 1, 2, 3, 4, 5, 7, 11)]
