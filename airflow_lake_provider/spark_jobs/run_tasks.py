"""Run the tasks of a job in one application: each in a session, a thread and a scheduler pool of its own.

Views and settings of one session would mix the rows of tables that have equal columns. Sessions share the application:
its JVM, executors, compiled classes and cached data.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pkgutil import resolve_name

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.capabilities import declared_format
from airflow_lake_provider.contracts.errors import JobFailedError, LakeProviderError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import (
    CompactionSpec,
    OrphanFilesSpec,
    RewriteManifestsSpec,
    RowExpirySpec,
    SnapshotExpirySpec,
    StatisticsSpec,
)
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChangeSpec
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.spec_codec import Job
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.failures import failed_with, lake_errors, root_cause
from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import java_exception
from airflow_lake_provider.spark_jobs.progress import Progress, lines_of, say
from airflow_lake_provider.spark_jobs.session.open_session import AlikeSessions

_FOLDER = "airflow_lake_provider.spark_jobs.actions"
# Module and function of each.
_ACTIONS: Mapping[type[JobSpec], str] = {
    UpsertSpec: "upsert_batch:upsert_batch",
    AppendSpec: "append_batch:append_batch",
    OverwritePartitionsSpec: "overwrite_batch:overwrite_partitions",
    IncrementalSpec: "incremental_run:run_incremental",
    DeleteRowsSpec: "delete_rows:delete_rows",
    UpdateRowsSpec: "update_rows:update_rows",
    RowExpirySpec: "expire_rows:expire_rows",
    CompactionSpec: "maintain_table:compact_table",
    RewriteManifestsSpec: "maintain_table:rewrite_file_lists",
    StatisticsSpec: "maintain_table:compute_statistics",
    SnapshotExpirySpec: "maintain_table:expire_snapshots",
    OrphanFilesSpec: "maintain_table:remove_orphan_files",
    MetadataChangeSpec: "maintain_table:change_metadata",
}


def dispatch_action(spark: SparkSession, spec: JobSpec, progress: Progress) -> JobReport:
    """Carry out a spec.

    :raises UnsupportedError: the table's format is not known, or cannot do what the spec asks.
    :raises LakeProviderError: what the action refuses, and errors of Java.
    """
    spec.refuse_for(declared_format(spec.table_format))
    # Before the first phase, tables and plans are looked at, which takes a cold JVM its time.
    progress.say(f"{spec.action} of {spec.table} ...")
    with lake_errors(f"table {spec.table} in {spec.catalog}", lambda: _properties(spark, spec)):
        return _carry_out(spark, spec, progress)


def _properties(spark: SparkSession, spec: JobSpec) -> dict[str, str]:
    from airflow_lake_provider.spark_jobs.formats.choose_format import table_of

    return table_of(spark, spec).properties()


def _carry_out(spark: SparkSession, spec: JobSpec, progress: Progress) -> JobReport:
    place = _ACTIONS.get(type(spec))
    if place is None:
        raise UnsupportedError(f"no action of this driver carries out {type(spec).__name__}")
    # Each action is imported alone: a driver pays only for what it runs.
    name = place.partition(":")[2]
    report: JobReport = getattr(import_module(_module_of(place)), name)(spark, spec, progress)
    return report


def load_actions(job: Job) -> None:
    """Import what carries out the tasks of a job; it needs no session."""
    for kind in {type(spec) for spec in job.tasks.values()} & _ACTIONS.keys():
        import_module(_module_of(_ACTIONS[kind]))
    for name in {spec.table_format for spec in job.tasks.values()}:
        resolve_name(declared_format(name).driver)


def _module_of(place: str) -> str:
    return f"{_FOLDER}.{place.partition(':')[0]}"


Reports = dict[str, JobReport | JobFailure]
_POOL = "spark.scheduler.pool"


def run_tasks(spark: SparkSession, job: Job, progress: Progress, tell: Callable[[Reports], None]) -> Reports:
    """Carry out the tasks of a job; none of them stops another.

    :param spark: the application's first session, in which the one task of a small job runs.
    :param progress: of the application.
    :param tell: called after each task of several with the reports so far; a driver that is killed leaves them behind.
    :return: a report or a failure for each task, by its name.
    """
    if len(job.tasks) == 1:
        ((name, spec),) = job.tasks.items()
        return {name: _report(spark, spec, progress)}
    return _TaskThreads(spark, job, tell).run()


class _TaskThreads:
    """Threads of a job's tasks, at most ``parallelism`` at a time and one for each table."""

    def __init__(self, spark: SparkSession, job: Job, tell: Callable[[Reports], None]) -> None:
        self._spark = spark
        self._job = job
        self._tell = tell
        self._changed = threading.Condition()
        # Two that meet an empty database would both make its tables.
        self._opening = threading.Lock()
        self._alike = AlikeSessions()
        self._busy: set[str] = set()
        self._reports: Reports = {}

    def run(self) -> Reports:
        waiting = dict(self._job.tasks)
        threads = []
        while waiting:
            name, spec = self._next(waiting)
            del waiting[name]
            thread = self._start(name, spec)
            threads += [] if thread is None else [thread]
        for thread in threads:
            thread.join()
        return {name: self._reports.get(name) or failure("the task", _never_began()) for name in self._job.tasks}

    def _start(self, name: str, spec: JobSpec) -> threading.Thread | None:
        # A thread asks the JVM for its properties, and the JVM may be dead.
        try:
            thread = InheritableThread(target=self._run, args=(name, spec), name=name)
            thread.start()
        except Exception as error:  # noqa: BLE001
            with lines_of(name):
                self._end(name, spec, failure("a thread of the Spark job", error))
            return None
        return thread

    def _next(self, waiting: dict[str, JobSpec]) -> tuple[str, JobSpec]:
        """Wait for a task that may start, and note that its table is busy."""
        with self._changed:
            while True:
                if len(self._busy) < self._job.parallelism:
                    # In their order, which those of one table keep.
                    for name, spec in waiting.items():
                        if spec.table not in self._busy:
                            self._busy.add(spec.table)
                            return name, spec
                self._changed.wait()

    def _run(self, name: str, spec: JobSpec) -> None:
        with lines_of(name):
            self._run_in_session(name, spec)

    def _run_in_session(self, name: str, spec: JobSpec) -> None:
        progress = Progress()
        # A driver of one task pays for it when the session has started.
        from airflow_lake_provider.spark_jobs.formats.choose_format import open_catalog

        catalog = None
        try:
            with progress.phase("session"):
                session = _session_of(self._spark, name, self._alike)
                # The action meets what is wrong with it, and says so.
                with self._opening, suppress(Exception):
                    catalog = open_catalog(session, spec)
            report = _report(session, spec, progress)
        # Whatever ends a thread, its task has a report and the next one of its table starts.
        except BaseException as error:  # noqa: BLE001
            report = failure("the Spark session", error)
        finally:
            # A hundred tasks would use up the connections of a database.
            with suppress(Exception):
                if catalog is not None:
                    catalog.close()
            self._end(name, spec, report)

    def _end(self, name: str, spec: JobSpec, report: JobReport | JobFailure) -> None:
        """Keep a report, and let the next task of the table begin, whatever becomes of the file of reports."""
        with self._changed:
            self._reports[name] = report
            self._busy.discard(spec.table)
            self._changed.notify_all()
            try:
                self._tell(dict(self._reports))
            # The reports are written once more at the end, where an error counts.
            except Exception as error:  # noqa: BLE001
                say(f"its report could not be left yet: {error}")


