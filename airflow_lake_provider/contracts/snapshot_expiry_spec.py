"""Spec of a snapshot expiry, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.job_spec import JobSpec


@dataclass(frozen=True, kw_only=True)
class SnapshotExpirySpec(JobSpec):
    """Forget snapshots and delete the files that only they reach.

    :param expire_before: snapshots committed before this moment may go; fixed in the worker, so a queue cannot move it.
    :param retain_last: newest ancestors of each branch that stay in any case.
    :param expire_stage_branches_before: left-over stage branches whose head was committed before this moment go too.
    """

    action: ClassVar[str] = "snapshot-expiry"
    expire_before: datetime
    expire_stage_branches_before: datetime
    retain_last: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.retain_last < 1:
            raise InvalidSpecError(f"{self.table}: retain_last must be at least 1, got {self.retain_last}")
        for moment in (self.expire_before, self.expire_stage_branches_before):
            if moment.tzinfo is None:
                raise InvalidSpecError(f"{self.table}: {moment!r} must carry a time zone")
