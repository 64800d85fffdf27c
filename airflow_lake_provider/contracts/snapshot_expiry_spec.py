"""Spec of a snapshot expiry, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import ClassVar

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.job_spec import JobSpec

REMEDY = (
    "foreign_files='keep' expires the snapshots and leaves such files; foreign_files='delete' deletes them, as "
    "Iceberg's own expire_snapshots does"
)


class ForeignFiles(str, Enum):
    """Rule for files that only expired snapshots reach and that may not be the table's own."""

    REFUSE = "refuse"
    KEEP = "keep"
    DELETE = "delete"


def foreign_files_rule(value: object) -> ForeignFiles:
    """Return the rule of a text that an author gives.

    :raises InvalidSpecError: it is none, or a template.
    """
    try:
        return ForeignFiles(value)
    except ValueError:
        known = ", ".join(repr(each.value) for each in ForeignFiles)
        raise InvalidSpecError(f"foreign_files must be one of {known}, and no template, got {value!r}") from None


@dataclass(frozen=True, kw_only=True)
class SnapshotExpirySpec(JobSpec):
    """Forget snapshots and delete the files that only they reach.

    :param expire_before: snapshots committed before this moment may go; fixed in the worker, so a queue cannot move it.
        None takes the table's ``history.expire.max-snapshot-age-ms``, counted back from ``asked_at``.
    :param retain_last: newest ancestors of each branch that stay in any case; None takes the table's
        ``history.expire.min-snapshots-to-keep``.
    :param asked_at: the worker's time; needed without ``expire_before``.
    :param minimum_age: least age that the table's own setting can have.
    :param expire_stage_branches_before: left-over stage branches whose head was committed before this moment go too.
    :param expire_flink_jobs_before: Flink jobs that committed last before this moment count as gone; from those that
        committed since, the snapshots stay by which they are restored. None takes 7 days before the driver's time.
    :param allow_other_writers: expire also where a Flink job that upserts cannot commit any more afterwards.
    :param foreign_files: whether an expiry that would delete files outside of the table's locations, or of another
        table, is refused, keeps them or deletes them; data files in no known table's location are kept by ``refuse``,
        too.
    """

    action: ClassVar[str] = "snapshot-expiry"
    expire_stage_branches_before: datetime
    expire_before: datetime | None = None
    retain_last: int | None = None
    asked_at: datetime | None = None
    minimum_age: timedelta = timedelta(0)
    foreign_files: ForeignFiles = ForeignFiles.REFUSE
    expire_flink_jobs_before: datetime | None = None
    allow_other_writers: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.retain_last is not None and self.retain_last < 1:
            raise InvalidSpecError(f"{self.table}: retain_last must be at least 1, got {self.retain_last}")
        if self.expire_before is None and self.asked_at is None:
            raise InvalidSpecError(f"{self.table}: without expire_before, asked_at must say when it was asked")
        moments = (self.expire_before, self.expire_stage_branches_before, self.asked_at, self.expire_flink_jobs_before)
        for moment in moments:
            if moment is not None and moment.tzinfo is None:
                raise InvalidSpecError(f"{self.table}: {moment!r} must carry a time zone")
