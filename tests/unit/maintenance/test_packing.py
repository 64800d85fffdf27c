"""Plans of many tables are ranked, fit into budgets, and are packed by first fit decreasing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.maintenance.packing import Budget, packed, ranked, within_budget
from airflow_lake_provider.maintenance.plan import Effect, PlannedAction, TablePlan

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def action(name: str = "compaction", seconds: float = 10, benefit: float = 10, size: int = 0) -> PlannedAction:
    effect = Effect(core_seconds=seconds, bytes_rewritten=size)
    return PlannedAction(action=name, effect=effect, benefit=benefit, task={"action": name})


def plan(table: str, *actions: PlannedAction, priority: int = 0, pool: str | None = None) -> TablePlan:
    return TablePlan(table=table, planned_at=NOW, actions=actions, priority=priority, pool=pool)


def test_priority_comes_before_benefit_for_each_core_second_and_names_break_ties() -> None:
    plans = [
        plan("b", action(benefit=5)),
        plan("a", action(benefit=5)),
        plan("nothing"),
        plan("large", action(benefit=50, seconds=1000)),
        plan("dear", action(benefit=1), priority=1),
        plan("best", action(benefit=50)),
    ]
    order = ["dear", "best", "a", "b", "large", "nothing"]
    assert [each.table for each in ranked(plans)] == order
    assert [each.table for each in ranked(plans[::-1])] == order


BUDGETS: list[tuple[str, Budget, list[str], list[str]]] = [
    ("none", Budget(), ["a: x y", "b: x", "c: x"], []),
    ("one table", Budget(tables=1), ["a: x y"], ["b: x", "c: x"]),
    ("no table", Budget(tables=0), [], ["a: x y", "b: x", "c: x"]),
    ("seconds for the first and a cheap one", Budget(core_seconds=45), ["a: x y", "c: x"], ["b: x"]),
    ("seconds for one action", Budget(core_seconds=12), ["a: x"], ["a: y", "b: x", "c: x"]),
    ("bytes", Budget(bytes=150), ["a: x y", "c: x"], ["b: x"]),
    ("nothing", Budget(core_seconds=0), [], ["a: x y", "b: x", "c: x"]),
    ("too little for any: the best one goes alone", Budget(core_seconds=1), ["a: x"], ["a: y", "b: x", "c: x"]),
    ("too few bytes for any", Budget(bytes=1), ["a: x"], ["a: y", "b: x", "c: x"]),
    ("too few bytes, and no core-seconds", Budget(bytes=1, core_seconds=0), [], ["a: x y", "b: x", "c: x"]),
    ("too little, and no table", Budget(core_seconds=1, tables=0), [], ["a: x y", "b: x", "c: x"]),
]

DEAR: list[tuple[str, float, list[str], list[str]]] = [
    ("little else is due", 30, ["big: dear", "small: x"], ["big: behind"]),
    ("much else is due", 19, ["small: x"], ["big: dear behind"]),
    ("it fits", 1000, ["big: dear behind", "small: x"], []),
]


@pytest.mark.parametrize(("seconds", "chosen", "deferred"), [case[1:] for case in DEAR], ids=[c[0] for c in DEAR])
def test_work_that_is_dearer_than_the_whole_budget_is_done_where_the_rest_takes_at_most_half(
    seconds: float, chosen: list[str], deferred: list[str]
) -> None:
    plans = [plan("big", action("dear", 100), action("behind", 1)), plan("small", action("x", 10))]
    selection = within_budget(plans, Budget(core_seconds=seconds))
    assert [f"{each.table}: {' '.join(one.action for one in each.actions)}" for each in selection.chosen] == chosen
    assert [f"{each.table}: {' '.join(each.actions)}" for each in selection.deferred] == deferred
    assert selection.beyond_budget == ("big" if seconds == 30 else None)
    if seconds == 19:
        assert "Alone it is dearer than the whole budget" in selection.deferred[0].why
    # One of a run at most.
    two = within_budget([*plans, plan("bigger", action("dear", 200))], Budget(core_seconds=seconds))
    assert sum(each.core_seconds > seconds for each in two.chosen) <= 1


@pytest.mark.parametrize(("budget", "chosen", "deferred"), [case[1:] for case in BUDGETS], ids=[c[0] for c in BUDGETS])
def test_a_budget_takes_the_best_that_fits_and_says_what_waits(
    budget: Budget, chosen: list[str], deferred: list[str]
) -> None:
    plans = [
        plan("a", action("x", 10, size=50), action("y", 20, size=50)),
        plan("nothing"),
        plan("b", action("x", 30, size=100)),
        plan("c", action("x", 15, size=50)),
    ]
    selection = within_budget(plans, budget)
    assert [f"{each.table}: {' '.join(one.action for one in each.actions)}" for each in selection.chosen] == chosen
    assert [f"{each.table}: {' '.join(each.actions)}" for each in selection.deferred] == deferred
    for each in selection.deferred:
        assert "budget" in each.why


seconds = st.floats(0.1, 100)
plans_of_any_cost = st.lists(st.lists(seconds, max_size=3), max_size=12).map(
    lambda costs: [plan(f"t{n}", *(action(seconds=cost) for cost in each)) for n, each in enumerate(costs)]
)


@given(plans_of_any_cost, st.floats(0, 200), st.integers(0, 12))
def test_no_run_is_over_its_budget_and_no_action_is_lost(
    plans: list[TablePlan], core_seconds: float, tables: int
) -> None:
    selection = within_budget(plans, Budget(core_seconds=core_seconds, tables=tables))
    dear = [each.actions[-1].effect.core_seconds for each in selection.chosen if each.table == selection.beyond_budget]
    assert sum(each.core_seconds for each in selection.chosen) - sum(dear) <= core_seconds / (1 + len(dear)) + 1e-6
    assert all(each > core_seconds for each in dear)
    assert len(selection.chosen) <= tables
    counted = sum(len(each.actions) for each in selection.chosen)
    counted += sum(len(each.actions) for each in selection.deferred)
    assert counted == sum(len(each.actions) for each in plans)


@given(plans_of_any_cost, st.floats(1, 200), st.integers(1, 5))
def test_each_plan_with_work_is_in_one_job_and_no_job_is_too_full(
    plans: list[TablePlan], core_seconds: float, tables: int
) -> None:
    jobs = packed(plans, core_seconds, tables)
    assert sorted(each.table for job in jobs for each in job.plans) == sorted(e.table for e in plans if e.actions)
    for job in jobs:
        assert len(job.plans) <= tables
        assert len(job.plans) == 1 or job.core_seconds <= core_seconds + 1e-6


def test_the_most_expensive_are_packed_first_and_each_job_keeps_the_rank() -> None:
    costs = {"a": 10, "b": 60, "c": 40, "d": 50, "e": 30, "f": 500}
    jobs = packed([plan(name, action(seconds=cost)) for name, cost in costs.items()], 100, 10)
    assert [[each.table for each in job.plans] for job in jobs] == [["a", "d", "e"], ["b", "c"], ["f"]]
    assert jobs[1].core_seconds == 100
    assert jobs[1].tasks == [{"action": "compaction"}] * 2


def test_tables_of_two_pools_share_no_job() -> None:
    plans = [plan("a", action(), pool="x"), plan("b", action(), pool="y"), plan("c", action(), pool="x")]
    assert [[each.table for each in job.plans] for job in packed(plans, 100, 10)] == [["a", "c"], ["b"]]


def first_fit(plans: list[TablePlan], core_seconds: float, most_tables: int) -> list[list[str]]:
    """Pack as the textbook does: the dearest first, each into the first job with room, whose cost is summed anew."""
    jobs: list[list[TablePlan]] = []
    for one in sorted((each for each in plans if each.actions), key=lambda each: (-each.core_seconds, each.table)):
        for job in jobs:
            is_cheap = sum(each.core_seconds for each in job) + one.core_seconds <= core_seconds
            if job[0].pool == one.pool and len(job) < most_tables and is_cheap:
                job.append(one)
                break
        else:
            jobs.append([one])
    return sorted(sorted(each.table for each in job) for job in jobs)


# Whole seconds, of which a sum is exact in any order.
whole_costs = st.lists(st.tuples(st.integers(0, 40), st.sampled_from([None, "x", "y"])), max_size=40)


@given(whole_costs, st.integers(1, 100), st.integers(1, 6))
def test_jobs_are_those_of_first_fit_decreasing(
    costs: list[tuple[int, str | None]], core_seconds: int, tables: int
) -> None:
    plans = [plan(f"t{n}", action(seconds=cost), pool=pool) for n, (cost, pool) in enumerate(costs)]
    jobs = packed(plans, core_seconds, tables)
    assert sorted(sorted(each.table for each in job.plans) for job in jobs) == first_fit(plans, core_seconds, tables)


@dataclass(frozen=True, kw_only=True)
class CountedPlan(TablePlan):
    """A plan that counts how often its cost is worked out."""

    asked: list[str] = field(default_factory=list, compare=False)

    @property
    def core_seconds(self) -> float:
        self.asked.append(self.table)
        return super().core_seconds


def test_the_cost_of_a_plan_is_worked_out_once_however_many_jobs_there_are() -> None:
    asked: list[str] = []
    plans = [CountedPlan(table=f"t{n}", planned_at=NOW, actions=(action(),), asked=asked) for n in range(300)]
    assert len(packed(plans, 30, 50)) == 100
    assert len(asked) == 300
