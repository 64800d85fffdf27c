"""LakePublishBranchOperator: main moves forward to the head of a branch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.metadata_changes import PublishBranchSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.worker_action import MetadataChangeAction
from airflow_lake_provider.planning.metadata_changes import PlannedChange, plan_publication

if TYPE_CHECKING:
    from airflow_lake_provider.operators.task_run import TaskRun
    from airflow_lake_provider.tables.base import LoadedTable


class PublishBranchAction(MetadataChangeAction[PublishBranchSpec]):
    """The worker's part of a publication."""

    spec_type = PublishBranchSpec
    _run: TaskRun

    def completed(self, spec: PublishBranchSpec, run: TaskRun) -> PublishBranchSpec:
        """Return the spec as it is, and keep who runs for the plan."""
        self._run = run
        return spec

    def plan(self, table: LoadedTable, spec: PublishBranchSpec) -> PlannedChange:
        """Decide what main gains, or tell what an earlier try has given it: the event may still be to be made."""
        planned = plan_publication(table, spec)
        if planned.change is not None:
            if planned.report.committed:
                self._run.note_publication(planned.report.committed)
            return planned
        gained = self._run.untold_publication()
        if not gained or gained[-1] not in {snapshot.id for snapshot in table.facts.ancestors()}:
            return planned
        reason = f"an earlier try has published it: {planned.report.reason}"
        report = replace(planned.report, outcome=Outcome.ALREADY_APPLIED, reason=reason, committed=gained)
        return replace(planned, report=report)


class LakePublishBranchOperator(LakeJobOperator[PublishBranchSpec]):
    """Move main forward to the head of a branch, as Iceberg's ``fast_forward`` does, and take over its run keys.

    A run that wrote to the branch counts as applied on main. Main must have no commit that the branch lacks. Where main
    has all of the branch, nothing happens.

    :param table: ``namespace.table`` (templated).
    :param branch: branch that an upsert wrote to (templated).
    :param drop_branch: remove the branch in the same commit; a branch that is not there is then nothing to do.
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises UnsupportedError: there is no such branch, or main has commits that it lacks.
    """

    action = PublishBranchAction

    def __init__(self, *, branch: str, drop_branch: bool = False, **of_job: Any) -> None:
        super().__init__(**of_job)
        self.keep(locals())
