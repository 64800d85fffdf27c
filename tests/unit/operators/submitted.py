"""An operator brought to where it submits, as its own flow does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_lake_provider.contracts.errors import InvalidConnectionError, LakeProviderError
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.reports.report_codec import JobFailure, reports_to_json
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.spec_codec import Job
from airflow_lake_provider.operators.lake_application import LakeApplicationOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.spark_submission import SparkSubmission

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget

UPSERT: dict[str, Any] = {"action": "upsert", "table": "shop.orders", "source": "in/*.csv", "keys": ["id"]}
COMPACT: dict[str, Any] = {"action": "compaction", "table": "shop.orders", "level": "full"}
NOWHERE: dict[str, Any] = {"action": "compaction", "table": "shop.nowhere"}
# Name of the only task of a job.
TASK = "task"


def run_in_spark(job: LakeJobOperator[Any], context: Context) -> JobReport:
    """Submit, whatever the metadata says, and return the report or raise the error."""
    (task,) = job._tasks = job.table_tasks(context)
    job._run_in_spark([task], context)
    if task.report is None:
        raise task.error or AssertionError("neither report nor error")
    return task.report


def job_of(job: LakeJobOperator[Any], context: Context) -> Job:
    """Return what the driver of an operator is sent."""
    return Job({TASK: job.build_spec(context)})


def opened(job: LakeJobOperator[Any], context: Context, target: SparkTarget) -> SparkSubmission:
    """Lay out the files of a submission."""
    return SparkSubmission.open(
        job_of(job, context),
        job.lake.connection,
        target,
        properties_file=job.properties_file,
        report_location=job.report_location,
        run=job.task_run(context).identity(),
    )


def as_driver(answer: JobReport | JobFailure) -> str:
    """Return the text that a driver leaves for a report."""
    return reports_to_json({TASK: answer})


def report_without_spark(job: LakeJobOperator[Any], spec: JobSpec) -> JobReport | None:
    """Return what the worker answers from metadata alone."""
    return job.action(job.tables).report_without_spark(spec)


def application(*tasks: Any, **arguments: Any) -> LakeApplicationOperator:
    """Return an application of some tasks."""
    return LakeApplicationOperator(task_id="t", tasks=list(tasks), **arguments)


def refusal(job: LakeJobOperator[Any], context: Context) -> LakeProviderError:
    """Return the error of a task that fails."""
    with pytest.raises(LakeProviderError) as refused:
        job.execute(context)
    return refused.value


def starts_spark(job: LakeJobOperator[Any], context: Context) -> bool:
    """Tell whether a task whose Spark connection is nowhere gets as far as to it."""
    found = refusal(job, context)
    return isinstance(found, InvalidConnectionError) and "'nowhere' does not exist" in str(found)
