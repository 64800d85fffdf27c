"""LakePublishBranchOperator: main moves forward to the head of a branch."""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.contracts.specs.metadata_changes import PublishBranchSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.worker_action import MetadataChangeAction
from airflow_lake_provider.planning.metadata_changes import plan_publication


class PublishBranchAction(MetadataChangeAction[PublishBranchSpec]):
    """The worker's part of a publication."""

    spec_type = PublishBranchSpec

    plan = staticmethod(plan_publication)


class LakePublishBranchOperator(LakeJobOperator[PublishBranchSpec]):
    """Move main forward to the head of a branch, as Iceberg's ``fast_forward`` does, and take over its run keys.

    A run that wrote to the branch counts as applied on main. Main must have no commit that the branch lacks. Where main
    has all of the branch, nothing happens.

    :param table: ``namespace.table`` (templated).
    :param branch: branch that an upsert wrote to (templated).
    :param drop_branch: remove the branch in the same commit; a branch that is not there is then nothing to do.
    :param job: arguments of :class:`.LakeJobOperator`.
    :raises UnsupportedError: there is no such branch, or main has commits that it lacks.
    """

    action = PublishBranchAction

    def __init__(self, *, branch: str, drop_branch: bool = False, **job: Any) -> None:
        super().__init__(**job)
        self.keep(locals())
