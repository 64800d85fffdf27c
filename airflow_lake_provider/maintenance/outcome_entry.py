"""Entry of the outcomes of one run of maintenance, as XCom has it for the lake page: what was done, and gained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow_lake_provider.contracts.reports.history_entry import HistoryEntry
from airflow_lake_provider.maintenance.history_entries import HistoryRun, history_entries
from airflow_lake_provider.maintenance.outcomes import TaskOutcome

VERSION = 1
# Keys of XCom. Runs with nothing to do come often, and would hide the others among the newest of one key.
OUTCOMES, NO_OUTCOMES = "lake_outcomes", "lake_outcomes_none"
# Failures come first, so that these are never among those left out.
MOST_TASKS = 2_000
_COUNTS = ("data_files", "bytes", "delete_files", "snapshots")
_LONGEST = 300


def outcome_entry(run: HistoryRun, outcomes: Sequence[TaskOutcome], conn_id: str, authority: str) -> dict[str, Any]:
    """Return the entry of a run.

    :param run: that has ended.
    :param outcomes: of its tasks, failures first.
    :param conn_id: connection of the catalog.
    :param authority: of the URIs of its tables' assets.
    """
    rows = history_entries(run, outcomes)
    tasks = [_task(row) for row in rows]
    gained = {name: sum(task["gained"].get(name, 0) for task in tasks) for name in _COUNTS}
    return {
        "version": VERSION,
        "at": run.at.isoformat(timespec="seconds"),
        "conn_id": conn_id,
        "authority": authority,
        "outcomes": dict(Counter(row.outcome for row in rows)),
        "gained": gained,
        "core_seconds": round(sum(row.core_seconds_expected or 0 for row in rows), 1),
        "seconds": round(sum(row.seconds or 0 for row in rows), 1),
        "tasks": tasks[:MOST_TASKS],
        "left_out": max(0, len(tasks) - MOST_TASKS),
    }


def outcome_key(entry: Mapping[str, Any]) -> str:
    """Return the key of an entry, which differs where the run had no task."""
    return OUTCOMES if entry["tasks"] else NO_OUTCOMES


def _task(row: HistoryEntry) -> dict[str, Any]:
    """Return what one task did; what it lacks is left out."""
    task = {
        "table": row.table_name,
        "action": row.action,
        "level": row.level,
        "outcome": row.outcome,
        "error": row.error,
        "reason": row.cause[:_LONGEST] if row.cause else None,
        "why": row.reasons[:_LONGEST] if row.reasons else None,
        "ended_at": _moment(row.ended_at),
        "seconds": row.seconds,
        "core_seconds": row.core_seconds_expected,
    }
    return {**{name: value for name, value in task.items() if value is not None}, "gained": _gained(row)}


def _gained(row: HistoryEntry) -> dict[str, int]:
    """Return by how much each count is lower than before; those that were not counted twice are left out."""
    pairs = {name: (getattr(row, f"{name}_before"), getattr(row, f"{name}_after")) for name in _COUNTS}
    return {name: before - after for name, (before, after) in pairs.items() if None not in (before, after)}


def _moment(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
