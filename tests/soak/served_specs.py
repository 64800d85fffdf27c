"""Serve specs in a driver: one session, and the package's own actions for each line of the standard input."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.reports.report_codec import reports_to_json
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.run_job import read_job
from airflow_lake_provider.spark_jobs.run_tasks import run_tasks
from airflow_lake_provider.spark_jobs.session.open_session import open_session


def serve(progress: Callable[[], Progress] = Progress) -> None:
    """Answer each line ``{"spec": path}`` or ``{"sql": text}`` with one line, until the input ends.

    :param progress: makes what a job reports its phases to.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # Lines of progress, and whatever the JVM prints, go to the log.
    os.dup2(2, 1)
    spark, _ = open_session()
    for line in sys.stdin:
        request = json.loads(line)
        answer = _run_sql(spark, request["sql"]) if "sql" in request else _report(spark, request["spec"], progress())
        answers.write(answer + "\n")


def _report(spark: SparkSession, path: str, progress: Progress) -> str:
    return reports_to_json(run_tasks(spark, read_job(path), progress, lambda _: None))


def _run_sql(spark: SparkSession, statement: str) -> str:
    try:
        spark.sql(statement)
    # Whatever it is, the asking side has to see it.
    except Exception as error:  # noqa: BLE001
        return json.dumps({"failure": str(error)})
    return "{}"
