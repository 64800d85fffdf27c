"""Part of an action that is the worker's: what it does for one table, before and beside Spark."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.contracts.reports.job import JobReport, MetadataChangeReport, Outcome
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChangeSpec
from airflow_lake_provider.operators.catalog_tables import CatalogTables, PlannedSpec
from airflow_lake_provider.planning.metadata_changes import PlannedChange

if TYPE_CHECKING:
    from airflow_lake_provider.contracts.applied.run_key import RunIdentity
    from airflow_lake_provider.operators.task_run import TaskRun
    from airflow_lake_provider.tables.base import LoadedTable

SpecT = TypeVar("SpecT", bound=JobSpec)
PlannedT = TypeVar("PlannedT", bound=PlannedSpec)


class WorkerAction(Generic[SpecT]):
    """The worker's part of an action; one object serves one task of a job, with the tables of its catalog."""

    spec_type: ClassVar[type[JobSpec]]
    # Whether each clearing of the Airflow task is another run, so that a cleared one acts again.
    cleared_is_new: ClassVar[bool] = False

    # Whether it is planned on the worker alone, from the table as it is before Spark starts.
    is_planned_here: ClassVar[bool] = False

    @classmethod
    def is_answered_here(cls, spec: JobSpec) -> bool:
        """Tell whether the worker alone plans or answers a task: a change of metadata, a dry run."""
        return cls.is_planned_here or bool(getattr(spec, "dry_run", False))

    def __init__(self, tables: CatalogTables) -> None:
        self.tables = tables

    def completed(self, spec: SpecT, run: TaskRun) -> SpecT:  # noqa: ARG002  # for subclasses
        """Return the spec with what the author does not say, and the run and the catalog do."""
        return spec

    def identity(self, spec: SpecT, run: TaskRun) -> RunIdentity:  # noqa: ARG002  # for subclasses
        """Return who asks, as the table remembers it."""
        return run.identity(cleared_is_new=self.cleared_is_new)

    def report_without_spark(self, spec: SpecT) -> JobReport | None:  # noqa: ARG002  # for subclasses
        """Answer from metadata alone where that is enough; None to start Spark."""
        return None

    def refuse_from_metadata(self, spec: SpecT) -> None:
        """Refuse what the catalog shows to be impossible, before Spark is started."""

    def sent(self, spec: SpecT) -> JobSpec:
        """Return what a driver is sent."""
        return spec


class PlannedAction(WorkerAction[PlannedT]):
    """The worker's part of an action that metadata is enough to plan; Spark is started where something is due."""

    # Outcomes of a plan that leave nothing for a driver.
    ends_here: ClassVar[tuple[Outcome, ...]] = (Outcome.NOTHING_DUE,)

    def report_without_spark(self, spec: PlannedT) -> JobReport | None:
        """Plan from metadata: enough for a dry run, and where nothing is due.

        What a run would be refused for, before it starts Spark, its dry run is, too.
        """
        planned = self.tables.plan(spec)
        is_enough = planned is None or spec.dry_run or planned.outcome in self.ends_here
        if planned is not None and is_enough and planned.outcome is Outcome.PLANNED:
            self.refuse_from_metadata(spec)
        return planned if is_enough else None


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
        return self._with_state(replace(planned.report, without_spark=True, after=None))

    def _with_state(self, report: MetadataChangeReport) -> MetadataChangeReport:
        """Return the report with the table's state, read back; a retry of a failed task would find nothing to do."""
        try:
            return replace(report, after=self.tables.lake.loaded(report.table).state())
        except (LakeProviderError, OSError) as error:
            # What a store says may hold its keys.
            why = error if isinstance(error, LakeProviderError) else type(error).__name__
            unseen = f"the table after the commit is not known: the commit was made, and looking failed: {why}"
            return replace(report, warnings=(*report.warnings, unseen))

    def sent(self, spec: SpecT) -> JobSpec:
        """Return the change that was planned."""
        planned = self._planned
        if planned is None or planned.change is None:
            raise AssertionError("a change is planned before Spark is started")
        frame = {name: getattr(spec, name) for name in ("catalog", "table", "run", "table_format")}
        return MetadataChangeSpec(**frame, change=planned.change, planned=planned.report)
