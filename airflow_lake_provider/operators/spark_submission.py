"""One submission: what is laid out for the driver, the arguments of ``spark-submit``, and the report it leaves.

The command line itself is put together by the official hook.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.configuration import conf

from airflow_lake_provider.catalogs.spark_catalog_properties import RUNTIME_NAME
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.specs.spec_codec import Job, job_to_json
from airflow_lake_provider.hooks.source_access import packages_of, source_access
from airflow_lake_provider.operators.driver_start import DriverStart, binary_of_connection
from airflow_lake_provider.operators.report_file import forget_report, read_reports, shared_report
from airflow_lake_provider.submission.job_files import APPLICATION, JobFiles, job_archive
from airflow_lake_provider.submission.spark_installation import spark_submit_binary

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
    from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget

# A task log is read by people; Spark's own INFO lines would be hundreds to one of ours. An author's setting wins.
_LOG_LEVEL = {"spark.log.level": "WARN"}
# A site's spark-defaults.conf may say otherwise for its notebooks.
_CLASSIC = {"spark.api.mode": "classic"}

# Lists that an argument of the command line replaces, wherever Spark has them from.
_SETTING_OF = {
    "files": "spark.files",
    "py_files": "spark.submit.pyFiles",
    "jars": "spark.jars",
    "packages": "spark.jars.packages",
}


@dataclass(frozen=True, kw_only=True)
class SparkSubmission:
    """The files, the settings and the report's place of one submission.

    :param report_path: local path in client mode, fsspec path in cluster mode.
    :param drivers: packages for the databases and topics that are read.
    :param obstacle: why nothing can be submitted; an application of an earlier try can be followed nevertheless.
    """

    files: JobFiles
    archive: Path
    connection: CatalogConnection
    target: SparkTarget
    report_path: str
    drivers: tuple[str, ...] = ()
    obstacle: LakeProviderError | None = None

    @classmethod
    def open(
        cls,
        job: Job,
        connection: CatalogConnection,
        target: SparkTarget,
        *,
        properties_file: str | None = None,
        report_location: str | None = None,
        run: RunIdentity,
    ) -> SparkSubmission:
        """Lay out job and settings for the driver.

        :param properties_file: the author's, merged with ours.
        :param report_location: for cluster mode; default: ``[lake]`` setting.
        :param run: of the Airflow task.
        :raises InvalidSpecError: in cluster mode, no report location, or one that one of the two sides cannot use.
        :raises JobFailedError: in cluster mode, its store does not answer.
        """
        # First: what is refused leaves no files behind.
        shared = shared_report(job, run, report_location, connection.address) if target.cluster_mode else None
        base = job_directory()
        files = JobFiles.open(base, run.who)
        try:
            files.write_spec(job_to_json(job))
            drivers, obstacle = _write_settings(files, job, connection, properties_file)
            archive = job_archive(base)
        except BaseException:
            # They hold secrets, and nobody else knows them yet.
            files.close()
            raise
        return cls(
            files=files,
            archive=archive,
            connection=connection,
            target=target,
            report_path=shared or str(files.report),
            drivers=drivers,
            obstacle=obstacle,
        )

    def driver_start(self, operator: SparkSubmitOperator, *, is_short: bool = False) -> DriverStart:
        """Decide how the driver gets its jars, and whether an archive of its classes is used or made.

        :param is_short: whether the job ends before the JVM's second compiler pays.
        :raises LakeProviderError: no driver can start.
        """
        settings = self.files.settings.read_text(encoding="utf-8")
        attempt = self.files.folder.name.rpartition("-")[2]
        return DriverStart.plan(
            operator,
            self.target,
            self.connection,
            settings=settings,
            attempt=attempt,
            is_short=is_short,
            drivers=self.drivers,
        )

    def start_or_obstacle(self, operator: SparkSubmitOperator, *, is_short: bool) -> DriverStart:
        """Decide as :meth:`driver_start` does, and leave what refuses a driver to :meth:`prepare`."""
        try:
            return self.driver_start(operator, is_short=is_short)
        except LakeProviderError as error:
            return DriverStart(obstacle=error)

    def read_reports(self) -> dict[str, JobReport | JobFailure]:
        """Read what the driver left, by task."""
        return read_reports(self.report_path)

    def prepare(self, start: DriverStart) -> None:
        """Remove the report of an earlier attempt: in cluster mode all attempts of a run share its place.

        :param start: of :meth:`driver_start`.
        :raises LakeProviderError: nothing can be submitted, or the report cannot be removed.
        """
        for obstacle in filter(None, (self.obstacle, start.obstacle)):
            raise obstacle
        forget_report(self.report_path)

    def close(self) -> None:
        """Remove spec, settings and a local report."""
        self.files.close()


def _write_settings(
    files: JobFiles, job: Job, connection: CatalogConnection, properties_file: str | None
) -> tuple[tuple[str, ...], LakeProviderError | None]:
    """Write Spark's settings, none where there is an obstacle.

    :return: packages for the databases and topics that are read, and the obstacle. That is a connection which is not
        there, or a file of the author's which cannot be read.
    """
    settings = {**_LOG_LEVEL, **_CLASSIC, **_scheduler(job), **connection.spark_settings()}
    try:
        accesses = {conn_id: source_access(conn_id, kind) for conn_id, kind in _connections(job).items()}
        for conn_id, access in accesses.items():
            settings |= access.to_settings(conn_id)
        files.write_settings(settings, properties_file)
    except LakeProviderError as error:
        files.write_settings({})
        return (), error
    return packages_of(accesses.values()), None


def spark_submit_arguments(
    submission: SparkSubmission, operator: SparkSubmitOperator, start: DriverStart
) -> dict[str, Any]:
    """Return the attributes of SparkSubmitOperator for this submission, the author's merged with ours.

    :param start: of :meth:`SparkSubmission.driver_start`.
    """

    def joined(ours: list[str], name: str) -> str | None:
        theirs = getattr(operator, name) or (_without_runtime(start.given.get(_SETTING_OF[name], "")) if ours else None)
        return ",".join([*ours, *([theirs] if theirs else [])]) or None

    spec = str(submission.files.spec)
    shipped = [spec] if submission.target.cluster_mode else []
    read_from = submission.files.spec.name if shipped else spec
    return {
        "application": str(APPLICATION),
        "application_args": ["--spec", read_from, "--report", submission.report_path],
        "conf": operator.conf or {},
        "files": joined(shipped, "files"),
        "py_files": joined([str(submission.archive)], "py_files"),
        "jars": joined(list(start.jars), "jars"),
        "packages": joined(list(start.packages), "packages"),
        "driver_class_path": operator.driver_class_path or start.class_path,
        "properties_file": str(submission.files.settings),
        "_spark_binary": operator._spark_binary or _bundled_binary(str(operator._conn_id)),
    }


def _connections(job: Job) -> dict[str, str]:
    """Return the connections of all that the tasks read, by id, and what each is to."""
    loads = [spec for spec in job.tasks.values() if isinstance(spec, LoadSpec)]
    return {conn_id: kind for spec in loads for conn_id, kind in spec.source.connections.items()}


def _scheduler(job: Job) -> dict[str, str]:
    # YARN runs a driver again that ends with an error, whatever it says, and its second report covers the first.
    # Airflow's retries know which errors may pass.
    once = {"spark.yarn.maxAppAttempts": "1"}
    # Stages of one task would wait for all of another's; the scheduler takes turns between their pools.
    return once if len(job.tasks) == 1 else {"spark.scheduler.mode": "FAIR", **once}


def job_directory() -> Path:
    """Return ``[lake] job_directory``, or a folder of this user under the temporary directory."""
    configured = conf.get("lake", "job_directory", fallback="")
    return Path(configured) if configured else Path(tempfile.gettempdir()) / f"airflow-lake-{os.getuid()}"


def _bundled_binary(spark_conn_id: str) -> str | None:
    return None if binary_of_connection(spark_conn_id) else spark_submit_binary()


def _without_runtime(theirs: str) -> str:
    """Leave out the runtimes of the format: of two, a driver might take classes of both."""
    return ",".join(each for each in map(str.strip, theirs.split(",")) if each and RUNTIME_NAME not in each)
