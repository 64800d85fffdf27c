"""One run of the fleet: which plans it carries out, in which jobs, and which tables it only reports.

A pure function of plans and budget, so that a plan that is made again is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_lake_provider.contracts.reports.history_entry import FAILED, UNSUPPORTED
from airflow_lake_provider.maintenance.locations import Overlap
from airflow_lake_provider.maintenance.outcomes import error_of, outcome_of
from airflow_lake_provider.maintenance.packing import Budget, Deferred, PackedJob, packed, within_budget
from airflow_lake_provider.maintenance.plan import PlannedAction, TablePlan

# It removes what no metadata of its own table names, which may be another table's.
_OF_WHOLE_LOCATIONS = frozenset({"remove-orphans"})
# It removes what its own entry of the catalog no longer names, and another entry of the table may.
_OF_ONE_ENTRY = _OF_WHOLE_LOCATIONS | {"snapshot-expiry"}
# Characters of a reason: XCom is a database, and somebody else chooses the text of an error.
_LONGEST = 300
_MOST_FOREIGN = 100


@dataclass(frozen=True, kw_only=True)
class FleetRun:
    """Work of one run, and what it leaves.

    :param plans: of all tables, as far as they may be carried out now.
    :param jobs: each for one Spark application.
    :param deferred: due, and left to a later run.
    :param beyond_budget: of :class:`.Selection`.
    """

    plans: tuple[TablePlan, ...] = ()
    jobs: tuple[PackedJob, ...] = ()
    deferred: tuple[Deferred, ...] = ()
    beyond_budget: str | None = None

    @property
    def waiting(self) -> list[TablePlan]:
        """Plans of tables of which an action is due, and waits whatever the budget is."""
        return [plan for plan in self.plans if any(each.is_waiting for each in plan.not_planned)]

    @property
    def as_kwargs(self) -> list[dict[str, Any]]:
        """Arguments of :class:`.LakeMaintenanceOperator`, one mapping for each job, as XCom takes them."""
        return [
            {
                "name": _name(job),
                "tasks": job.tasks,
                "expected": [_expected(plan, action) for plan in job.plans for action in plan.actions],
            }
            for job in self.jobs
        ]

    @property
    def not_run(self) -> list[dict[str, str]]:
        """Reports of what cannot be maintained, in the shape of the reports of tasks.

        A metastore may have thousands of views and foreign tables: the first ones stand for all of them.
        """
        reports = [report for plan in self.plans for report in _reports(plan)]
        foreign = [report for report in reports if report["action"] == "plan" and report["outcome"] == UNSUPPORTED]
        left_out = {report["table"] for report in foreign[_MOST_FOREIGN:]}
        return [report for report in reports if report["table"] not in left_out]


def fleet_run(
    plans: Iterable[TablePlan],
    *,
    overlaps: Sequence[Overlap] = (),
    pool: str | None = None,
    budget: Budget | None = None,
    core_seconds: float,
    most_tables: int,
    most_jobs: int | None = None,
) -> FleetRun:
    """Return the run of plans.

    :param plans: as :func:`.ranked` returns them.
    :param overlaps: of locations; what removes files by their place is left out there.
    :param pool: Airflow pool of the jobs; a table whose policy names another one waits. None takes any.
    :param budget: of the run.
    :param core_seconds: of one job.
    :param most_tables: of one job.
    :param most_jobs: that Airflow maps; those behind them, the least urgent, wait. None for no limit.
    """
    allowed = without_shared(plans, overlaps)
    deferred = [_of_other_pool(plan, pool) for plan in allowed if _is_of_other_pool(plan, pool)]
    selection = within_budget((plan for plan in allowed if not _is_of_other_pool(plan, pool)), budget or Budget())
    jobs = packed(selection.chosen, core_seconds, most_tables)
    behind = [] if most_jobs is None else [plan for job in jobs[most_jobs:] for plan in job.plans]
    waiting = {each.table: each for each in selection.deferred}
    waiting |= {plan.table: _not_mapped(plan, waiting.get(plan.table), len(jobs)) for plan in behind}
    is_beyond = selection.beyond_budget not in {plan.table for plan in behind}
    return FleetRun(
        plans=tuple(allowed),
        jobs=tuple(jobs[:most_jobs]),
        deferred=(*deferred, *waiting.values()),
        beyond_budget=selection.beyond_budget if is_beyond else None,
    )


def without_shared(plans: Iterable[TablePlan], overlaps: Iterable[Overlap]) -> list[TablePlan]:
    """Return plans without what removes files that another table, or another entry of the same one, may read.

    :param overlaps: of the locations of the tables.
    """
    # That a table stands twice says more than that it has a neighbour, and counts.
    weightiest_last = sorted(overlaps, key=lambda each: each.is_same_table)
    shared = {name: overlap.seen_by(name) for overlap in weightiest_last for name in (overlap.table, overlap.other)}
    return [_apart(plan, shared[plan.table]) if plan.table in shared else plan for plan in plans]


def _apart(plan: TablePlan, overlap: Overlap) -> TablePlan:
    instead = f"{overlap.remedy[0].upper()}{overlap.remedy[1:]}."
    if overlap.is_same_table:
        why = f"The catalog has this table as {overlap.other}, too, and that entry may read what this one expires."
        return plan.without(_OF_ONE_ENTRY, why, instead, is_unsupported=True)
    why = f"Another table's files may be there: {overlap}."
    return plan.without(_OF_WHOLE_LOCATIONS, why, instead, is_unsupported=True)


def _is_of_other_pool(plan: TablePlan, pool: str | None) -> bool:
    return bool(plan.actions) and None not in (pool, plan.pool) and plan.pool != pool


def _of_other_pool(plan: TablePlan, pool: str | None) -> Deferred:
    why = (
        f"Its policy asks for pool {plan.pool!r}, and these jobs run in {pool!r}. Airflow cannot map a pool: give its "
        "tables a maintenance of their own with that pool."
    )
    return Deferred(table=plan.table, actions=tuple(each.action for each in plan.actions), why=why)


def _not_mapped(plan: TablePlan, others: Deferred | None, jobs: int) -> Deferred:
    """Return what waits of a table, with its actions that a budget leaves as well."""
    why = (
        f"The run would have {jobs:,} jobs, and Airflow maps no more instances of a task than [core] max_map_length. "
        "Raise it, or make jobs larger by job_core_seconds and job_tables."
    )
    own = (each.action for each in plan.actions)
    return Deferred(table=plan.table, actions=(*own, *(others.actions if others else ())), why=why)


def _reports(plan: TablePlan) -> list[dict[str, str]]:
    if plan.error is not None:
        error = error_of(plan.error)
        return [_report(plan, "plan", outcome_of(FAILED, error), error, plan.error.removeprefix(f"{error}: "))]
    return [
        _report(plan, each.action, UNSUPPORTED, "UnsupportedError", f"{each.why} {each.instead}")
        for each in plan.not_planned
        if each.is_unsupported
    ]


def _report(plan: TablePlan, action: str, outcome: str, error: str, reason: str) -> dict[str, str]:
    report = {"action": action, "table": plan.table, "outcome": outcome, "error": error, "reason": reason[:_LONGEST]}
    return {**report, "ended_at": plan.planned_at.isoformat(), **({"owner": plan.owner} if plan.owner else {})}


def _expected(plan: TablePlan, action: PlannedAction) -> dict[str, Any]:
    return {
        "level": action.level,
        "owner": plan.owner,
        "score": plan.score,
        "planned_at": plan.planned_at.isoformat(),
        "core_seconds": action.effect.core_seconds,
        "files_removed": action.effect.files_removed,
        "bytes_rewritten": action.effect.bytes_rewritten,
        "why": " ".join(each.sentence for each in action.reasons)[:_LONGEST],
    }


def _name(job: PackedJob) -> str:
    first, more = job.plans[0].table, len(job.plans) - 1
    return f"maintenance of {first} and {more} more" if more else f"maintenance of {first}"
