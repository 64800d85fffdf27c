"""Outcomes of a run: those of its reports, and those of tasks that left none."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.maintenance.outcomes import OUTCOMES, counted, error_of, outcome_of, outcomes_of_run

WORDS = [
    ("done", "", "done"),
    ("applied", "", "done"),
    ("already-applied", "", "done"),
    ("planned", "", "done"),
    ("nothing-due", "", "nothing-due"),
    ("nothing-new", "", "nothing-due"),
    ("skipped", "", "nothing-due"),
    ("conflict", "", "conflict"),
    ("failed", "CommitConflictError", "conflict"),
    ("failed", "UnsupportedError", "unsupported"),
    ("failed", "BrokenMetadataError", "failed"),
    ("failed", "JobFailedError", "failed"),
    ("unsupported", "UnsupportedError", "unsupported"),
]


@pytest.mark.parametrize(("outcome", "error", "expected"), WORDS)
def test_a_report_has_one_of_five_outcomes(outcome: str, error: str, expected: str) -> None:
    assert outcome_of(outcome, error) == expected
    # What was read once reads the same again.
    assert outcome_of(expected, error) == expected


def test_every_outcome_of_a_report_has_one_of_the_five() -> None:
    assert {outcome_of(each.value) for each in Outcome} <= {*OUTCOMES} - {"failed"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("BrokenMetadataError: table a.b in lake: its metadata file is gone", "BrokenMetadataError"),
        ("UnsupportedError: table a.b is a view", "UnsupportedError"),
        ("table a.b cannot be judged: KeyError: 'x'", "JobFailedError"),
    ],
)
def test_the_error_of_a_plan_has_its_class(text: str, error: str) -> None:
    assert error_of(text) == error


def task(action: str, table: str) -> dict[str, Any]:
    return {"action": action, "table": table}


def report(action: str, table: str, outcome: str = "done", **more: str) -> dict[str, str]:
    return {"action": action, "table": table, "outcome": outcome, **more}


def job(*tasks: dict[str, Any]) -> dict[str, Any]:
    return {"tasks": list(tasks), "expected": [{"level": str(place)} for place, _ in enumerate(tasks)]}


def test_a_task_without_a_report_has_failed_and_the_worst_comes_first() -> None:
    jobs = [job(task("snapshot-expiry", "a.b"), task("compaction", "a.b")), job(task("compaction", "a.c"))]
    broken = report("plan", "a.d", "failed", error="BrokenMetadataError", reason="gone")
    unsupported = report("snapshot-expiry", "a.b", "unsupported", error="UnsupportedError", reason="gc.enabled")
    outcomes = outcomes_of_run(jobs, [report("compaction", "a.b")], [broken, unsupported])
    assert [(each.table, each.action, each.outcome, each.error) for each in outcomes] == [
        ("a.b", "snapshot-expiry", "failed", "JobFailedError"),
        ("a.c", "compaction", "failed", "JobFailedError"),
        ("a.d", "plan", "failed", "BrokenMetadataError"),
        ("a.b", "snapshot-expiry", "unsupported", "UnsupportedError"),
        ("a.b", "compaction", "done", ""),
    ]
    assert outcomes[-1].expected == {"level": "1"}
    assert counted(outcomes) == "1 done, 1 unsupported, 3 failed"


def test_tasks_of_one_action_take_their_reports_in_order() -> None:
    jobs = [job(task("create-tag", "a.b"), task("create-tag", "a.b"))]
    reports = [report("create-tag", "a.b"), report("create-tag", "a.b", "failed", error="BadInputError")]
    outcomes = outcomes_of_run(jobs, reports, [])
    assert [(each.expected["level"], each.outcome) for each in outcomes] == [("1", "failed"), ("0", "done")]


def test_a_run_without_tasks_says_so() -> None:
    assert counted(outcomes_of_run([], [], [])) == "nothing was due"


@pytest.mark.parametrize(
    ("ended_at", "outcome"),
    [
        ("2026-11-26T02:00:00+00:00", "failed"),
        # Clocks of workers differ.
        ("2026-11-27T07:59:00+00:00", "done"),
        ("2026-11-27T08:30:00+00:00", "done"),
        ("2026-11-26T02:00:00", "done"),
        ("", "done"),
    ],
)
def test_a_report_of_before_a_plan_that_was_cleared_stands_for_no_task_that_was_lost(
    ended_at: str, outcome: str
) -> None:
    anew = {
        "tasks": [task("compaction", "a.b")],
        "expected": [{"planned_at": "2026-11-27T08:00:00+00:00"}],
    }
    (only,) = outcomes_of_run([anew], [report("compaction", "a.b", ended_at=ended_at)], [])
    assert only.outcome == outcome
