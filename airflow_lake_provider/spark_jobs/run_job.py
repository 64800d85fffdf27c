"""The application that spark-submit runs: ``run_job.py --spec spec.json [--report report.json]``.

It needs no Airflow. The report, which may be a failure, is written to ``--report`` (a path of this machine or of any
file system that Hadoop knows) and the exit code says which it was.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":
    # Spark puts this file's folder first on the path; its neighbours are modules of a package, not of the top level.
    sys.path = [entry for entry in sys.path if entry != str(Path(__file__).resolve().parent)]

from airflow_lake_provider.contracts.errors import JobFailedError, LakeProviderError
from airflow_lake_provider.contracts.job_report import JobFailure, JobReport, report_to_json
from airflow_lake_provider.contracts.job_spec import JobSpec
from airflow_lake_provider.contracts.spec_codec import spec_from_plain
from airflow_lake_provider.spark_jobs.dispatch_action import dispatch_action
from airflow_lake_provider.spark_jobs.failures.root_cause import root_cause
from airflow_lake_provider.spark_jobs.progress import Progress, say_what_the_jvm_still_does
from airflow_lake_provider.spark_jobs.report_file import write_report
from airflow_lake_provider.spark_jobs.session.open_session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(arguments: list[str] | None = None) -> int:
    """Run one job.

    :param arguments: command line; None takes the process's own.
    :return: 0 when a report was written, 1 for a failure.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="path of the spec, or its name when shipped with --files")
    parser.add_argument("--report", help="where to leave the report")
    options = parser.parse_args(arguments)
    progress = Progress()
    try:
        with progress.phase("session"):
            spark, overruled = open_session()
    except Exception as error:
        if options.report and "://" not in options.report:
            write_report(None, options.report, report_to_json(_failure("the Spark session", error)))
        raise
    # The worker makes links of it.
    ui = spark.sparkContext.uiWebUrl
    progress.say(f"application {spark.sparkContext.applicationId}{f', Spark UI {ui}' if ui else ''}")
    for sentence in overruled:
        progress.say(sentence)
    try:
        report = _report(spark, options.spec, progress)
        if isinstance(report, JobReport):
            report = replace(report, warnings=(*report.warnings, *overruled))
        elif not _is_told_by_worker(spark, options.report):
            sys.stderr.write(report.traceback)
        if options.report:
            write_report(spark, options.report, report_to_json(report))
    finally:
        # A session that a dead JVM took along cannot be stopped, and what it committed stays committed.
        with suppress(Exception):
            spark.stop()
        say_what_the_jvm_still_does()
    return 1 if isinstance(report, JobFailure) else 0


def _is_told_by_worker(spark: SparkSession, report: str | None) -> bool:
    """Tell whether what this process says is in the task's log, where the worker says the failure."""
    with suppress(Exception):
        return bool(report) and spark.sparkContext.getConf().get("spark.submit.deployMode", "client") == "client"
    return False


def _report(spark: SparkSession, spec_path: str, progress: Progress) -> JobReport | JobFailure:
    try:
        return dispatch_action(spark, _read_spec(spec_path), progress)
    # The worker must learn of every failure in a form that it can read.
    except Exception as error:  # noqa: BLE001
        return _failure("the Spark job", error)


def _failure(what: str, error: Exception) -> JobFailure:
    text = "".join(traceback.format_exception(error))
    if isinstance(error, LakeProviderError):
        return JobFailure(error=type(error).__name__, message=str(error), traceback=text)
    if (cause := root_cause(error)) is not None:
        return JobFailure(error=cause.kind.error.__name__, message=f"{what}: {cause.sentence()}", traceback=text)
    first_line = str(error).strip().partition("\n")[0]
    message = f"{what} failed with {type(error).__name__}: {first_line}"
    return JobFailure(error=JobFailedError.__name__, message=message, traceback=text)


def _read_spec(path: str) -> JobSpec:
    file = Path(path)
    if not file.exists():
        from pyspark import SparkFiles

        file = Path(SparkFiles.get(file.name))
    return spec_from_plain(json.loads(file.read_text(encoding="utf-8")))


if __name__ == "__main__":
    sys.exit(main())
