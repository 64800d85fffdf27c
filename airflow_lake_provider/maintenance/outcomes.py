"""Outcomes of one run of maintenance, task by task: those of reports, and those of tasks that left none.

What ends well is ``done``, ``nothing-due`` or ``conflict``: a writer came first, and the next run does the rest.
``unsupported`` is what a table rules out for good, and ``failed`` is for a person to look at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_lake_provider.contracts.errors import CommitConflictError, JobFailedError, UnsupportedError, error_class
from airflow_lake_provider.contracts.reports.history_entry import CONFLICT, DONE, FAILED, NOTHING_DUE, UNSUPPORTED
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.maintenance.past_outcomes import is_ahead

OUTCOMES = (DONE, NOTHING_DUE, CONFLICT, UNSUPPORTED, FAILED)
# Of a report that is not one of these words already. A dry run has done what it was asked.
_OF_REPORTS = {
    Outcome.APPLIED: DONE,
    Outcome.ALREADY_APPLIED: DONE,
    Outcome.PLANNED: DONE,
    Outcome.NOTHING_NEW: NOTHING_DUE,
    Outcome.EMPTY_BATCH: NOTHING_DUE,
    Outcome.SKIPPED: NOTHING_DUE,
}
_OF_ERRORS = {UnsupportedError.__name__: UNSUPPORTED, CommitConflictError.__name__: CONFLICT}
_LOST = "Its Spark application ended without a report, and no try is left; the log of its instance says more."


@dataclass(frozen=True, kw_only=True)
class TaskOutcome:
    """Outcome of one task of a run.

    :param table: whole name.
    :param action: name of the task, such as ``compaction``; ``plan`` of a table that could not be planned.
    :param outcome: one of :data:`OUTCOMES`.
    :param error: class of the error; empty where there is none.
    :param reason: sentences of the report, or the message of the error.
    :param report: all of it, as XCom has it; empty where there is none.
    :param expected: what the plan expected of the task: its level, the table's owner and score, core-seconds, reasons.
    """

    table: str
    action: str
    outcome: str
    error: str = ""
    reason: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)
    expected: Mapping[str, Any] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        """Owner that the table's policy names; empty where it names none."""
        return str(self.expected.get("owner") or self.report.get("owner") or "")

    def __str__(self) -> str:
        return f"{self.action} of {self.table}: {self.error or self.outcome}"


def outcome_of(outcome: str, error: str = "") -> str:
    """Return one of :data:`OUTCOMES` for that of a report.

    :param error: class of its error; empty where it has none.
    """
    if outcome == FAILED:
        return _OF_ERRORS.get(error, FAILED)
    return outcome if outcome in OUTCOMES else _OF_REPORTS.get(Outcome(outcome), FAILED)


def error_of(text: str) -> str:
    """Return the class of an error from ``MissingTableError: table ...``; ``JobFailedError`` of one without a name."""
    return error_class(text.partition(":")[0]).__name__


def outcomes_of_run(
    jobs: Iterable[Mapping[str, Any]], reports: Iterable[Mapping[str, Any]], not_run: Iterable[Mapping[str, Any]]
) -> list[TaskOutcome]:
    """Return the outcome of each task of a run, failures first.

    :param jobs: of the plan, each with ``tasks`` and what was ``expected`` of each.
    :param reports: of all applications that ended; a task without one has failed.
    :param not_run: reports of the plan, about tables that cannot be maintained.
    """
    left: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for report in reports:
        left.setdefault((report["table"], report["action"]), []).append(report)
    outcomes = [_of_report(report, {}) for report in not_run]
    for job in jobs:
        for task, expected in zip(job["tasks"], job["expected"], strict=True):
            key = task["table"], task["action"]
            # Reports of one table and action are in the order of its tasks.
            mine = left.get(key, [])
            while mine and _is_of_earlier_plan(mine[0], expected):
                mine.pop(0)
            outcomes.append(_of_report(mine.pop(0), expected) if mine else _lost(*key, expected))
    return sorted(outcomes, key=lambda each: (-OUTCOMES.index(each.outcome), each.table))


def counted(outcomes: Sequence[TaskOutcome], left: Mapping[str, int] | None = None) -> str:
    """Return how many tasks had which outcome, and what was left: ``20 done, 1 failed, 2 deferred``.

    :param left: tables of which the plan has left due work to a later run, by its words.
    """
    counts = Counter(each.outcome for each in outcomes)
    done = [f"{counts[each]} {each}" for each in OUTCOMES if counts[each]]
    waits = [f"{count} {word}" for word, count in (left or {}).items() if count]
    return ", ".join([*(done or ["nothing was run" if waits else "nothing was due"]), *waits])


def _is_of_earlier_plan(report: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Tell whether a report is older than its plan.

    A plan that is cleared may make fewer jobs, and Airflow keeps the XCom of instances that are not needed any more.
    """
    try:
        ended_at, planned_at = (
            datetime.fromisoformat(str(at)) for at in (report.get("ended_at"), expected.get("planned_at"))
        )
        return is_ahead(planned_at, ended_at)
    # One of them is missing, or without a zone.
    except (ValueError, TypeError, OverflowError):
        return False


def _of_report(report: Mapping[str, Any], expected: Mapping[str, Any]) -> TaskOutcome:
    error = str(report.get("error") or "")
    return TaskOutcome(
        table=report["table"],
        action=report["action"],
        outcome=outcome_of(report["outcome"], error),
        error=error,
        reason=str(report.get("reason") or ""),
        report=report,
        expected=expected,
    )


def _lost(table: str, action: str, expected: Mapping[str, Any]) -> TaskOutcome:
    error = JobFailedError.__name__
    return TaskOutcome(table=table, action=action, outcome=FAILED, error=error, reason=_LOST, expected=expected)
