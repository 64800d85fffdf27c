"""The application that spark-submit runs: ``run_job.py --spec spec.json [--report report.json]``.

It needs no Airflow. The reports of the job's tasks are written to ``--report``, a path of this machine or of any file
system that Hadoop knows. Some may be failures, which the exit code says.
"""

from __future__ import annotations

import argparse
import gc
import json
import secrets
import sys
import threading
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":
    # What is imported stays: Python would look for garbage in it many times.
    gc.disable()
    # Spark puts this file's folder first on the path; its neighbours are modules of a package, not of the top level.
    sys.path = [entry for entry in sys.path if entry != str(Path(__file__).resolve().parent)]

from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.reports.report_codec import (
    EVERY_TASK,
    FAILED_TASKS_EXIT_CODE,
    JobFailure,
    reports_to_json,
)
from airflow_lake_provider.contracts.specs.spec_codec import Job, job_from_plain
from airflow_lake_provider.spark_jobs.jvm.gateway import hadoop_settings, jvm_of, submitted_hadoop
from airflow_lake_provider.spark_jobs.progress import Progress, say_what_the_jvm_still_does
from airflow_lake_provider.spark_jobs.run_tasks import Reports, failure, load_actions, run_tasks
from airflow_lake_provider.spark_jobs.session.open_session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(arguments: list[str] | None = None) -> int:
    """Run one job.

    :param arguments: command line; None takes the process's own.
    :return: 0 when each task has a report, ``FAILED_TASKS_EXIT_CODE`` when one has a failure.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="path of the spec, or its name when shipped with --files")
    parser.add_argument("--report", help="where to leave the reports")
    options = parser.parse_args(arguments)
    progress = Progress()
    # The session takes its time in the JVM, for which this process only waits.
    threading.Thread(target=_load_early, args=(options.spec,), daemon=True).start()
    try:
        with progress.phase("session"):
            spark, overruled = open_session()
        gc.enable()
    except Exception as error:
        if options.report:
            failed = {EVERY_TASK: failure("the Spark session", error)}
            # Where that fails, too, the log has the error.
            with suppress(Exception):
                write_report(None, options.report, reports_to_json(failed))
        raise
    # The worker makes links of it.
    ui = spark.sparkContext.uiWebUrl
    progress.say(f"application {spark.sparkContext.applicationId}{f', Spark UI {ui}' if ui else ''}")
    for sentence in overruled:
        progress.say(sentence)
    try:
        reports = _reports(spark, options, progress, overruled)
    finally:
        # A session that a dead JVM took along cannot be stopped, and what it committed stays committed.
        with suppress(Exception):
            spark.stop()
        say_what_the_jvm_still_does()
    has_failed = any(isinstance(report, JobFailure) for report in reports.values())
    return FAILED_TASKS_EXIT_CODE if has_failed else 0


def _load_early(path: str) -> None:
    """Import what the job needs; what is wrong is met, and said, once it runs."""
    with suppress(Exception):
        # A file that was shipped is found by the session.
        if Path(path).exists():
            load_actions(read_job(path))


def _reports(spark: SparkSession, options: argparse.Namespace, progress: Progress, overruled: list[str]) -> Reports:
    def tell(reports: Reports) -> None:
        if options.report:
            write_report(spark, options.report, reports_to_json(reports))

    try:
        reports = run_tasks(spark, read_job(options.spec), progress, tell)
    # The worker must learn of every failure in a form that it can read.
    except Exception as error:  # noqa: BLE001
        reports = {EVERY_TASK: failure("the Spark job", error)}
    for name, report in reports.items():
        if isinstance(report, JobReport):
            reports[name] = replace(report, warnings=(*report.warnings, *overruled))
        elif not _is_in_task_log(spark, options.report):
            sys.stderr.write(report.traceback)
    tell(reports)
    return reports


def _is_in_task_log(spark: SparkSession, report: str | None) -> bool:
    """Tell whether what this process says is in the task's log, where the worker says the failure."""
    with suppress(Exception):
        return bool(report) and spark.sparkContext.getConf().get("spark.submit.deployMode", "client") == "client"
    return False


def read_job(path: str) -> Job:
    """Read the file of a job.

    :param path: of it, or its name where it was shipped with ``--files``.
    """
    file = Path(path)
    if not file.exists():
        from pyspark import SparkFiles

        file = Path(SparkFiles.get(file.name))
    return job_from_plain(json.loads(file.read_text(encoding="utf-8")))


def write_report(spark: SparkSession | None, path: str, text: str) -> None:
    """Write ``text`` to ``path``.

    :param spark: None where no session could be started; a URL is then written by what ``spark-submit`` was given.
    :param path: a path of this machine, or a URL of a file system that Hadoop knows (``s3a://``, ``hdfs://``).
    """
    if "://" not in path:
        _write_local(path, text)
        return
    jvm, settings = submitted_hadoop() if spark is None else (jvm_of(spark), hadoop_settings(spark))
    if jvm is None:
        raise RuntimeError("the session has no JVM; it was stopped")
    target = jvm.org.apache.hadoop.fs.Path(_as_hadoop_says(path))
    with closing(target.getFileSystem(settings).create(target, True)) as stream:
        stream.write(bytearray(text.encode()))


def _as_hadoop_says(path: str) -> str:
    scheme, _, rest = path.partition("://")
    # fsspec says s3:// where Hadoop's connector listens to s3a://, and gcs:// where it listens to gs://.
    return f"{({'s3': 's3a', 'gcs': 'gs'}).get(scheme, scheme)}://{rest}"


def _write_local(path: str, text: str) -> None:
    # The worker must never read half a report.
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Others may write to a shared folder: a name that they guess could be a link to a file of ours.
    unfinished = target.with_name(f"{target.name}.{secrets.token_hex(8)}.unfinished")
    with unfinished.open("x", encoding="utf-8") as file:
        file.write(text)
    unfinished.replace(target)


if __name__ == "__main__":
    exit_code = main()
    # Nor is anything left to be looked for when the process ends.
    gc.freeze()
    sys.exit(exit_code)
