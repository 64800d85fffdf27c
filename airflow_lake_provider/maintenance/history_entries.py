"""Rows of the maintenance history, made of the reports of a run; and the orphan files that they count."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_lake_provider.contracts.reports.history_entry import PLANNED, HistoryEntry
from airflow_lake_provider.maintenance.health import OrphanCount
from airflow_lake_provider.maintenance.outcomes import TaskOutcome

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


def history_entries(run: HistoryRun, outcomes: Iterable[TaskOutcome]) -> list[HistoryEntry]:
    """Return a row for each outcome of a run.

    Texts and counts may be strangers': what a table cannot take is cut, written as an escape, or left out.

    :param run: that writes.
    :param outcomes: of its tasks, and of tables that could not be planned.
    """
    return [_entry(run, each) for each in outcomes]


def _entry(run: HistoryRun, task: TaskOutcome) -> HistoryEntry:
    report, expected = task.report, task.expected
    ended_at, seconds = _moment(report.get("ended_at")) or run.at, _seconds(report.get("seconds"))
    return HistoryEntry(
        month=f"{ended_at:%Y-%m}",
        run_key=run.key,
        dag_id=_text(run.dag_id) or "",
        run_id=_text(run.run_id) or "",
        task_id=_text(run.task_id) or "",
        try_number=run.try_number,
        table_name=_text(task.table) or "?",
        action=_text(task.action) or "?",
        level=_text(report.get("level") or expected.get("level")),
        outcome=PLANNED if report.get("outcome") == PLANNED else task.outcome,
        cause=_text(task.reason or None),
        error=_text(task.error or None),
        started_at=None if seconds is None else ended_at - timedelta(seconds=seconds),
        ended_at=ended_at,
        seconds=seconds,
        core_seconds_expected=_number(expected.get("core_seconds")),
        reasons=_text(expected.get("why")),
        score_before=_count(expected.get("score")),
        **_state(report.get("before"), "before"),
        **_state(report.get("after"), "after"),
        **_orphans(report),
    )


def _orphans(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the orphan files that a look for them has counted, less those that it removed."""
    kinds = report.get("orphans")
    counts = [_count(each) for each in kinds.values()] if isinstance(kinds, Mapping) else [None]
    files, size, removed = sum(filter(None, counts)), _count(report.get("orphan_bytes")), report.get("files_removed")
    if None in counts or report.get("mode") == "restore":
        return {}
    left = max(0, files - (_count(removed) or 0))
    return {
        "orphan_files": _count(left),
        "orphan_bytes": None if size is None or files <= 0 else size * left // files,
        "oldest_orphan_at": _moment(report.get("oldest")) if left else None,
    }


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


def _number(given: object) -> float | None:
    return round(float(given), 1) if isinstance(given, (int, float)) and abs(given) < _MOST else None


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


def orphan_counts_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, OrphanCount]:
    """Return the newest count of orphan files by table.

    :param rows: with ``table_name``, ``ended_at``, ``orphan_files`` and ``orphan_bytes``.
    """
    counts: dict[str, OrphanCount] = {}
    for row in sorted(rows, key=lambda each: each["ended_at"], reverse=True):
        if row["orphan_files"] is not None:
            count = OrphanCount(files=row["orphan_files"], bytes=row["orphan_bytes"] or 0, counted_at=row["ended_at"])
            counts.setdefault(row["table_name"], count)
    return counts
