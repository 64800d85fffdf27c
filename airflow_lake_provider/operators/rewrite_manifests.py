"""LakeRewriteManifestsOperator: fewer manifests, sorted by partition."""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.contracts.specs.maintenance import RewriteManifestsSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.worker_action import PlannedAction
from airflow_lake_provider.planning.early_refusals import refuse_unfit


class RewriteManifestsAction(PlannedAction[RewriteManifestsSpec]):
    """The worker's part of a rewrite of manifests."""

    spec_type = RewriteManifestsSpec

    def refuse_from_metadata(self, spec: RewriteManifestsSpec) -> None:
        """Refuse a table whose lists of files Spark cannot read."""
        refuse_unfit("file-lists", self.tables.load_existing(spec.table))


class LakeRewriteManifestsOperator(LakeJobOperator[RewriteManifestsSpec]):
    """Merge the manifests of each partition spec, sorted by partition; where none is due, Spark is not started.

    Data files stay as they are. A writer that removes a manifest meanwhile wins: the outcome is ``conflict``, and the
    table is untouched.

    :param table: ``namespace.table`` (templated).
    :param sort: also where no fewer manifests would be left, so that each of them names fewer partitions (templated).
    :param dry_run: say from metadata what would happen, and start nothing (templated).
    :param fail_on_conflict: fail the task on the outcome ``conflict`` instead of reporting it.
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises CommitConflictError: another writer won, and ``fail_on_conflict`` is set.
    """

    action = RewriteManifestsAction

    def __init__(
        self,
        *,
        sort: bool | str = False,
        dry_run: bool | str = False,
        fail_on_conflict: bool = False,
        **of_job: Any,
    ) -> None:
        super().__init__(**of_job)
        self.keep(locals())
