"""Read from Spark's own status store why jobs failed: Iceberg's results keep counts but no messages."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

_MOST_MESSAGES = 10
_LONGEST = 500


def newest_job(spark: SparkSession) -> int:
    """Return the id of the newest job of the application; -1 before the first."""
    jobs = _jobs(spark)
    return max((int(job.jobId()) for job in jobs), default=-1)


def failed_jobs(spark: SparkSession, after: int) -> tuple[str, ...]:
    """Return one line for each failed job with an id above ``after``: its description and the first reason."""
    failed = [job for job in _jobs(spark) if job.jobId() > after and job.status().toString() == "FAILED"]
    return tuple(f"{_text(job.description())}: {_reason(spark, job)}" for job in failed[:_MOST_MESSAGES])


def _reason(spark: SparkSession, job: Any) -> str:
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    stages = job.stageIds()
    for place in range(stages.size()):
        reason = _text(store.lastStageAttempt(stages.apply(place)).failureReason())
        if reason:
            return reason.strip().splitlines()[0][:_LONGEST]
    return "no reason given"


def _jobs(spark: SparkSession) -> list[Any]:
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    return [jobs.apply(place) for place in range(jobs.size())]


def _text(option: Any) -> str:
    return str(option.get()) if option.isDefined() else ""
