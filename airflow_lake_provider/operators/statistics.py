"""LakeStatisticsOperator: distinct values of columns, and rows and files of partitions, for those who plan queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.specs.maintenance import StatisticsSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.worker_action import PlannedAction
from airflow_lake_provider.planning.early_refusals import refuse_statistics


class StatisticsAction(PlannedAction[StatisticsSpec]):
    """The worker's part of statistics."""

    spec_type = StatisticsSpec

    def report_without_spark(self, spec: StatisticsSpec) -> JobReport | None:
        """Refuse columns that the table lacks, of a dry run, too; then plan."""
        refuse_statistics(spec, self.tables.load_existing(spec.table))
        return super().report_without_spark(spec)


class LakeStatisticsOperator(LakeJobOperator[StatisticsSpec]):
    """Compute statistics of main's head by Iceberg's own actions; where it has them, Spark is not started.

    Of a table: the number of distinct values of each column. Of a partitioned one also rows, files and deletes of each
    partition. They are kept beside the table's metadata, and no row changes.

    :param table: ``namespace.table`` (templated).
    :param columns: of which distinct values are counted; empty for all that are no structs, lists or maps.
    :param dry_run: say from metadata whether they are missing, and start nothing (templated).
    :param fail_on_conflict: fail the task on the outcome ``conflict`` instead of reporting it.
    :param of_job: arguments of :class:`.LakeJobOperator`.
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
        **of_job: Any,
    ) -> None:
        super().__init__(**of_job)
        self.keep(locals())
