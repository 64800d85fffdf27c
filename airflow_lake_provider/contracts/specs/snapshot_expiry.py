"""Spec of a snapshot expiry, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import choice_of, flag, number, optional
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.job import JobSpec, argument, derived

# A job whose last commit is older counts as gone, where nobody says otherwise.
FLINK_JOB_AGE = timedelta(days=7)

# Stands for an age that a template makes: no minimum is above it.
_SAFE = timedelta(days=36_500)

REMEDY = (
    "foreign_files='keep' expires the snapshots and leaves such files; foreign_files='delete' deletes them, as "
    "Iceberg's own expire_snapshots does"
)


class ForeignFiles(str, Enum):
    """Rule for files that only expired snapshots reach and that may not be the table's own."""

    REFUSE = "refuse"
    KEEP = "keep"
    DELETE = "delete"


def _at_least_nothing(value: object, name: str) -> timedelta:
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise InvalidSpecError(f"{name} must be a timedelta of zero or more, and no template, got {value!r}")
    return value


@dataclass(frozen=True, kw_only=True)
class SnapshotExpirySpec(JobSpec):
    """Forget snapshots, and delete what only they reach: the arguments of :class:`.LakeSnapshotExpiryOperator`.

    :param asked_at: the worker's time, from which ages count back; a queue cannot move them.
    :param expire_before: snapshots committed before this moment may go; None takes the table's own age.
    :param expire_stage_branches_before: left-over stage branches whose head was committed before this moment go too.
    :param expire_flink_jobs_before: Flink jobs that committed last before this moment count as gone. None takes 7 days
        before the driver's time.
    """

    # [START arguments]
    action: ClassVar[str] = "snapshot-expiry"
    capabilities: ClassVar[tuple[str, ...]] = ("snapshot-expiry",)
    older_than: timedelta | None = argument(optional(duration), default=None)
    retain_last: int | None = argument(optional(number), default=None)
    stage_branches_older_than: timedelta = argument(duration, _SAFE, default=timedelta(days=1))
    minimum_age: timedelta = argument(_at_least_nothing, default=timedelta(days=1), templated=False)
    foreign_files: ForeignFiles = argument(choice_of(ForeignFiles), default=ForeignFiles.REFUSE, templated=False)
    flink_jobs_older_than: timedelta = argument(_at_least_nothing, default=FLINK_JOB_AGE, templated=False)
    allow_other_writers: bool = argument(flag, default=False, templated=False)
    # BaseOperator has a method of the argument's name.
    dry_run: bool = argument(flag, default=False, attribute="only_plan")
    asked_at: datetime | None = derived(None)
    # [END arguments]
    expire_before: datetime | None = derived(None)
    expire_stage_branches_before: datetime = derived(datetime(1970, 1, 1, tzinfo=UTC))
    expire_flink_jobs_before: datetime | None = derived(None)

    def asked(self, at: datetime) -> SnapshotExpirySpec:
        """Return the spec with the moments before which things go.

        :param at: the worker's time.
        """
        return replace(
            self,
            asked_at=at,
            expire_before=None if self.older_than is None else at - self.older_than,
            expire_stage_branches_before=at - self.stage_branches_older_than,
            expire_flink_jobs_before=at - self.flink_jobs_older_than,
        )

    def complete(self) -> None:
        """Refuse what does not go together."""
        super().complete()
        for name in ("older_than", "stage_branches_older_than"):
            self._refuse_below_minimum(name, getattr(self, name))
        if self.retain_last is not None and self.retain_last < 1:
            raise InvalidSpecError(f"{self.table}: retain_last must be at least 1, got {self.retain_last}")
        if self.is_framed and self.expire_before is None and self.asked_at is None:
            raise InvalidSpecError(f"{self.table}: without expire_before, asked_at must say when it was asked")
        moments = (self.expire_before, self.expire_stage_branches_before, self.asked_at, self.expire_flink_jobs_before)
        for moment in moments:
            if moment is not None and moment.tzinfo is None:
                raise InvalidSpecError(f"{self.table}: {moment!r} must carry a time zone")

    def _refuse_below_minimum(self, name: str, age: timedelta | None) -> None:
        if age is not None and age < self.minimum_age:
            raise InvalidSpecError(
                f"{self.table}: {name} is {age}, less than minimum_age={self.minimum_age}; keep for longer, or lower "
                "minimum_age in the DAG's code"
            )
