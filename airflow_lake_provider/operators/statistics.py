"""LakeStatisticsOperator: distinct values of columns, and rows and files of partitions, for those who plan queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.contracts.specs.statistics import StatisticsSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.worker_action import WorkerAction
from airflow_lake_provider.planning.early_refusals import refuse_statistics


class StatisticsAction(WorkerAction[StatisticsSpec]):
    """The worker's part of statistics."""

    spec_type = StatisticsSpec

    def report_without_spark(self, spec: StatisticsSpec) -> JobReport | None:
        """Plan from metadata: enough for a dry run, and where main's head has its statistics."""
        refuse_statistics(spec, self.tables.load_existing(spec.table))
        planned = self.tables.plan(spec)
        is_enough = planned is None or spec.dry_run or planned.outcome is Outcome.NOTHING_DUE
        return planned if is_enough else None

    def check_report(self, spec: StatisticsSpec, report: JobReport) -> None:
        """Fail on a conflict where that was asked for."""
        if report.outcome is Outcome.CONFLICT and spec.fail_on_conflict:
            raise CommitConflictError(report.reason)


class LakeStatisticsOperator(LakeJobOperator[StatisticsSpec]):
    """Compute statistics of main's head by Iceberg's own actions; where it has them, Spark is not started.

    Of a table: the number of distinct values of each column. Of a partitioned one also rows, files and deletes of each
    partition. They are kept beside the table's metadata, and no row changes.

    :param table: ``namespace.table`` (templated).
    :param columns: of which distinct values are counted; empty for all that are no structs, lists or maps.
    :param dry_run: say from metadata whether they are missing, and start nothing (templated).
    :param fail_on_conflict: fail the task on the outcome ``conflict`` instead of reporting it.
    :param job: arguments of :class:`.LakeJobOperator`.
    :raises InvalidSpecError: a column is none of the table's.
    :raises CommitConflictError: another writer won, and ``fail_on_conflict`` is set.
    """

    action = StatisticsAction

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        dry_run: bool | str = False,
        fail_on_conflict: bool = False,
        **job: Any,
    ) -> None:
        super().__init__(**job)
        self.keep(locals())
