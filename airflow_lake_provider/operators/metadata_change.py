"""The worker's part of actions that change metadata only: it plans and commits, and starts Spark where it has to."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChangeSpec
from airflow_lake_provider.operators.worker_action import WorkerAction
from airflow_lake_provider.planning.planned_change import PlannedChange

if TYPE_CHECKING:
    from airflow_lake_provider.tables.base import LoadedTable

SpecT = TypeVar("SpecT", bound=JobSpec)


class MetadataChangeAction(WorkerAction[SpecT]):
    """Change branches, tags, properties or the format version of a table in one commit.

    The worker commits through a REST catalog, and tables of format version 2 in any catalog. Others need a Spark job.
    """

    is_planned_here = True
    _planned: PlannedChange | None = None

    @abstractmethod
    def plan(self, table: LoadedTable, spec: SpecT) -> PlannedChange:
        """Decide from the metadata what to commit."""

    def report_without_spark(self, spec: SpecT) -> JobReport | None:
        """Commit from the worker where that is possible; None where it is not."""
        table = self.tables.load_existing(spec.table)
        planned = self._planned = self.plan(table, spec)
        if planned.change is None:
            return planned.report
        if not self.tables.lake.commit_metadata(table, planned.change):
            return None
        after = self.tables.lake.loaded(spec.table).state()
        return replace(planned.report, without_spark=True, after=after)

    def sent(self, spec: SpecT) -> JobSpec:
        """Return the change that was planned."""
        planned = self._planned
        if planned is None or planned.change is None:
            raise AssertionError("a change is planned before Spark is started")
        frame = {name: getattr(spec, name) for name in ("catalog", "table", "run", "table_format")}
        return MetadataChangeSpec(**frame, change=planned.change, planned=planned.report)
