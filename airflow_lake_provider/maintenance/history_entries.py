"""Rows of the maintenance history, made of the reports of a run; and what the rows of earlier runs say to a planner."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_lake_provider.contracts.reports.history_entry import (
    CONFLICT,
    DONE,
    FAILED,
    NOTHING_DUE,
    PLANNED,
    UNSUPPORTED,
    HistoryEntry,
)
from airflow_lake_provider.maintenance.health import OrphanCount
from airflow_lake_provider.maintenance.packing import PastOutcome
from airflow_lake_provider.maintenance.plan import PlannedAction

# Of reports that have no error; what is not here changed something.
_OUTCOMES = {
    "nothing-due": NOTHING_DUE,
    "nothing-new": NOTHING_DUE,
    "skipped": UNSUPPORTED,
    "conflict": CONFLICT,
    "planned": PLANNED,
    "failed": FAILED,
}
# A failure that says nothing of the table, or that a next run cannot mend.
_ERRORS = {"CommitConflictError": CONFLICT, "UnsupportedError": UNSUPPORTED}
# Counts of a table, by their names in reports.
_COUNTS = ("rows", "data_files", "delete_files", "snapshots", "manifests")
_LONGEST_TEXT = 500
_MOST = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class HistoryRun:
    """Run that writes its rows.

    :param key: the same for each retry of the task that writes.
    :param dag_id: of Airflow.
    :param run_id: of Airflow.
    :param task_id: that writes.
    :param try_number: of it.
    :param at: when it writes.
    """

    key: str
    dag_id: str
    run_id: str
    task_id: str
    try_number: int
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """Expectation of a plan of an action.

    :param level: of a compaction.
    :param core_seconds: estimated.
    :param reasons: names of the debts that it pays, with commas.
    :param score: of the table's health.
    """

    level: str | None = None
    core_seconds: float | None = None
    reasons: str | None = None
    score: int | None = None

    @classmethod
    def of(cls, action: PlannedAction, score: int | None) -> Expectation:
        """Return what is expected of a planned action."""
        return cls(
            level=action.level,
            core_seconds=round(action.effect.core_seconds, 1),
            reasons=",".join(each.name for each in action.reasons),
            score=score,
        )


def history_entries(
    run: HistoryRun,
    reports: Iterable[Mapping[str, Any]],
    expected: Mapping[tuple[str, str], Expectation] | None = None,
) -> list[HistoryEntry]:
    """Return a row for each report of a run.

    Texts and counts may be strangers': what a table cannot take is cut, written as an escape, or left out.

    :param run: that writes.
    :param reports: as :class:`.LakeApplicationOperator` returns them, those of failures as well.
    :param expected: of the plan, by table and action.
    """
    return [_entry(run, report, expected or {}) for report in reports]


def _entry(run: HistoryRun, report: Mapping[str, Any], expected: Mapping[tuple[str, str], Expectation]) -> HistoryEntry:
    table, action = _text(report.get("table")) or "?", _text(report.get("action")) or "?"
    plan = expected.get((str(report.get("table")), str(report.get("action"))), Expectation())
    ended_at, seconds = _moment(report.get("ended_at")) or run.at, _seconds(report.get("seconds"))
    error = _text(report.get("error"))
    return HistoryEntry(
        month=f"{ended_at:%Y-%m}",
        run_key=run.key,
        dag_id=_text(run.dag_id) or "",
        run_id=_text(run.run_id) or "",
        task_id=_text(run.task_id) or "",
        try_number=run.try_number,
        table_name=table,
        action=action,
        level=_text(report.get("level")) or plan.level,
        outcome=_outcome(report.get("outcome"), error),
        cause=_text(report.get("reason")),
        error=error,
        started_at=None if seconds is None else ended_at - timedelta(seconds=seconds),
        ended_at=ended_at,
        seconds=seconds,
        core_seconds_expected=plan.core_seconds,
        reasons=_text(plan.reasons),
        score_before=plan.score,
        **_state(report.get("before"), "before"),
        **_state(report.get("after"), "after"),
        orphan_files=_count(report.get("orphan_files")),
        orphan_bytes=_count(report.get("orphan_bytes")),
        oldest_orphan_at=_moment(report.get("oldest_orphan_at")),
    )


def _outcome(outcome: object, error: str | None) -> str:
    if error is not None:
        return _ERRORS.get(error, FAILED)
    return _OUTCOMES.get(str(outcome), DONE)


def _state(given: object, when: str) -> dict[str, Any]:
    state: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    counts = {f"{name}_{when}": _count(state.get(name)) for name in _COUNTS}
    return {
        **counts,
        f"bytes_{when}": _count(state.get("data_bytes")),
        f"snapshot_{when}": _text(state.get("snapshot")),
    }


def _seconds(phases: object) -> float | None:
    if not isinstance(phases, Mapping):
        return None
    total = sum(each for each in phases.values() if isinstance(each, (int, float)))
    return round(total, 3) if math.isfinite(total) and 0 <= total < timedelta(days=365).total_seconds() else None


def _moment(given: object) -> datetime | None:
    """Return a moment of UTC of what JSON has."""
    try:
        moment = given if isinstance(given, datetime) else datetime.fromisoformat(str(given)) if given else None
        return None if moment is None or moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _count(given: object) -> int | None:
    return int(given) if isinstance(given, int) and -_MOST <= given <= _MOST else None


def _text(given: object) -> str | None:
    """Return a text as UTF-8 can write it, not longer than a row should have it; None of none."""
    if given is None:
        return None
    text = str(given)
    text = text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 4]} ..."
    return text.encode(errors="backslashreplace").decode()


def past_outcomes_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[PastOutcome]]:
    """Return the outcomes of earlier runs by table, newest first; dry runs are none.

    :param rows: with ``table_name``, ``ended_at``, ``outcome`` and ``cause``.
    """
    outcomes: dict[str, list[PastOutcome]] = {}
    for row in _newest_first(rows):
        if row["outcome"] != PLANNED:
            outcome = PastOutcome(at=row["ended_at"], outcome=row["outcome"], cause=row["cause"] or "")
            outcomes.setdefault(row["table_name"], []).append(outcome)
    return outcomes


def orphan_counts_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, OrphanCount]:
    """Return the newest count of orphan files by table.

    :param rows: with ``table_name``, ``ended_at``, ``orphan_files`` and ``orphan_bytes``.
    """
    counts: dict[str, OrphanCount] = {}
    for row in _newest_first(rows):
        if row["orphan_files"] is not None:
            count = OrphanCount(files=row["orphan_files"], bytes=row["orphan_bytes"] or 0, counted_at=row["ended_at"])
            counts.setdefault(row["table_name"], count)
    return counts


def _newest_first(rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    yield from sorted(rows, key=lambda row: row["ended_at"], reverse=True)
