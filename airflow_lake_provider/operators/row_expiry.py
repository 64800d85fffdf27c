"""LakeRowExpiryOperator: rows that are too old by a column of time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import RowExpirySpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.task_run import TaskRun
from airflow_lake_provider.operators.worker_action import PlannedAction
from airflow_lake_provider.planning.early_refusals import refuse_unfit


class RowExpiryAction(PlannedAction[RowExpirySpec]):
    """The worker's part of an expiry of rows."""

    spec_type = RowExpirySpec
    cleared_is_new = True
    ends_here = (Outcome.NOTHING_NEW,)

    def completed(self, spec: RowExpirySpec, run: TaskRun) -> RowExpirySpec:  # noqa: ARG002  # for others
        """Fix the moment now, so that a slow queue does not move it."""
        return replace(spec, asked_at=datetime.now(UTC))

    def report_without_spark(self, spec: RowExpirySpec) -> JobReport | None:
        """Refuse a table whose rows cannot be changed, of a dry run, too; then plan."""
        refuse_unfit("row-expiry", self.tables.load_existing(spec.table))
        return super().report_without_spark(spec)


class LakeRowExpiryOperator(LakeJobOperator[RowExpirySpec]):
    """Remove rows that are older than ``keep`` by a column of time, in one commit; where none can be, start no Spark.

    Ages count back from the last commit that brought rows. So a feed that stalled keeps what it has. Files that have
    old rows alone are removed without being read; in others rows are deleted, as :class:`.LakeDeleteRowsOperator` does.

    :param table: ``namespace.table`` (templated).
    :param column: of type ``date``, ``timestamp`` or ``timestamptz``, by which rows have an age. Rows without a value
        stay. Dates, and timestamps without a zone, count as UTC.
    :param keep: age from which on a row goes; timedelta or ISO-8601 text, at least a day (templated).
    :param clock: ``"last-commit"`` counts ages back from the last commit that brought rows, ``"now"`` from the present.
    :param before: value of the column from which on no row goes, however old it is; None for no such limit. With
        ``expired_before`` of a dry run, what somebody has approved is the limit, though rows have arrived since
        (templated).
    :param max_share: of the table's rows; an expiry of more is refused. 1 allows all.
    :param max_attempts: commits tried before a conflict fails the task.
    :param dry_run: say from metadata what would happen, and start nothing (templated).
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises InvalidSpecError: the column is missing, or has no time; ``keep`` is less than a day.
    :raises UnsupportedError: more than ``max_share`` of the rows would go.
    :raises ForgottenRunError: a retry of a run older than the run keys that the table remembers.
    """

    action = RowExpiryAction

    def __init__(
        self,
        *,
        column: str,
        keep: timedelta | str,
        clock: str = "last-commit",
        before: datetime | date | str | None = None,
        max_share: float = 0.5,
        max_attempts: int = 5,
        dry_run: bool | str = False,
        **of_job: Any,
    ) -> None:
        super().__init__(**of_job)
        self.keep(locals())
