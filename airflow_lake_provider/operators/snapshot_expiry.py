"""LakeSnapshotExpiryOperator: forget old snapshots and delete what only they reach."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import FLINK_JOB_AGE, SnapshotExpirySpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.task_run import TaskRun
from airflow_lake_provider.operators.worker_action import PlannedAction


# [START worker]
class SnapshotExpiryAction(PlannedAction[SnapshotExpirySpec]):
    """The worker's part of an expiry."""

    spec_type = SnapshotExpirySpec
    ends_here = (Outcome.NOTHING_DUE, Outcome.SKIPPED)

    def completed(self, spec: SnapshotExpirySpec, run: TaskRun) -> SnapshotExpirySpec:  # noqa: ARG002  # for others
        """Fix the moments now, so that a slow queue does not move them."""
        return spec.asked(datetime.now(UTC))


# [END worker]


class LakeSnapshotExpiryOperator(LakeJobOperator[SnapshotExpirySpec]):
    """Expire snapshots by age and number; branches, tags, consumers, Flink jobs and Kafka sinks keep theirs.

    :param table: ``namespace.table`` (templated).
    :param older_than: snapshots younger than this stay; timedelta or ISO-8601 text (templated). None or an empty text
        takes the table's ``history.expire.max-snapshot-age-ms``, or 5 days.
    :param retain_last: newest snapshots of each branch that stay in any case (templated). None or an empty text takes
        the table's ``history.expire.min-snapshots-to-keep``, or 1.
    :param stage_branches_older_than: age at which a left-over stage branch of a killed upsert is removed (templated);
        it must be longer than any upsert takes.
    :param minimum_age: least value of both ages above, the table's own included; a timedelta, not a template, so that
        no form can go below it.
    :param foreign_files: ``"refuse"``, ``"keep"`` or ``"delete"``: what becomes of expired files that lie outside
        of the table's locations, or in another table's; not a template. ``"refuse"`` keeps data files that lie in no
        table's location, as ``add_files`` brings them.
    :param flink_jobs_older_than: age of its last commit at which a Flink job, or a sink of Kafka Connect, counts as
        gone. Until then the snapshots stay by which it finds that commit. A timedelta, not a template; zero keeps none.
    :param allow_other_writers: expire also where a Flink job that upserts into format version 3 cannot commit any more
        afterwards; not a template.
    :param dry_run: say from metadata what would happen, and start nothing (templated).
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises InvalidSpecError: an age is below ``minimum_age``.
    """

    action = SnapshotExpiryAction

    # [START signature]
    def __init__(
        self,
        *,
        older_than: timedelta | str | None = None,
        retain_last: int | str | None = None,
        stage_branches_older_than: timedelta | str = timedelta(days=1),
        minimum_age: timedelta = timedelta(days=1),
        foreign_files: str = "refuse",
        flink_jobs_older_than: timedelta = FLINK_JOB_AGE,
        allow_other_writers: bool = False,
        dry_run: bool | str = False,
        **of_job: Any,
    ) -> None:
        super().__init__(**of_job)
        self.keep(locals())

    # [END signature]
