"""Read from Spark's own status store why jobs failed: Iceberg's results keep counts but no messages."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm.gateway import java_context
from airflow_lake_provider.spark_jobs.jvm.java_collections import items_of, value_of

_MOST_MESSAGES = 10
_LONGEST = 500


def newest_job(spark: SparkSession) -> int:
    """Return the id of the newest job of the application; -1 before the first."""
    jobs = _jobs(spark)
    return max((int(job.jobId()) for job in jobs), default=-1)


def failed_jobs(spark: SparkSession, after: int) -> tuple[str, ...]:
    """Return one line for each failed job with an id above ``after``: its description and the first reason."""
    failed = [job for job in _jobs(spark) if job.jobId() > after and job.status().toString() == "FAILED"]
    return tuple(f"{value_of(job.description()) or ''}: {_reason(spark, job)}" for job in failed[:_MOST_MESSAGES])


def _reason(spark: SparkSession, job: Any) -> str:
    store = java_context(spark).statusStore()
    for stage in items_of(job.stageIds()):
        reason = value_of(store.lastStageAttempt(stage).failureReason())
        if reason:
            return str(reason).strip().splitlines()[0][:_LONGEST]
    return "no reason given"


def _jobs(spark: SparkSession) -> list[Any]:
    return items_of(java_context(spark).statusStore().jobsList(None))
