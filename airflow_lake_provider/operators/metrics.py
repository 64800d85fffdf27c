"""Metrics of jobs through Airflow's own Stats: what a report says, as counters, timings and gauges.

``docs/reference/metrics.md`` lists the names. Whatever a metrics backend does, no task fails of it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from airflow.sdk.observability import stats

from airflow_lake_provider.contracts.errors import CommitConflictError, LakeProviderError
from airflow_lake_provider.contracts.reports.job import ExpiryReport, JobReport, LoadReport, Outcome
from airflow_lake_provider.contracts.specs.job import JobSpec

_log = logging.getLogger(__name__)
# Metric by the fields of reports that it counts.
COUNTERS: Mapping[str, tuple[str, ...]] = {
    "lake.rows.read": ("batch_rows", "upserts_read", "deletes_read"),
    "lake.rows.inserted": ("rows_inserted", "rows_appended", "rows_written"),
    "lake.rows.updated": ("rows_updated",),
    "lake.rows.deleted": ("rows_deleted",),
    "lake.dead_letters": ("dead_letters",),
    "lake.files.read": ("batch_files",),
    "lake.files.rewritten": ("files_rewritten",),
    "lake.files.added": ("files_added",),
    "lake.files.deleted": (
        "data_files_deleted",
        "delete_files_deleted",
        "manifests_deleted",
        "manifest_lists_deleted",
        "statistics_deleted",
    ),
    "lake.bytes.rewritten": ("bytes_rewritten",),
    "lake.groups.failed": ("failed_groups",),
}
# Fields of a table's state, each the gauge ``lake.table.<field>``.
GAUGES = (
    "rows",
    "data_files",
    "data_bytes",
    "delete_files",
    "deleted_rows",
    "equality_deletes",
    "manifests",
    "snapshots",
)


@dataclass(frozen=True, kw_only=True)
class JobMetrics:
    """Metrics of one task.

    :param tags: of every metric: table, connection, operator.
    :param on_main: whether main is written, so that the report's states are the table's.
    """

    tags: Mapping[str, str]
    on_main: bool = True

    def tell_report(self, report: JobReport, seconds: float, *, is_repeated: bool = False) -> None:
        """Tell what a job did.

        :param seconds: the task's own, from its arguments to the report.
        :param is_repeated: an earlier try has told what the job did.
        """
        try:
            self._incr("lake.jobs", 1, outcome=report.outcome.value)
            stats.timing("lake.job.duration", seconds * 1000, tags=dict(self.tags))
            for phase, took in report.seconds.items():
                stats.timing("lake.job.phase_duration", took * 1000, tags={**self.tags, "phase": phase})
            # A dry run only says what it would do.
            if report.outcome is not Outcome.PLANNED:
                self._incr("lake.conflicts", _conflicts(report))
                if not is_repeated:
                    self._count(report)
            self._measure(report)
        # Each backend has errors of its own.
        except Exception:  # noqa: BLE001
            _log.warning("Metrics of %s could not be told", report.table, exc_info=True)

    def tell_failure(self, error: LakeProviderError, spec: JobSpec | None) -> None:
        """Tell that a job failed.

        :param spec: None where the arguments were refused, or a report has told of the conflicts.
        """
        try:
            self._incr("lake.job_failures", 1, error=type(error).__name__)
            if isinstance(error, CommitConflictError) and spec is not None:
                self._incr("lake.conflicts", int(getattr(spec, "max_attempts", 1)))
        # Each backend has errors of its own.
        except Exception:  # noqa: BLE001
            _log.warning("Metrics of a failure could not be told", exc_info=True)

    def _count(self, report: JobReport) -> None:
        for name, parts in COUNTERS.items():
            self._incr(name, sum(getattr(report, part, 0) or 0 for part in parts))
        self._incr("lake.commits", len(report.committed))
        if isinstance(report, ExpiryReport):
            self._incr("lake.snapshots.expired", len(report.snapshots_expired))

    def _measure(self, report: JobReport) -> None:
        state = report.after or report.before
        if state is None or not self.on_main:
            return
        # Of the table, whichever operator looked.
        tags = {name: self.tags[name] for name in ("table", "lake_conn_id")}
        for name in GAUGES:
            stats.gauge(f"lake.table.{name}", getattr(state, name), tags=tags)

    def _incr(self, name: str, count: int, **more: str) -> None:
        if count > 0:
            stats.incr(name, count, tags={**self.tags, **more})


def _conflicts(report: JobReport) -> int:
    """Return how many commits of a job lost to another writer's."""
    attempts = int(getattr(report, "attempts", 0))
    # A load that found nothing left to commit counts those that lost; others count the last attempt, too.
    all_lost = report.outcome is Outcome.CONFLICT or (isinstance(report, LoadReport) and not report.is_of_this_try)
    return attempts if all_lost else attempts - 1
