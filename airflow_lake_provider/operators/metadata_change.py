"""The flow of operators that change metadata only: plan and commit on the worker, and start Spark where it has to."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from airflow_lake_provider.contracts.job_report import JobReport
from airflow_lake_provider.contracts.job_spec import JobSpec
from airflow_lake_provider.contracts.metadata_change_specs import MetadataChangeSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.planning.planned_change import PlannedChange
from airflow_lake_provider.planning.table_state import state_of

if TYPE_CHECKING:
    from airflow.sdk import Context
    from pyiceberg.table import Table

SpecT = TypeVar("SpecT", bound=JobSpec)


class MetadataChangeOperator(LakeJobOperator[SpecT]):
    """Change branches, tags, properties or the format version of a table in one commit.

    The worker commits through a REST catalog, and tables of format version 2 in any catalog. Others need a Spark job.
    """

    _planned: PlannedChange | None = None

    @abstractmethod
    def plan(self, table: Table, spec: SpecT) -> PlannedChange:
        """Decide from the metadata what to commit."""

    def report_without_spark(self, spec: JobSpec) -> JobReport | None:
        """Commit from the worker where that is possible; None where it is not."""
        table = self.load_existing(spec.table)
        planned = self._planned = self.plan(table, spec)  # type: ignore[arg-type]  # what make_spec returned
        if planned.change is None:
            return planned.report
        if not self.lake.commit_metadata(table, planned.change):
            return None
        return replace(planned.report, without_spark=True, after=state_of(self.lake.load_table(spec.table)))

    def _run_in_spark(self, spec: SpecT, context: Context) -> JobReport:
        planned = self._planned
        if planned is None or planned.change is None:
            raise AssertionError("a change is planned before Spark is started")
        frame = {name: getattr(spec, name) for name in ("catalog", "table", "run", "table_format")}
        change = MetadataChangeSpec(**frame, change=planned.change, planned=planned.report)
        return super()._run_in_spark(change, context)  # type: ignore[arg-type]  # what the driver is sent
