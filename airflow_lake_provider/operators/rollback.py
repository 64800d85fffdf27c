"""LakeRollbackOperator: main goes back to an earlier snapshot, with run keys and positions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow_lake_provider.contracts.specs.metadata_changes import RollbackSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.worker_action import MetadataChangeAction
from airflow_lake_provider.planning.rollback_plan import plan_rollback


class RollbackAction(MetadataChangeAction[RollbackSpec]):
    """The worker's part of a rollback."""

    spec_type = RollbackSpec
    cleared_is_new = True

    plan = staticmethod(plan_rollback)


class LakeRollbackOperator(LakeJobOperator[RollbackSpec]):
    """Move main back to one of its earlier snapshots, and with it what the table says it has applied.

    A batch of a snapshot that was rolled back counts as not applied: its run applies it again. Each clearing of the
    task rolls back again; Airflow's own retries are recognised, and take no later commit away.

    :param table: ``namespace.table`` (templated).
    :param snapshot_id: id of the snapshot, as text or a number (templated). Or ``timestamp`` or ``tag``.
    :param timestamp: moment at which main was at the snapshot: a datetime with a zone, or ISO-8601 text (templated).
    :param tag: tag on the snapshot (templated).
    :param expected_snapshot_id: snapshot that main has to be at, so that nothing newer is rolled back unseen
        (templated); None for any.
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises UnsupportedError: main was never at the snapshot, or it was expired.
    :raises ForgottenRunError: a retry of a run older than the run keys that the table remembers.
    """

    action = RollbackAction

    def __init__(
        self,
        *,
        snapshot_id: int | str | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
        expected_snapshot_id: int | str | None = None,
        **of_job: Any,
    ) -> None:
        super().__init__(**of_job)
        self.keep(locals())
