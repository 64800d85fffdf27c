"""Reports as they travel from driver to worker: a report or a failure for each task of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError, error_class
from airflow_lake_provider.contracts.json_codec import from_plain, storable, to_json, to_plain
from airflow_lake_provider.contracts.reports.job import (
    AppendReport,
    CompactionReport,
    DeleteRowsReport,
    ExpiryReport,
    IncrementalReport,
    JobReport,
    MetadataChangeReport,
    OrphanFilesReport,
    OverwritePartitionsReport,
    RewriteManifestsReport,
    RowExpiryReport,
    StatisticsReport,
    UpdateRowsReport,
    UpsertReport,
)

REPORTS: dict[str, type[JobReport]] = {
    report.action: report
    for report in (
        UpsertReport,
        AppendReport,
        OverwritePartitionsReport,
        CompactionReport,
        RewriteManifestsReport,
        StatisticsReport,
        ExpiryReport,
        OrphanFilesReport,
        IncrementalReport,
        DeleteRowsReport,
        RowExpiryReport,
        UpdateRowsReport,
        MetadataChangeReport,
    )
}


# Name under which a driver reports what ended it before its first task.
EVERY_TASK = "*"
# Of a driver that has ended in order and reports a failure. No JVM and no shell ends with it of its own.
FAILED_TASKS_EXIT_CODE = 65


@dataclass(frozen=True, kw_only=True)
class JobFailure:
    """A failure that the driver could still report.

    :param error: class name in ``contracts.errors``.
    :param traceback: Python traceback of the driver.
    """

    error: str
    message: str
    traceback: str

    @classmethod
    def of(cls, error: LakeProviderError, traceback: str = "") -> JobFailure:
        """Return the failure of an error of this package."""
        return cls(error=type(error).__name__, message=str(error), traceback=traceback)

    def to_error(self) -> LakeProviderError:
        """Build the error again on this side of the border."""
        return error_class(self.error)(self.message)


def reports_to_plain(reports: Mapping[str, JobReport | JobFailure]) -> dict[str, Any]:
    """Return the reports and failures of a job by task, as JSON has them."""
    return {"tasks": {key: report_to_plain(report) for key, report in reports.items()}}


def reports_to_json(reports: Mapping[str, JobReport | JobFailure]) -> str:
    """Write the reports and failures of a job by task."""
    return to_json(reports_to_plain(reports))


def reports_from_plain(plain: dict[str, Any]) -> dict[str, JobReport | JobFailure]:
    """Read what :func:`reports_to_plain` returned."""
    return {key: report_from_plain(report) for key, report in plain["tasks"].items()}


def report_to_plain(report: JobReport | JobFailure) -> dict[str, Any]:
    """Return a report or a failure as JSON has it, and as XCom can store it."""
    if isinstance(report, JobFailure):
        return {"failure": storable(to_plain(report))}
    return {"action": report.action, "report": storable(to_plain(report))}


def report_from_plain(plain: dict[str, Any]) -> JobReport | JobFailure:
    """Read what :func:`report_to_plain` returned.

    :raises InvalidSpecError: for an action or a field that this version does not know.
    """
    if "failure" in plain:
        failure: JobFailure = from_plain(JobFailure, plain["failure"])
        return failure
    action = plain.get("action")
    if action not in REPORTS:
        raise InvalidSpecError(f"a report of the action {action!r} is not known; driver and worker differ in version")
    report: JobReport = from_plain(REPORTS[action], plain["report"])
    return report
