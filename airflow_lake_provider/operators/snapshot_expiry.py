"""LakeSnapshotExpiryOperator: forget old snapshots and delete what only they reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_lake_provider.contracts.argument_validation import flag, number, optional
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.flink_commits import JOB_AGE
from airflow_lake_provider.contracts.job_report import JobReport, Outcome
from airflow_lake_provider.contracts.job_spec import JobSpec, SpecFrame
from airflow_lake_provider.contracts.snapshot_expiry_spec import SnapshotExpirySpec, foreign_files_rule
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.untemplated_arguments import at_least_nothing
from airflow_lake_provider.planning.snapshot_expiry_plan import plan_expiry

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeSnapshotExpiryOperator(LakeJobOperator[SnapshotExpirySpec]):
    """Expire snapshots by age and number; branches, tags, consumers and Flink jobs keep theirs.

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
    :param flink_jobs_older_than: age of a Flink job's last commit at which the job counts as gone. Until then the
        snapshots stay by which Flink restores it. A timedelta, not a template; zero keeps nothing for Flink.
    :param allow_other_writers: expire also where a Flink job that upserts into format version 3 cannot commit any more
        afterwards; not a template.
    :param dry_run: say from metadata what would happen, and start nothing (templated).
    :param job: arguments of :class:`.LakeJobOperator`.
    :raises InvalidSpecError: an age is below ``minimum_age``.
    """

    template_fields: Sequence[str] = (
        *LakeJobOperator.template_fields,
        "older_than",
        "retain_last",
        "stage_branches_older_than",
        "only_plan",
    )

    stand_ins: ClassVar[Mapping[str, Any]] = {
        **LakeJobOperator.stand_ins,
        "older_than": timedelta(days=36_500),
        "retain_last": 1,
        "stage_branches_older_than": timedelta(days=36_500),
        "only_plan": False,
    }

    def __init__(
        self,
        *,
        older_than: timedelta | str | None = None,
        retain_last: int | str | None = None,
        stage_branches_older_than: timedelta | str = timedelta(days=1),
        minimum_age: timedelta = timedelta(days=1),
        foreign_files: str = "refuse",
        flink_jobs_older_than: timedelta = JOB_AGE,
        allow_other_writers: bool = False,
        dry_run: bool | str = False,
        **job: Any,
    ) -> None:
        super().__init__(**job)
        self.older_than = older_than
        self.retain_last = retain_last
        self.stage_branches_older_than = stage_branches_older_than
        self.minimum_age = at_least_nothing(minimum_age, "minimum_age")
        self.foreign_files = foreign_files_rule(foreign_files)
        self.flink_jobs_older_than = at_least_nothing(flink_jobs_older_than, "flink_jobs_older_than")
        self.allow_other_writers = flag(allow_other_writers, "allow_other_writers")
        # BaseOperator has a method of the argument's name.
        self.only_plan = dry_run
        self.refuse_wrong_arguments()

    def make_spec(self, frame: SpecFrame, context: Context | None) -> SnapshotExpirySpec:  # noqa: ARG002  # for others
        """Translate the arguments; the cutoff is fixed here, so that a slow queue does not move it."""
        now = datetime.now(UTC)
        flag(self.only_plan, "dry_run")
        age = optional(self._age)(self.older_than, "older_than")
        return SnapshotExpirySpec(
            **frame,
            expire_before=None if age is None else now - age,
            retain_last=optional(number)(self.retain_last, "retain_last"),
            asked_at=now,
            minimum_age=self.minimum_age,
            expire_stage_branches_before=now - self._age(self.stage_branches_older_than, "stage_branches_older_than"),
            foreign_files=self.foreign_files,
            expire_flink_jobs_before=now - self.flink_jobs_older_than,
            allow_other_writers=self.allow_other_writers,
        )

    def _age(self, value: timedelta | str, name: str) -> timedelta:
        age = duration(value, name)
        if age < self.minimum_age:
            raise InvalidSpecError(
                f"{self.table}: {name} is {age}, less than minimum_age={self.minimum_age}; keep for longer, or lower "
                "minimum_age in the DAG's code"
            )
        return age

    def report_without_spark(self, spec: JobSpec) -> JobReport | None:
        """Plan from metadata: enough for a dry run, and where nothing is due."""
        if not isinstance(spec, SnapshotExpirySpec):
            return None
        planned = plan_expiry(self.load_existing(spec.table), spec)
        is_enough = planned.outcome in (Outcome.NOTHING_DUE, Outcome.SKIPPED)
        return planned if flag(self.only_plan, "dry_run") or is_enough else None
