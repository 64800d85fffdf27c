"""Outcomes of earlier runs: an action that keeps failing rests, and one that has just looked in vain does not again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_lake_provider.maintenance.health import TableHealth
from airflow_lake_provider.maintenance.history import SnapshotAges
from airflow_lake_provider.maintenance.past_outcomes import PastOutcome, past_outcomes_of, waits_until
from airflow_lake_provider.maintenance.plan import TablePlan
from airflow_lake_provider.maintenance.planner import plan_of
from tests.unit.maintenance.plans_of_numbers import MANY, NOW, SMALL, WELL, counted, in_short, left_out, policy


def past(*outcomes: str, action: str = "compaction", hours: float = 0) -> list[PastOutcome]:
    """Return outcomes of one action, the newest first, an hour apart, each of a run of its own."""
    return [
        PastOutcome(action=action, run=f"r{n}", at=NOW - timedelta(hours=n + hours), outcome=each, cause="no space")
        for n, each in enumerate(outcomes)
    ]


@pytest.mark.parametrize(
    ("outcomes", "hours"),
    [
        ([], None),
        (["done"], None),
        (["failed"] * 2, None),
        (["failed"] * 3, 6),
        (["failed"] * 4, 12),
        (["failed"] * 5, 24 - 6),
        (["failed"] * 20, 168 - 6),
        (["failed"] * 2 + ["done"] + ["failed"] * 5, None),
        (["failed", "failed", "nothing-due", "failed"], None),
        (["failed", "conflict", "unsupported", "failed"], 6),
        (["conflict"] * 9, None),
        (["done"] + ["failed"] * 9, None),
    ],
)
def test_what_keeps_failing_rests_longer_each_time(outcomes: list[str], hours: int | None) -> None:
    until = waits_until(past(*outcomes)[::-1])
    assert until == (None if hours is None else NOW + timedelta(hours=hours))


@pytest.mark.parametrize(
    ("words", "rests"),
    [(["failed"] * 3, True), (["failed", "conflict"], True), (["failed", "done"], False), (["done"], False)],
)
def test_tasks_of_one_run_are_one_failure_unless_one_of_them_was_done(words: list[str], rests: bool) -> None:
    runs = [
        PastOutcome(action="create-tag", run=f"r{number}", at=NOW - timedelta(hours=number), outcome=word)
        for number in range(3)
        for word in words
    ]
    assert waits_until(each for each in runs if each.run == "r0") is None
    assert (waits_until(runs) is not None) == rests


def test_a_tag_that_cannot_be_made_keeps_no_other_tag_from_being_made() -> None:
    runs = [
        PastOutcome(action="create-tag", run=f"r{days}", at=NOW - timedelta(days=days), outcome=word)
        for days in range(1, 9)
        for word in ("done", "failed")
    ]
    made = plan(DUE, runs, tags={"daily": 7, "weekly": 4})
    assert [each.task["tag"][:5] for each in made.actions if each.action == "create-tag"] == ["daily", "weekl"]


def plan(health: TableHealth, outcomes: list[PastOutcome] | None, **given: Any) -> TablePlan:
    return plan_of(health, policy(**given), NOW, outcomes)


DUE = replace(WELL, files=SMALL, manifests=MANY, snapshots=SnapshotAges(snapshots=99, expirable=50))


def test_an_action_that_rests_says_until_when_and_leaves_the_others_of_its_table() -> None:
    made = plan(DUE, past("failed", "failed", "failed", hours=1))
    assert "compaction" in {each.action for each in plan(DUE, []).actions}
    # Manifests that the compaction would have merged are merged without it.
    assert [each.action for each in made.actions] == ["snapshot-expiry", "rewrite-manifests"]
    (rests,) = [each for each in made.not_planned if each.is_waiting]
    assert rests.action == "compaction"
    assert rests.why == "Its last runs failed, the newest 1 hour ago: no space."
    assert "2026-11-26 17:00" in rests.instead
    later = [replace(each, at=each.at - timedelta(hours=6)) for each in past("failed", "failed", "failed")]
    assert plan(DUE, later).actions == plan(DUE, []).actions
    unsupported = past("unsupported", "unsupported", "unsupported", action="snapshot-expiry")
    assert "compaction" in {each.action for each in plan(DUE, unsupported).actions}


COUNTS = {"orphans": {"mode": "dry-run"}}
DELETES = {"orphans": {"mode": "delete"}}
AGED = {"row_expiry": {"column": "day", "keep": "P30D"}}
ARRIVED = replace(WELL, last_arrival=NOW - timedelta(hours=1))
STALLED = replace(WELL, last_arrival=NOW - timedelta(days=9))
LOOKS: list[tuple[str, TableHealth, list[PastOutcome] | None, dict[str, Any], list[str]]] = [
    ("nobody has looked for orphans yet", WELL, [], DELETES, ["remove-orphans orphans"]),
    ("nobody has counted orphans yet", WELL, [], COUNTS, ["remove-orphans orphans"]),
    ("nobody remembers a look", WELL, None, DELETES, []),
    ("nobody remembers a count", WELL, None, COUNTS, []),
    ("the count failed today", WELL, past("failed", action="remove-orphans", hours=3), COUNTS, []),
    ("the look failed today", WELL, past("failed", action="remove-orphans", hours=3), DELETES, []),
    (
        "the look failed yesterday",
        WELL,
        past("failed", action="remove-orphans", hours=25),
        DELETES,
        ["remove-orphans orphans"],
    ),
    (
        "the last look is a week old and a later one failed",
        replace(WELL, orphans=counted(days=7)),
        past("failed", action="remove-orphans", hours=3),
        DELETES,
        [],
    ),
    ("nobody has looked for old rows", ARRIVED, [], AGED, ["expire-rows row-age"]),
    ("nobody remembers a look for old rows, which costs little", ARRIVED, None, AGED, ["expire-rows row-age"]),
    ("no row was old enough this morning", ARRIVED, past("nothing-due", action="expire-rows", hours=3), AGED, []),
    (
        "no row was old enough yesterday, and others came",
        ARRIVED,
        past("nothing-due", action="expire-rows", hours=25),
        AGED,
        ["expire-rows row-age"],
    ),
    (
        "no row was old enough by an age that nobody remembers",
        STALLED,
        past("nothing-due", action="expire-rows", hours=50),
        AGED,
        ["expire-rows row-age"],
    ),
    (
        "the expiry that a run has made was rolled back",
        STALLED,
        past("done", action="expire-rows", hours=50),
        AGED,
        ["expire-rows row-age"],
    ),
    (
        "rows may have come while it looked",
        replace(WELL, last_arrival=NOW - timedelta(hours=31)),
        past("done", action="expire-rows", hours=30),
        AGED,
        ["expire-rows row-age"],
    ),
    ("an expiry of rows that failed", STALLED, past("failed", action="expire-rows"), AGED, ["expire-rows row-age"]),
    ("no statistics were due, and nothing changed", WELL, past("nothing-due", action="compute-statistics"), {}, []),
]


@pytest.mark.parametrize(
    ("health", "outcomes", "given", "due"), [case[1:] for case in LOOKS], ids=[case[0] for case in LOOKS]
)
def test_a_look_that_metadata_does_not_show_is_remembered(
    health: TableHealth, outcomes: list[PastOutcome] | None, given: dict[str, Any], due: list[str]
) -> None:
    assert in_short(plan(health, outcomes, **given)) == due


# The last rows came at noon of the 17th, and 30 days before that is the 18th of October.
EXPIRED: list[tuple[str | None, bool]] = [
    ("day < 2026-10-18", False),
    ("day < 2026-10-17", True),
    ("day < 2026-10-19", False),
    ("day < 2026-10-18T12:00:00", False),
    ("day < 2026-10-18T11:59:59.999999", True),
    ("day < 2026-10-18T12:00:00+00:00", False),
    ("day < 2026-10-18T12:00:00+02:00", True),
    ("at < 2026-10-18", True),
    ("a < b < 2026-10-18", True),
    ("day < yesterday", True),
    ("day", True),
    ("", True),
    (None, True),
]


@pytest.mark.parametrize(("limit", "is_due"), EXPIRED)
@pytest.mark.parametrize("past_looks", [[], past("done", action="expire-rows", hours=24 * 8)], ids=["no", "a look"])
def test_a_stalled_table_is_done_only_where_rows_of_the_policys_age_went(
    limit: str | None, is_due: bool, past_looks: list[PastOutcome]
) -> None:
    stalled = replace(STALLED, rows_expired_at=NOW - timedelta(days=8), rows_expired_before=limit)
    assert bool(plan(stalled, past_looks, **AGED).actions) is is_due
    # Whatever went, rows came behind it, and a look comes once a day.
    assert plan(replace(stalled, last_arrival=NOW - timedelta(days=7)), past_looks, **AGED).actions
    assert not plan(replace(stalled, rows_expired_at=NOW - timedelta(hours=5)), past_looks, **AGED).actions


@pytest.mark.parametrize(
    ("outcome", "hours", "changed_hours", "is_due"),
    [
        ("nothing-due", 2, 3, False),
        ("nothing-due", 2, 1, True),
        ("nothing-due", 25, 30, True),
        ("nothing-due", 2, None, True),
        ("done", 2, 3, True),
        ("conflict", 2, 3, True),
    ],
)
def test_what_was_not_due_after_all_is_not_looked_for_again_until_a_commit_or_the_next_day(
    outcome: str, hours: int, changed_hours: int | None, is_due: bool
) -> None:
    at = None if changed_hours is None else NOW - timedelta(hours=changed_hours)
    made = plan(replace(WELL, files=SMALL, snapshot_at=at), past(outcome, hours=hours))
    assert bool(made.actions) == is_due
    if not is_due:
        assert left_out(made, "compaction").startswith("It looked 2 hours ago, nothing was due, and the table has not")


@pytest.mark.parametrize(
    ("outcome", "hours", "is_due"),
    [("done", 2, False), ("done", 17, False), ("done", 19, True), ("failed", 2, True), ("conflict", 2, True)],
)
def test_an_expiry_whose_files_storage_did_not_delete_is_tried_again_once_a_day(
    outcome: str, hours: float, is_due: bool
) -> None:
    ages = SnapshotAges(snapshots=5, is_unfinished=True)
    made = plan(replace(WELL, snapshots=ages), past(outcome, action="snapshot-expiry", hours=hours))
    assert in_short(made) == ["snapshot-expiry unfinished-expiry"] * is_due
    if not is_due:
        assert left_out(made, "snapshot-expiry").startswith(
            f"The expiry {hours} hours ago could not delete all of its files; its report says why."
        )


def test_an_expiry_that_was_cut_off_after_one_that_was_done_is_planned() -> None:
    ages = SnapshotAges(snapshots=5, is_unfinished=True)
    earlier = past("failed", "done", action="snapshot-expiry", hours=2)
    assert in_short(plan(replace(WELL, snapshots=ages), earlier)) == ["snapshot-expiry unfinished-expiry"]


def test_outcomes_are_read_back_newest_first_without_dry_runs() -> None:
    def row(hour: int, table: str = "a", **given: Any) -> dict[str, Any]:
        at = NOW + timedelta(hours=hour)
        plain = {"action": "compaction", "run_key": f"r{hour}", "outcome": "done", "cause": None}
        return {"table_name": table, "ended_at": at, **plain, **given}

    rows = [row(1), row(3, outcome="failed", cause="full"), row(2, outcome="planned"), row(1, "b")]
    done = PastOutcome(action="compaction", run="r1", at=NOW + timedelta(hours=1), outcome="done")
    failed = replace(done, run="r3", at=NOW + timedelta(hours=3), outcome="failed", cause="full")
    assert past_outcomes_of(rows) == {"a": [failed, done], "b": [done]}
