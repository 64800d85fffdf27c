"""A run of maintenance as its history and its leases know it: by keys that each retry of a task has again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.maintenance.history_entries import HistoryRun
from airflow_lake_provider.maintenance.leases import MaintenanceLease

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow.sdk import Context

    from airflow_lake_provider.maintenance.outcomes import TaskOutcome

# Longer than most nights of maintenance; a run that is not over by then loses commits at worst.
LEASE = timedelta(hours=6)


def history_run(context: Context, outcomes: Iterable[TaskOutcome]) -> HistoryRun:
    """Return the run whose last task writes the history.

    A retry of that task, and a clearing of it alone, has the same outcomes and is the same run. It is another one once
    the plan or a job was run anew.

    :param outcomes: that are written.
    """
    ti: Any = context["ti"]
    moments = (f"{each.report.get('ended_at')} {each.expected.get('planned_at')} {each}" for each in outcomes)
    return HistoryRun(
        key=_identity(ti, ti.task_id).run_key("", tuple(moments)),
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        try_number=ti.try_number,
        at=datetime.now(UTC),
    )


def asking_run(context: Context, plan_task_id: str, now: datetime) -> MaintenanceLease:
    """Return the lease that a run asks for, of no table yet.

    :param plan_task_id: of the run's plan, by which its last task finds the leases again.
    :param now: UTC.
    """
    ti: Any = context["ti"]
    return MaintenanceLease(
        table_name="",
        run_key=_identity(ti, plan_task_id).run_key("", ()),
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        acquired_at=now,
        expires_at=now + LEASE,
    )


def _identity(ti: Any, task_id: str) -> RunIdentity:
    return RunIdentity.of(ti.dag_id, ti.run_id, task_id, str(ti.map_index))
