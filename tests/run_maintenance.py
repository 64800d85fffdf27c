"""Carry out one run of a fleet as its three operators do, in this process and without a scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from airflow_lake_provider.maintenance.outcomes import TaskOutcome, outcomes_of_run
from airflow_lake_provider.operators.lake_maintenance import LakeMaintenanceOperator
from airflow_lake_provider.operators.maintenance_plan import NOT_RUN, LakeMaintenancePlanOperator


def run_maintenance(
    tables: str | Sequence[str], run: str, *, plan: Mapping[str, Any] | None = None, **application: Any
) -> list[TaskOutcome]:
    """Plan tables, run the jobs of the plan one after another, and return the outcome of every task.

    :param run: id of the run.
    :param plan: arguments of the plan beside its tables.
    :param application: arguments of the operator of each job.
    """
    pushed: dict[str, Any] = {}
    jobs = LakeMaintenancePlanOperator(task_id="plan", tables=tables, **(plan or {})).execute(_context(run, -1, pushed))
    reports: list[Any] = []
    for number, job in enumerate(jobs):
        operator = LakeMaintenanceOperator(task_id="run", **application, **job)
        reports += operator.execute(_context(run, number, {}))
    return outcomes_of_run(jobs, reports, pushed[NOT_RUN])


def _context(run: str, map_index: int, pushed: dict[str, Any]) -> Any:
    tries = {"try_number": 1, "max_tries": 0}
    instance = SimpleNamespace(
        dag_id="fleet", run_id=run, task_id="maintain", map_index=map_index, stats_tags={}, **tries
    )
    instance.xcom_push = lambda key, value, **_: pushed.update({key: value})
    return {"ti": instance, "dag_run": SimpleNamespace(run_after=None), "outlet_events": {}}
