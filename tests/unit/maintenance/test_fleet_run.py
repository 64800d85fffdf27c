"""One run of the fleet: what of the plans it does, in which jobs, and what it says of the others."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
from airflow_lake_provider.maintenance.fleet_run import FleetRun, fleet_run
from airflow_lake_provider.maintenance.health import broken_table
from airflow_lake_provider.maintenance.locations import Overlap
from airflow_lake_provider.maintenance.packing import Budget
from airflow_lake_provider.maintenance.plan import NotPlanned, TablePlan
from airflow_lake_provider.maintenance.planner import plan_of
from tests.unit.maintenance.test_packing import NOW, action, plan


def run(*plans: TablePlan, **arguments: Any) -> FleetRun:
    return fleet_run(plans, **{"core_seconds": 100, "most_tables": 10, **arguments})


def broken(error: str) -> TablePlan:
    return plan_of(broken_table("a.broken", NOW, error), MaintenancePolicy(), NOW)


def test_each_job_names_its_tables_and_has_what_was_expected_of_each_task() -> None:
    jobs = run(plan("a.b", action("x"), action("y")), plan("a.c", action("z")), most_tables=2).as_kwargs
    assert [job["name"] for job in jobs] == ["maintenance of a.b and 1 more"]
    assert [task["action"] for task in jobs[0]["tasks"]] == ["x", "y", "z"]
    assert [each["core_seconds"] for each in jobs[0]["expected"]] == [10, 10, 10]
    assert [job["name"] for job in run(plan("a.b", action()), most_tables=1).as_kwargs] == ["maintenance of a.b"]


def test_nothing_due_is_no_job() -> None:
    made = run(plan("a.b"), plan("a.c"))
    assert (made.as_kwargs, made.not_run) == ([], [])


def test_broken_tables_are_reported_as_failed_and_what_has_no_part_in_it_as_unsupported() -> None:
    reports = run(broken("BrokenMetadataError: gone"), plan("a.b", action())).not_run
    assert [(each["table"], each["outcome"], each["error"]) for each in reports] == [
        ("a.broken", "failed", "BrokenMetadataError")
    ]
    assert [each["outcome"] for each in run(broken("UnsupportedError: a view")).not_run] == ["unsupported"]


def test_what_a_table_rules_out_is_reported_and_its_other_actions_run() -> None:
    ruled_out = NotPlanned(action="snapshot-expiry", why="gc.enabled.", instead="Set it.", is_unsupported=True)
    made = run(replace(plan("a.b", action()), not_planned=(ruled_out,)))
    assert len(made.jobs) == 1
    assert made.not_run == [
        {
            "action": "snapshot-expiry",
            "table": "a.b",
            "outcome": "unsupported",
            "error": "UnsupportedError",
            "reason": "gc.enabled. Set it.",
            "ended_at": NOW.isoformat(),
        }
    ]


def test_a_strangers_long_error_stays_short_in_xcom() -> None:
    plans = [broken("BrokenMetadataError: " + "x" * 100_000)] * 1000
    assert len(json.dumps(run(*plans).not_run)) < 500_000


def test_tables_of_another_pool_wait_with_the_reason() -> None:
    plans = plan("a.b", action(), pool="big"), plan("a.c", action()), plan("a.d", pool="big")
    made = run(*plans, pool="small")
    assert [each.table for job in made.jobs for each in job.plans] == ["a.c"]
    assert [(each.table, "pool 'big'" in each.why) for each in made.deferred] == [("a.b", True)]
    assert len(run(*plans, pool="big").jobs) == 2
    assert run(*plans).deferred == ()


def test_a_budget_leaves_the_rest_to_a_later_run() -> None:
    made = run(plan("a.b", action()), plan("a.c", action()), budget=Budget(tables=1))
    assert [each.table for each in made.deferred] == ["a.c"]


def test_jobs_that_airflow_could_not_map_are_left_to_a_later_run() -> None:
    plans = [plan(f"a.t{number}", action("x"), action("y")) for number in range(5)]
    made = run(*plans, most_tables=2, most_jobs=2)
    assert [each.table for job in made.jobs for each in job.plans] == ["a.t0", "a.t1", "a.t2", "a.t3"]
    (left,) = made.deferred
    assert (left.table, left.actions, "would have 3 jobs" in left.why) == ("a.t4", ("x", "y"), True)
    assert run(*plans, most_tables=2).deferred == ()


def test_a_table_that_waits_for_a_budget_and_for_a_job_waits_once_with_all_its_actions() -> None:
    plans = plan("a.b", action("x")), plan("a.c", action("y"), action("z"))
    made = run(*plans, most_tables=1, most_jobs=1, budget=Budget(core_seconds=20))
    (left,) = made.deferred
    assert (left.table, left.actions, "would have 2 jobs" in left.why) == ("a.c", ("y", "z"), True)
    dear = run(plan("a.b", action("x")), most_tables=1, most_jobs=0, budget=Budget(core_seconds=5))
    assert ([each.table for each in dear.deferred], dear.beyond_budget) == (["a.b"], None)


def test_files_are_not_removed_by_their_place_where_another_tables_may_lie() -> None:
    overlap = Overlap(table="a.b", folder="s3://b/x", other="a.c", other_folder="s3://b/x")
    plans = plan("a.b", action("compaction"), action("remove-orphans")), plan("a.c", action("remove-orphans"))
    made = run(*plans, plan("a.d", action("remove-orphans")), overlaps=[overlap])
    done = {each.table: [one.action for one in each.actions] for job in made.jobs for each in job.plans}
    assert done == {"a.b": ["compaction"], "a.d": ["remove-orphans"]}
    assert [(each["table"], each["action"], each["outcome"]) for each in made.not_run] == [
        ("a.b", "remove-orphans", "unsupported"),
        ("a.c", "remove-orphans", "unsupported"),
    ]


def test_a_table_whose_location_is_shared_is_told_which_other_table_is_there() -> None:
    overlap = Overlap(table="a.inner", folder="s3://b/x/y", other="a.outer", other_folder="s3://b/x")
    made = run(*(plan(name, action("remove-orphans")) for name in ("a.inner", "a.outer")), overlaps=[overlap])
    assert [(each["table"], each["reason"].partition(". ")[0]) for each in made.not_run] == [
        ("a.inner", "Another table's files may be there: s3://b/x/y overlaps s3://b/x of a.outer"),
        ("a.outer", "Another table's files may be there: s3://b/x overlaps s3://b/x/y of a.inner"),
    ]


def test_a_table_that_stands_twice_expires_nothing_and_a_neighbour_of_its_folder_does() -> None:
    twins = Overlap(table="a.b", folder="s3://b/x", other="c.b", other_folder="s3://b/x", is_same_table=True)
    inner = Overlap(table="a.inner", folder="s3://b/x/y", other="c.b", other_folder="s3://b/x")
    plans = [plan(name, action("snapshot-expiry")) for name in ("a.b", "a.inner", "c.b")]
    for overlaps in ([twins, inner], [inner, twins]):
        made = run(*plans, overlaps=overlaps)
        assert [each.table for job in made.jobs for each in job.plans] == ["a.inner"]
        assert {each["table"]: each["reason"].partition(", and")[0] for each in made.not_run} == {
            "a.b": "The catalog has this table as c.b, too",
            "c.b": "The catalog has this table as a.b, too",
        }


def test_a_run_that_is_made_again_is_the_same() -> None:
    plans = [plan(f"a.t{number}", action(seconds=number)) for number in range(1, 30)]
    assert run(*plans).as_kwargs == run(*plans).as_kwargs
