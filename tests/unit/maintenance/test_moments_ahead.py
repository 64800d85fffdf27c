"""Moments of the future: a machine whose clock was wrong keeps no action from being due."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_lake_provider.maintenance.health import OrphanCount
from airflow_lake_provider.maintenance.history import MaintenanceRun
from airflow_lake_provider.maintenance.past_outcomes import PastOutcome
from airflow_lake_provider.maintenance.planner import plan_of
from tests.unit.maintenance.plans_of_numbers import AGED, COUNTS, NOW, SMALL, WELL, hot, in_short, policy

YEARS, MINUTES = NOW + timedelta(days=3650), NOW + timedelta(minutes=10)
DAILY = {"compaction": {"every": "P1D"}}
STATISTICS = {"statistics": {"every": "P1D"}}


def compacted(at: datetime) -> dict[str, Any]:
    return {"files": SMALL, "last_maintenance": {"compaction": MaintenanceRun(snapshot="5", at=at)}}


def orphans(at: datetime) -> dict[str, Any]:
    return {"orphans": OrphanCount(files=1, bytes=1, counted_at=at)}


def expired(at: datetime) -> dict[str, Any]:
    went = {"rows_expired_at": at, "rows_expired_before": "day < 2026-10-25"}
    return {"last_arrival": NOW - timedelta(days=2), **went}


def described(at: datetime) -> dict[str, Any]:
    return {"statistics_at": at, "last_data_commit": at + timedelta(days=1)}


def changed(at: datetime) -> dict[str, Any]:
    return {"files": SMALL, "hot_partitions": (replace(hot(outside="day <> 1", mergeable_files=50), newest=at),)}


@pytest.mark.parametrize(
    ("given", "settings", "due"),
    [
        (compacted, DAILY, "compaction minor small-files"),
        (changed, {"compaction": {"hot_within": "PT6H"}}, "compaction minor small-files"),
        (orphans, COUNTS, "remove-orphans orphans"),
        (expired, AGED, "expire-rows row-age"),
        (described, STATISTICS, "compute-statistics statistics"),
    ],
)
def test_what_is_dated_years_ahead_is_due_and_what_other_clocks_say_is_not(
    given: Any, settings: dict[str, Any], due: str
) -> None:
    plans = [plan_of(replace(WELL, **given(at)), policy(**settings), NOW) for at in (YEARS, MINUTES)]
    rest = MINUTES - timedelta(minutes=20)
    assert [in_short(each) for each in plans] == [
        [due],
        in_short(plan_of(replace(WELL, **given(rest)), policy(**settings), NOW)),
    ]


@pytest.mark.parametrize(("action", "settings"), [("compaction", {}), ("remove-orphans", COUNTS)])
def test_failures_that_are_dated_years_ahead_let_no_action_rest(action: str, settings: dict[str, Any]) -> None:
    def planned(at: datetime) -> list[str]:
        failed = [PastOutcome(action=action, run=f"r{n}", at=at, outcome="failed") for n in range(3)]
        plan = plan_of(replace(WELL, files=SMALL), policy(**settings), NOW, failed)
        return [each.action for each in plan.actions]

    assert action in planned(YEARS)
    assert action not in planned(NOW)
    assert action not in planned(MINUTES)
