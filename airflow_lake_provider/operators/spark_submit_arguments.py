"""Arguments of ``spark-submit`` for a job: application, settings, jars and files, the author's merged with ours.

The command line itself is put together by the official hook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_lake_provider.operators.driver_start import DriverStart, binary_of_connection
from airflow_lake_provider.submission.job_archive import APPLICATION
from airflow_lake_provider.submission.spark_installation import spark_submit_binary

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    from airflow_lake_provider.operators.spark_submission import SparkSubmission


def spark_submit_arguments(
    submission: SparkSubmission, operator: SparkSubmitOperator, start: DriverStart
) -> dict[str, Any]:
    """Return the attributes of SparkSubmitOperator for this submission, the author's merged with ours.

    :param start: of :meth:`SparkSubmission.driver_start`.
    """
    spec = str(submission.files.spec)
    shipped = [spec] if submission.target.cluster_mode else []
    read_from = submission.files.spec.name if shipped else spec
    return {
        "application": str(APPLICATION),
        "application_args": ["--spec", read_from, "--report", submission.report_path],
        "conf": operator.conf or {},
        "files": _joined(shipped, operator.files),
        "py_files": _joined([str(submission.archive)], operator.py_files),
        "jars": _joined(list(start.jars), operator.jars),
        "packages": _joined(list(start.packages), operator.packages),
        "driver_class_path": operator.driver_class_path or start.class_path,
        "properties_file": str(submission.files.settings),
        "_spark_binary": operator._spark_binary or _bundled_binary(str(operator._conn_id)),
    }


def _bundled_binary(spark_conn_id: str) -> str | None:
    return None if binary_of_connection(spark_conn_id) else spark_submit_binary()


def _joined(ours: list[str], theirs: str | None) -> str | None:
    return ",".join([*ours, *([theirs] if theirs else [])]) or None
