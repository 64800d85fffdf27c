"""Outcomes of earlier runs, by which a plan lets an action rest: it keeps failing, or has just looked in vain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from airflow_lake_provider.contracts.reports.history_entry import (
    CONFLICT,
    DONE,
    FAILED,
    NOTHING_DUE,
    PLANNED,
    UNSUPPORTED,
)
from airflow_lake_provider.maintenance.health import TableHealth
from airflow_lake_provider.maintenance.history import MaintenanceRun
from airflow_lake_provider.maintenance.plan import NotPlanned, PlannedAction
from airflow_lake_provider.maintenance.score import age_text

# Floe waits 6 hours after 3 failures. Each further one doubles the wait.
FAILURES_BEFORE_WAIT = 3
FIRST_WAIT = timedelta(hours=6)
LONGEST_WAIT = timedelta(days=7)
NO_SUCCESS = frozenset({FAILED, UNSUPPORTED})
# It lost against a writer, which says nothing about the table.
_SAYS_NOTHING = frozenset({CONFLICT})
# A run each night begins at one hour, and what it has done is dated by its end: it may last so long.
_LONGEST_NIGHT = timedelta(hours=6)
_DAY = timedelta(days=1)
# What a table's metadata hides from a plan is looked for once a day, also by a run each night.
BETWEEN_LOOKS = _DAY - _LONGEST_NIGHT
# What is later than this was dated by a clock that is wrong.
_CLOCKS_DIFFER = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class PastOutcome:
    """Outcome of one task of an earlier run, for one table.

    :param action: of the task, such as ``compaction``.
    :param run: key of the run. Tasks of one run and action count once.
    :param at: when it ended.
    :param outcome: ``done``, ``nothing-due``, ``conflict``, ``unsupported`` or ``failed``.
    :param cause: of a failure.
    """

    action: str
    run: str
    at: datetime
    outcome: str
    cause: str = ""


def past_outcomes_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[PastOutcome]]:
    """Return the outcomes of earlier runs by table, newest first; dry runs are none.

    :param rows: of the history, with the columns that are read here.
    """
    outcomes: dict[str, list[PastOutcome]] = {}
    for row in sorted(rows, key=lambda each: each["ended_at"], reverse=True):
        if row["outcome"] != PLANNED:
            outcome = PastOutcome(
                action=row["action"],
                run=row["run_key"],
                at=row["ended_at"],
                outcome=row["outcome"],
                cause=row["cause"] or "",
            )
            outcomes.setdefault(row["table_name"], []).append(outcome)
    return outcomes


def with_past_runs(health: TableHealth, outcomes: Iterable[PastOutcome]) -> TableHealth:
    """Add the runs that left no snapshot, or one that has expired: an expiry, statistics, a removal of orphans.

    :param outcomes: of the table.
    """
    runs = dict(health.last_maintenance)
    for outcome in sorted(outcomes, key=lambda each: each.at):
        newest = runs.get(outcome.action)
        # A commit ends before its run does.
        if outcome.outcome == DONE and (newest is None or newest.snapshot is None):
            runs[outcome.action] = MaintenanceRun(snapshot=None, at=outcome.at)
    return replace(health, last_maintenance=runs)


def waits_until(outcomes: Iterable[PastOutcome]) -> datetime | None:
    """Return until when an action that keeps failing is left alone; None where it is not.

    :param outcomes: of one action of one table, in any order.
    """
    runs: dict[str, list[PastOutcome]] = {}
    for outcome in sorted(outcomes, key=lambda each: each.at, reverse=True):
        runs.setdefault(outcome.run, []).append(outcome)
    failures: list[datetime] = []
    for tasks in runs.values():
        words = {each.outcome for each in tasks}
        # A run makes several tags: one that cannot be made keeps no other back.
        if words & NO_SUCCESS and DONE not in words:
            failures.append(tasks[0].at)
        elif words - _SAYS_NOTHING:
            break
    if len(failures) < FAILURES_BEFORE_WAIT:
        return None
    # No table fails so often that more doublings matter.
    waits = FIRST_WAIT * int(2 ** min(len(failures) - FAILURES_BEFORE_WAIT, 10))
    return failures[0] + due_after(min(LONGEST_WAIT, waits))


def last_of(action: str, past: Iterable[PastOutcome] | None, *outcomes: str) -> PastOutcome | None:
    """Return the newest outcome of an action.

    :param past: of the table.
    :param outcomes: one of which it has; none for any.
    """
    of_action = (each for each in past or () if each.action == action and (not outcomes or each.outcome in outcomes))
    return max(of_action, key=lambda each: each.at, default=None)


def is_ahead(at: datetime, now: datetime) -> bool:
    """Tell whether a moment lies in the future: a clock that was wrong must keep nothing from being due."""
    return at > now + _CLOCKS_DIFFER


def is_recent(at: datetime, span: timedelta, now: datetime) -> bool:
    """Tell whether a moment is less than a span ago, and not ahead."""
    return now - at < span and not is_ahead(at, now)


def due_after(every: timedelta) -> timedelta:
    """Return how long after the end of the last work, or of its failure, the next is due.

    :param every: time between two. Where it has a day or more, a run each night does not miss it by minutes.
    """
    return every - _LONGEST_NIGHT if every >= _DAY else every


def last_look(action: str, past: Iterable[PastOutcome] | None) -> datetime | None:
    """Return when an action has last done what was due, or seen that nothing was."""
    last = last_of(action, past, DONE, NOTHING_DUE)
    return None if last is None else last.at


def unless_resting(
    action: PlannedAction, past: Sequence[PastOutcome] | None, committed_at: datetime | None, now: datetime
) -> PlannedAction | NotPlanned:
    """Return an action, or why it rests: its last runs failed, or the last one saw that nothing was due.

    :param past: of the table.
    :param committed_at: moment of the table's head. What came later than a look may be due.
    """
    past = [each for each in past or () if not is_ahead(each.at, now)]
    until = waits_until(each for each in past if each.action == action.action)
    if until is not None and until > now and (newest := last_of(action.action, past, *NO_SUCCESS)) is not None:
        return NotPlanned(
            action=action.action,
            why=f"Its last runs failed, the newest {age_text(now - newest.at)} ago: {newest.cause or newest.outcome}.",
            instead=f"It is tried again from {until:%Y-%m-%d %H:%M} on, or when its history is cleared.",
            is_waiting=True,
        )
    last = last_of(action.action, past)
    if (
        last is not None
        and last.outcome == NOTHING_DUE
        and last.at <= now < last.at + BETWEEN_LOOKS
        and committed_at is not None
        and committed_at <= last.at
    ):
        return NotPlanned(
            action=action.action,
            why=f"It looked {age_text(now - last.at)} ago, nothing was due, and the table has not changed since.",
            instead=f"It looks again from {last.at + BETWEEN_LOOKS:%Y-%m-%d %H:%M} on, or after a commit.",
        )
    return action
