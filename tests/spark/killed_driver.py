"""A driver that kills itself and its JVM once each task of its job is at the moment that the task is named by."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.spark_jobs import run_tasks
from airflow_lake_provider.spark_jobs.formats.iceberg.commits import snapshot_commit
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.run_job import read_job
from airflow_lake_provider.spark_jobs.session.open_session import open_session
from tests.spark.killed_loads import KILLED_LOADS
from tests.spark.upsert_flow import InterruptedProgress

# The phase that begins at that moment; the other two moments are within the last phase, and after it.
PHASES = {"before stage": "stage", "after stage": "commit", "after copying": "commit", "before publish": "publish"}
_BEGINNING = {**PHASES, **{name: load.phase for name, load in KILLED_LOADS.items()}}
AFTER_VECTORS, AFTER_COMMIT = "after vectors", "after commit, before the report"
_TOO_EARLY = 3


class LastMoments:
    """Counts the tasks that are at their moments; with the last one the process ends, and its JVM with it."""

    def __init__(self, tasks: int) -> None:
        self._left = tasks
        self._lock = threading.Lock()

    def come(self) -> None:
        """Count one more."""
        with self._lock:
            self._left -= 1
            if not self._left:
                # The JVM is in the same process group.
                os.killpg(0, signal.SIGKILL)

    def wait(self) -> None:
        """Count one more, which does nothing until it is killed."""
        self.come()
        threading.Event().wait()

    def tell(self, reports: run_tasks.Reports) -> None:
        """Count the task that has committed; another one that ends has missed its moment."""
        if not all(name == AFTER_COMMIT and isinstance(report, JobReport) for name, report in reports.items()):
            print(f"ended before its moment: {reports}", file=sys.stderr, flush=True)
            os._exit(_TOO_EARLY)
        self.come()


def serve_until_killed() -> None:
    """Carry out one job. A thread has the name of its task, which is a moment or a load."""
    # Lines of progress go to the log. The pipe of the answers stays open, so that its end is that of the process.
    os.dup(1)
    os.dup2(2, 1)
    job = read_job(json.loads(sys.stdin.readline())["spec"])
    moments = LastMoments(len(job.tasks))
    commit = vars(snapshot_commit)["commit_row_delta"]

    def commit_others(*given: Any, **named: Any) -> Any:
        if _moment() == AFTER_VECTORS:
            moments.wait()
        return commit(*given, **named)

    vars(snapshot_commit)["commit_row_delta"] = commit_others
    vars(run_tasks)["Progress"] = lambda: InterruptedProgress(at=_BEGINNING.get(_moment(), ""), then=moments.wait)
    spark, _ = open_session()
    run_tasks.run_tasks(spark, job, Progress(), moments.tell)


def _moment() -> str:
    return threading.current_thread().name
