"""Spec of a snapshot expiry, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
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
    :param retain_last: newest ancestors of each branch that stay in any case.
    :param expire_stage_branches_before: left-over stage branches whose head was committed before this moment go too.
    :param foreign_files: whether an expiry that would delete files outside of the table's locations, or of another
        table, is refused, keeps them or deletes them; data files in no known table's location are kept by ``refuse``,
        too.
    """

    action: ClassVar[str] = "snapshot-expiry"
    expire_before: datetime
    expire_stage_branches_before: datetime
    retain_last: int = 1
    foreign_files: ForeignFiles = ForeignFiles.REFUSE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.retain_last < 1:
            raise InvalidSpecError(f"{self.table}: retain_last must be at least 1, got {self.retain_last}")
        for moment in (self.expire_before, self.expire_stage_branches_before):
            if moment.tzinfo is None:
                raise InvalidSpecError(f"{self.table}: {moment!r} must carry a time zone")
