"""LakeRemoveOrphanFilesOperator: find the files that no metadata names; count, quarantine, delete or restore them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_lake_provider.contracts.errors import CatalogUnavailableError, LakeProviderError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import JobReport, OrphanFilesReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import FLINK_JOB_AGE, OrphanFilesSpec, RemovalMode
from airflow_lake_provider.hooks.look_at_tables import is_unanswered
from airflow_lake_provider.maintenance.locations import TableLocations, overlapping_locations, unknown_locations
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.task_run import TaskRun
from airflow_lake_provider.operators.worker_action import WorkerAction

_NAMED = 3


class OrphanFilesAction(WorkerAction[OrphanFilesSpec]):
    """The worker's part of a look for orphan files."""

    spec_type = OrphanFilesSpec

    def completed(self, spec: OrphanFilesSpec, run: TaskRun) -> OrphanFilesSpec:  # noqa: ARG002  # for others
        """Fix the moment now, and compare the folders of all tables of the catalog, of each task.

        :raises UnsupportedError: a file there may be another table's.
        :raises CatalogUnavailableError: likewise, and a retry may find out where all other tables lie.
        """
        table = self.tables.load_existing(spec.table)
        own = TableLocations(name=spec.table, folders=table.locations())
        if spec.mode is RemovalMode.RESTORE:
            return spec.asked(datetime.now(UTC))
        others = self.tables.locations()
        if overlaps := overlapping_locations(own, others):
            shown = "; ".join(map(str, overlaps[:_NAMED]))
            raise UnsupportedError(
                f"{spec.table}: {shown}{_more(len(overlaps))}. A file that this table does not name may be one of the "
                "other. Nothing was removed. Give each table a folder of its own, or drop an entry that stands twice"
            )
        unknown = tuple(unknown_locations(own, others))
        if unknown and spec.mode.removes:
            kind, advice = _error_of(others)
            raise kind(
                f"{spec.table}: the folders of {'; '.join(unknown[:_NAMED])}{_more(len(unknown))} are not known, so "
                f"files here may be theirs. Nothing was removed. {advice}; a dry run goes on"
            )
        return replace(spec.asked(datetime.now(UTC)), tables_checked=len(others), unknown_tables=unknown[:_NAMED])

    def report_without_spark(self, spec: OrphanFilesSpec) -> JobReport | None:
        """Answer for a table whose owner does not allow it."""
        table = self.tables.load_existing(spec.table)
        if (why := table.unfit_for("remove-orphans")) is None:
            return None
        return OrphanFilesReport(table=spec.table, outcome=Outcome.SKIPPED, reason=why, before=table.state())


def _error_of(others: Iterable[TableLocations]) -> tuple[type[LakeProviderError], str]:
    """Return the error where folders are not known, and the advice: a retry may help, unless a table is broken."""
    if all(is_unanswered(other.error) for other in others if not other.folders):
        return CatalogUnavailableError, "Try again once the catalog answers"
    return UnsupportedError, "Mend or drop what cannot be read"


def _more(count: int) -> str:
    return f" and {count - _NAMED} more" if count > _NAMED else ""


class LakeRemoveOrphanFilesOperator(LakeJobOperator[OrphanFilesSpec]):
    """Find the files below a table's folders that no metadata names; count them, or remove them on request.

    :param table: ``namespace.table`` (templated).
    :param mode: ``"dry-run"`` counts them. ``"quarantine"`` moves them to a hidden folder of the table's location,
        ``"restore"`` moves all of these back. ``"delete"`` deletes them. Not a template, so that no form removes files.
    :param older_than: age of a file's last change from which on it may be an orphan; timedelta or ISO-8601 text, at
        least a day (templated).
    :param max_share: largest share of the listed files that may go; where there are more, none goes. Not a template.
    :param prefix_mismatch_mode: ``"error"`` or ``"ignore"``: what becomes of files that metadata seems to name by
        another scheme, authority or root. Neither removes them; not a template.
    :param inventory: Parquet files, or CSV with a header, with ``file_path``, ``last_modified`` and ``size`` of the
        files, in place of a listing (templated).
    :param quarantine_for: time after which a later removal deletes what is in the quarantine; not a template.
    :param flink_jobs_older_than: age of its last commit at which a Flink job, or a sink of Kafka Connect, counts as
        gone. Until then files stay that its checkpoint, or its control topic, may have. Not a template.
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises InvalidSpecError: an age is below a day.
    """

    action = OrphanFilesAction

    def __init__(
        self,
        *,
        mode: str = "dry-run",
        older_than: timedelta | str = timedelta(days=3),
        max_share: float = 0.2,
        prefix_mismatch_mode: str = "error",
        inventory: str | None = None,
        quarantine_for: timedelta | str = timedelta(days=14),
        flink_jobs_older_than: timedelta | str = FLINK_JOB_AGE,
        **of_job: Any,
    ) -> None:
        super().__init__(**of_job)
        self.keep(locals())
