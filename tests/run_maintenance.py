"""Carry out one run of a fleet as its three operators do, in this process and without a scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider.maintenance.outcomes import TaskOutcome
from airflow_lake_provider.operators.lake_maintenance import LakeMaintenanceOperator, LakeMaintenanceVerdictOperator
from airflow_lake_provider.operators.maintenance_plan import LakeMaintenancePlanOperator
from tests.benchmarks.submitted_lake import task_context


def run_maintenance(
    tables: str | Sequence[str], run: str, *, plan: Mapping[str, Any] | None = None, **application: Any
) -> list[TaskOutcome]:
    """Plan tables, run the jobs of the plan one after another, and return the outcome of every task.

    The last task gives the leases back and writes the history; that it is red says no more than the outcomes.

    :param run: id of the run.
    :param plan: arguments of the plan beside its tables.
    :param application: arguments of the operator of each job.
    """
    pushed: dict[str, Any] = {}
    with DAG("fleet", schedule=None):
        planning = LakeMaintenancePlanOperator(task_id="plan", tables=tables, **(plan or {}))
        verdict = LakeMaintenanceVerdictOperator(task_id="verdict", jobs=planning.output, reports=planning.output)
    jobs = planning.execute(task_context(run, pushed=pushed))
    reports: list[Any] = []
    for number, job in enumerate(jobs):
        operator = LakeMaintenanceOperator(task_id="run", **application, **job)
        reports += operator.execute(task_context(run, number))
    given: Any = verdict
    given.jobs, given.reports = jobs, reports
    with suppress(AirflowFailException):
        verdict.execute(task_context(run, pushed=pushed))
    return verdict.outcomes(task_context(run, pushed=pushed))
