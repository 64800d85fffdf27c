"""One submission: what is laid out for the driver, and the report it leaves."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk.configuration import conf

from airflow_lake_provider.contracts.job_report import JobFailure, JobReport
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.contracts.spec_codec import Job, job_to_json
from airflow_lake_provider.operators.driver_start import DriverStart
from airflow_lake_provider.operators.report_file import forget_report, read_reports
from airflow_lake_provider.operators.report_location import shared_report
from airflow_lake_provider.submission.job_archive import job_archive
from airflow_lake_provider.submission.job_files import JobFiles

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
    from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget

# A task log is read by people; Spark's own INFO lines would be hundreds to one of ours. An author's setting wins.
_LOG_LEVEL = {"spark.log.level": "WARN"}


@dataclass(frozen=True, kw_only=True)
class SparkSubmission:
    """The files, the settings and the report's place of one submission.

    :param report_path: local path in client mode, fsspec path in cluster mode.
    """

    files: JobFiles
    archive: Path
    connection: CatalogConnection
    target: SparkTarget
    report_path: str

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
        files.write_spec(job_to_json(job))
        files.write_settings({**_LOG_LEVEL, **_scheduler(job), **connection.spark_settings()}, properties_file)
        report = shared or str(files.report)
        return cls(files=files, archive=job_archive(base), connection=connection, target=target, report_path=report)

    def driver_start(self, operator: SparkSubmitOperator) -> DriverStart:
        """Decide how the driver gets its jars, and whether an archive of its classes is used or made."""
        settings = self.files.settings.read_text(encoding="utf-8")
        attempt = self.files.folder.name.rpartition("-")[2]
        return DriverStart.plan(operator, self.target, self.connection, settings=settings, attempt=attempt)

    def read_reports(self) -> dict[str, JobReport | JobFailure]:
        """Read what the driver left, by task."""
        return read_reports(self.report_path)

    def forget_old_report(self) -> None:
        """Remove the report of an earlier attempt: in cluster mode all attempts of a run share its place."""
        forget_report(self.report_path)

    def close(self) -> None:
        """Remove spec, settings and a local report."""
        self.files.close()


def _scheduler(job: Job) -> dict[str, str]:
    # Stages of one task would wait for all of another's; the scheduler takes turns between their pools.
    return {"spark.scheduler.mode": "FAIR"} if job.parallelism > 1 else {}


def job_directory() -> Path:
    """Return ``[lake] job_directory``, or a folder of this user under the temporary directory."""
    configured = conf.get("lake", "job_directory", fallback="")
    return Path(configured) if configured else Path(tempfile.gettempdir()) / f"airflow-lake-{os.getuid()}"
