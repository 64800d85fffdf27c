"""Plans of many tables: ranked, cut to a budget, and packed into jobs by their cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from airflow_lake_provider.maintenance.plan import Effect, TablePlan
from airflow_lake_provider.maintenance.score import size_text

_TOO_DEAR = " Alone it is dearer than the whole budget: it is taken once all other work takes at most half of that."


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Most that one run may cost; None for no limit.

    :param core_seconds: by the estimates of the plans, without starts of Spark.
    :param bytes: rewritten.
    :param tables: that anything is done to.
    """

    core_seconds: float | None = None
    bytes: int | None = None
    tables: int | None = None


@dataclass(frozen=True, kw_only=True)
class Deferred:
    """Work that a budget leaves to a later run.

    :param table: whole name.
    :param actions: names of those that wait.
    :param why: with the numbers, a sentence.
    """

    table: str
    actions: tuple[str, ...]
    why: str


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Work of one run.

    :param chosen: plans with the actions that the budget takes, in the order of their rank.
    :param deferred: all other actions.
    :param beyond_budget: table of which one action is taken that is dearer than the whole budget.
    """

    chosen: tuple[TablePlan, ...] = ()
    deferred: tuple[Deferred, ...] = ()
    beyond_budget: str | None = None


@dataclass(frozen=True, kw_only=True)
class PackedJob:
    """Tables that one Spark application maintains.

    :param plans: in the order of their rank.
    """

    plans: tuple[TablePlan, ...]

    @property
    def core_seconds(self) -> float:
        """Cost of all plans, without the start of Spark."""
        return sum(each.core_seconds for each in self.plans)

    @property
    def tasks(self) -> list[dict[str, object]]:
        """Tasks of :class:`.LakeApplicationOperator`."""
        return [task for each in self.plans for task in each.tasks]


def ranked(plans: Iterable[TablePlan]) -> list[TablePlan]:
    """Return plans by priority, then by benefit for each core-second, then by name."""
    return sorted(plans, key=lambda each: (-each.priority, -each.rank, each.table))


def within_budget(plans: Iterable[TablePlan], budget: Budget) -> Selection:
    """Return what a budget takes of plans.

    A table's actions stay in their order: where one does not fit, those behind it wait with it. Cheaper work of later
    tables may still fit. An action that is dearer than the whole budget would wait for good. The first of them is taken
    where all other work takes at most half of the budget, once in a run.

    :param plans: as :func:`ranked` returns them; those without actions are left out.
    """
    due = [plan for plan in plans if plan.actions]
    taken = [0] * len(due)
    spent = _Spent(budget)
    why: dict[int, str] = {}
    for number, plan in enumerate(due):
        for action in plan.actions:
            refused = spent.refuses(action.effect, is_new_table=not taken[number])
            if refused is not None:
                why[number] = refused
                break
            spent.take(action.effect, is_new_table=not taken[number])
            taken[number] += 1
    beyond = next((number for number in why if spent.leaves_room_for_one_too_dear(due[number], taken[number])), None)
    if beyond is not None:
        taken[beyond] += 1
        why[beyond] = "Work before it is dearer than the whole budget, and is taken alone."
    return Selection(
        chosen=tuple(
            replace(plan, actions=plan.actions[:count]) for plan, count in zip(due, taken, strict=True) if count
        ),
        deferred=tuple(
            Deferred(table=plan.table, actions=tuple(each.action for each in waiting), why=why[number])
            for number, plan in enumerate(due)
            if (waiting := plan.actions[taken[number] :])
        ),
        beyond_budget=None if beyond is None else due[beyond].table,
    )


@dataclass
class _Spent:
    """Part of a budget that is spent."""

    budget: Budget
    seconds: float = 0.0
    size: int = 0
    tables: int = 0

    def take(self, effect: Effect, *, is_new_table: bool) -> None:
        self.seconds += effect.core_seconds
        self.size += effect.bytes_rewritten
        self.tables += is_new_table

    def refuses(self, effect: Effect, *, is_new_table: bool) -> str | None:
        """Return why an action does not fit; None where it does."""
        budget = self.budget
        if not self._has_table(is_new_table=is_new_table):
            return f"The budget has {budget.tables:,} tables, and others come first."
        seconds, size = self.seconds + effect.core_seconds, self.size + effect.bytes_rewritten
        more = _TOO_DEAR if any(0 < limit < cost for limit, cost, _ in self._limits(effect)) else ""
        if budget.core_seconds is not None and seconds > budget.core_seconds:
            why = f"The budget has {budget.core_seconds:,.0f} core-seconds; with it the run would take {seconds:,.0f}."
            return why + more
        if budget.bytes is not None and size > budget.bytes:
            return f"The budget has {size_text(budget.bytes)}; with it the run would rewrite {size_text(size)}." + more
        return None

    def leaves_room_for_one_too_dear(self, plan: TablePlan, taken: int) -> bool:
        """Tell whether the next action of a plan may be taken though it is dearer than the whole budget."""
        limits = self._limits(plan.actions[taken].effect)
        is_too_dear = any(cost > limit for limit, cost, _ in limits)
        # Who allows nothing means it.
        is_idle = all(limit > 0 and spent <= limit / 2 for limit, _, spent in limits)
        return is_too_dear and is_idle and self._has_table(is_new_table=not taken)

    def _limits(self, effect: Effect) -> list[tuple[float, float, float]]:
        """Return each limit, with the cost of an action and what is spent."""
        limits = (
            (self.budget.core_seconds, effect.core_seconds, self.seconds),
            (self.budget.bytes, effect.bytes_rewritten, self.size),
        )
        return [(limit, cost, spent) for limit, cost, spent in limits if limit is not None]

    def _has_table(self, *, is_new_table: bool) -> bool:
        return self.budget.tables is None or self.tables + is_new_table <= self.budget.tables


def packed(plans: Iterable[TablePlan], core_seconds: float, most_tables: int) -> list[PackedJob]:
    """Return the plans packed into jobs, by first fit of the most expensive first.

    A plan that is too expensive for any job has one of its own. Tables of two pools share none.

    :param core_seconds: of one job.
    :param most_tables: of one job.
    """
    due = [each for each in plans if each.actions]
    order = {plan.table: place for place, plan in enumerate(due)}
    dear_first = sorted(((plan.core_seconds, plan) for plan in due), key=lambda each: (-each[0], each[1].table))
    cheapest = dear_first[-1][0] if dear_first else 0.0
    bins: list[_Bin] = []
    with_room: dict[str | None, list[_Bin]] = {}
    for cost, plan in dear_first:
        of_pool = with_room.setdefault(plan.pool, [])
        target = next((each for each in of_pool if each.seconds + cost <= core_seconds), None)
        if target is None:
            target = _Bin()
            bins.append(target)
            of_pool.append(target)
        target.plans.append(plan)
        target.seconds += cost
        if len(target.plans) >= most_tables or target.seconds + cheapest > core_seconds:
            of_pool.remove(target)
    jobs = (sorted(each.plans, key=lambda plan: order[plan.table]) for each in bins)
    return [PackedJob(plans=tuple(job)) for job in sorted(jobs, key=lambda job: order[job[0].table])]


@dataclass(eq=False)
class _Bin:
    """Plans of a job that is being filled, and their cost: five thousand tables fill hundreds of jobs."""

    plans: list[TablePlan] = field(default_factory=list)
    seconds: float = 0.0
