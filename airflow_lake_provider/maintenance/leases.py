"""Leases of tables, by which two DAGs do not maintain one table at the same time; losing one harms nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_lake_provider.maintenance.fleet_run import FleetRun
from airflow_lake_provider.maintenance.plan import TablePlan

# Each time a budget may take other tables, which may be leased, too.
_MOST_ASKED = 3
# Of the columns of ``lake_ops.maintenance_leases``.
LEASES_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class MaintenanceLease:
    """A run that maintains a table, and until when others leave it alone.

    It is a row of ``lake_ops.maintenance_leases``. Its fields are the columns, in their order. New ones go to the end.

    :param table_name: whole name of the table.
    :param run_key: of the run that has it, the same for each retry.
    :param dag_id: of the run.
    :param run_id: of the run.
    :param acquired_at: when.
    :param expires_at: from when on it does not hold any more.
    """

    table_name: str
    run_key: str
    dag_id: str
    run_id: str
    acquired_at: datetime
    expires_at: datetime

    def holds(self, now: datetime) -> bool:
        """Tell whether others have to leave the table alone; for good, one of a clock that is ahead would.

        :param now: UTC. Its clock may be behind by less than the lease lasts: at worst one holds for twice its time.
        """
        return now < self.expires_at < now + 2 * (self.expires_at - self.acquired_at)


@dataclass(frozen=True, kw_only=True)
class LeaseDecision:
    """Leases after a run has asked for some.

    :param leases: all that hold now.
    :param refused: of the tables that were asked for, those that another run has leased, by name.
    """

    leases: tuple[MaintenanceLease, ...]
    refused: dict[str, MaintenanceLease]


def with_leases(
    leases: Iterable[MaintenanceLease], wanted: Collection[str], asking: MaintenanceLease, now: datetime
) -> LeaseDecision:
    """Return the leases with those that a run asks for, as far as no other run has them.

    Leases that are over go. So do earlier ones of the same run, which asks again after a retry.

    :param wanted: names of tables.
    :param asking: lease of the run, for any table.
    :param now: UTC.
    """
    others = {each.table_name: each for each in leases if each.holds(now) and each.run_key != asking.run_key}
    own = (replace(asking, table_name=name) for name in sorted(set(wanted) - others.keys()))
    return LeaseDecision(
        leases=(*others.values(), *own), refused={name: others[name] for name in wanted if name in others}
    )


def without_leases(leases: Iterable[MaintenanceLease], run_key: str, now: datetime) -> tuple[MaintenanceLease, ...]:
    """Return the leases without those of a run; where it has some, without those that are over, too."""
    before = tuple(leases)
    if not any(each.run_key == run_key for each in before):
        return before
    return tuple(each for each in before if each.run_key != run_key and each.holds(now))


def without_leased(plans: Iterable[TablePlan], leases: Mapping[str, MaintenanceLease]) -> list[TablePlan]:
    """Return plans without the actions of tables that other runs have leased, and with the reason.

    :param leases: of other runs, by table.
    """
    return [_leased_to_another(plan, leases[plan.table]) if plan.table in leases else plan for plan in plans]


def _leased_to_another(plan: TablePlan, lease: MaintenanceLease) -> TablePlan:
    why = f"Run {lease.run_id} of DAG {lease.dag_id} maintains it since {lease.acquired_at:%Y-%m-%d %H:%M}."
    instead = f"It is planned again when that run has ended, at the latest from {lease.expires_at:%Y-%m-%d %H:%M} on."
    return plan.without({each.action for each in plan.actions}, why, instead)


def leased_run(
    plans: Sequence[TablePlan],
    run_of: Callable[[Sequence[TablePlan]], FleetRun],
    take: Callable[[Sequence[str]], Mapping[str, MaintenanceLease]],
) -> FleetRun:
    """Return the run of those plans whose tables no other run has leased.

    :param run_of: returns the run of plans; without some, a budget may take others.
    :param take: takes the leases of tables, and returns those of other runs.
    """
    refused: dict[str, MaintenanceLease] = {}
    run = run_of(plans)
    for _ in range(_MOST_ASKED):
        of_others = take([plan.table for job in run.jobs for plan in job.plans])
        if not of_others:
            break
        refused |= of_others
        run = run_of(without_leased(plans, refused))
    return run
