"""A run of maintenance as its history and its leases know it: by keys that each retry of a task has again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.reports.maintenance_lease import MaintenanceLease
from airflow_lake_provider.maintenance.history_entries import HistoryRun
from airflow_lake_provider.operators.task_run import TaskRun

if TYPE_CHECKING:
    from airflow.sdk import Context

# Longer than most nights of maintenance; a run that is not over by then loses commits at worst.
LEASE = timedelta(hours=6)


def history_run(context: Context, retries: int) -> HistoryRun:
    """Return the run whose last task writes the history; one that is cleared is another run.

    :param retries: of the task.
    """
    ti: Any = context["ti"]
    identity = TaskRun(context, retries).identity(cleared_is_new=True)
    return HistoryRun(
        key=_key(identity),
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
        run_key=_key(RunIdentity.of(ti.dag_id, ti.run_id, plan_task_id, str(ti.map_index))),
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        acquired_at=now,
        expires_at=now + LEASE,
    )


def _key(identity: RunIdentity) -> str:
    return identity.run_key(identity.label, ())