def _session_of(spark: SparkSession, pool: str, alike: AlikeSessions) -> SparkSession:
    """Open a session of this thread's own, and let the scheduler be fair to it."""
    session = spark.newSession()
    alike.fit(session)
    session.sparkContext.setLocalProperty(_POOL, pool)
    # What asks Spark for the session of its thread, as Iceberg's actions do, would get the first one.
    jvm_of(session).org.apache.spark.sql.SparkSession.setActiveSession(java_session(session))
    return session


def _never_began() -> JobFailedError:
    return JobFailedError("it never began: the thread that was to run it ended")


def _report(spark: SparkSession, spec: JobSpec, progress: Progress) -> JobReport | JobFailure:
    try:
        return replace(dispatch_action(spark, spec, progress), ended_at=datetime.now(UTC))
    # The worker must learn of every failure in a form that it can read.
    except Exception as error:  # noqa: BLE001
        return failure("the Spark job", error)


def failure(what: str, error: BaseException) -> JobFailure:
    """Return an error in the form that the worker reads.

    :param what: failed, for the message of an error that is none of ours.
    """
    text = "".join(traceback.format_exception(error))
    if isinstance(error, LakeProviderError):
        return JobFailure.of(error, text)
    cause = root_cause(error) if isinstance(error, Exception) else None
    if cause is not None:
        return JobFailure(error=cause.kind.error.__name__, message=f"{what}: {cause.sentence()}", traceback=text)
    first_line = str(error).strip().partition("\n")[0]
    of_python = f"{what} failed with {type(error).__name__}: {first_line}"
    message = of_python if java_exception(error) is None else failed_with(error, what)
    return JobFailure(error=JobFailedError.__name__, message=message, traceback=text)
