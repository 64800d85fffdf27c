"""Plans of many tables: ranked, cut to a budget, and packed into jobs by their cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from airflow_lake_provider.maintenance.costs import START_OF_SPARK
from airflow_lake_provider.maintenance.plan import PlannedAction, TablePlan
from airflow_lake_provider.maintenance.score import size_text


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
    """

    chosen: tuple[TablePlan, ...] = ()
    deferred: tuple[Deferred, ...] = ()


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
    def core_seconds_with_start(self) -> float:
        """Cost of all plans, and of the application that carries them out."""
        return START_OF_SPARK + self.core_seconds

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
    tables may still fit.

    :param plans: as :func:`ranked` returns them; those without actions are left out.
    """
    chosen: list[TablePlan] = []
    deferred: list[Deferred] = []
    seconds, size = 0.0, 0
    for plan in plans:
        taken: list[PlannedAction] = []
        why = None
        for action in plan.actions:
            effect = action.effect
            why = _over(budget, seconds + effect.core_seconds, size + effect.bytes_rewritten, len(chosen) + 1)
            if why is not None:
                break
            taken.append(action)
            seconds, size = seconds + effect.core_seconds, size + effect.bytes_rewritten
        if taken:
            chosen.append(replace(plan, actions=tuple(taken)))
        if why is not None:
            waiting = tuple(each.action for each in plan.actions[len(taken) :])
            deferred.append(Deferred(table=plan.table, actions=waiting, why=why))
    return Selection(chosen=tuple(chosen), deferred=tuple(deferred))


def _over(budget: Budget, seconds: float, size: int, tables: int) -> str | None:
    if budget.tables is not None and tables > budget.tables:
        return f"The budget has {budget.tables:,} tables, and this one would be number {tables:,}."
    if budget.core_seconds is not None and seconds > budget.core_seconds:
        return f"The budget has {budget.core_seconds:,.0f} core-seconds; with it the run would take {seconds:,.0f}."
    if budget.bytes is not None and size > budget.bytes:
        return f"The budget has {size_text(budget.bytes)}; with it the run would rewrite {size_text(size)}."
    return None


def packed(plans: Iterable[TablePlan], core_seconds: float, most_tables: int) -> list[PackedJob]:
    """Return the plans packed into jobs, by first fit of the most expensive first.

    A plan that is too expensive for any job has one of its own. Tables of two pools share none.

    :param core_seconds: of one job.
    :param most_tables: of one job.
    """
    due = [each for each in plans if each.actions]
    order = {plan.table: place for place, plan in enumerate(due)}
    bins: list[list[TablePlan]] = []
    for plan in sorted(due, key=lambda each: (-each.core_seconds, each.table)):
        fitting = (
            each
            for each in bins
            if each[0].pool == plan.pool
            and len(each) < most_tables
            and sum(one.core_seconds for one in each) + plan.core_seconds <= core_seconds
        )
        target = next(fitting, None)
        if target is None:
            bins.append([plan])
        else:
            target.append(plan)
    jobs = (sorted(each, key=lambda plan: order[plan.table]) for each in bins)
    return [PackedJob(plans=tuple(job)) for job in sorted(jobs, key=lambda job: order[job[0].table])]
