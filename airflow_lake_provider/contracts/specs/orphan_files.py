"""Spec of a removal of orphan files, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import choice_of, optional, share, text
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.job import JobSpec, argument, derived
from airflow_lake_provider.contracts.specs.snapshot_expiry import FLINK_JOB_AGE

# Files of a writer that has not committed yet are as good as orphans; nobody writes for a day.
MINIMUM_AGE = timedelta(days=1)
# Stands for an age that a template makes.
_SAFE = timedelta(days=36_500)


class RemovalMode(str, Enum):
    """Treatment of the files that no metadata names."""

    DRY_RUN = "dry-run"
    QUARANTINE = "quarantine"
    DELETE = "delete"
    RESTORE = "restore"

    @property
    def removes(self) -> bool:
        """True where files go from their place."""
        return self in (RemovalMode.QUARANTINE, RemovalMode.DELETE)


class PrefixMismatchMode(str, Enum):
    """Treatment of a file that metadata names with another scheme, authority or root."""

    ERROR = "error"
    IGNORE = "ignore"


@dataclass(frozen=True, kw_only=True)
class OrphanFilesSpec(JobSpec):
    """Find, remove or restore orphan files: the arguments of :class:`.LakeRemoveOrphanFilesOperator`.

    :param asked_at: the worker's time, from which ages count back; a queue cannot move them.
    :param tables_checked: tables of the catalog whose folders were compared; None where nobody has.
    :param unknown_tables: tables whose folders nobody knows.
    """

    action: ClassVar[str] = "remove-orphans"
    capabilities: ClassVar[tuple[str, ...]] = ("remove-orphans",)
    mode: RemovalMode = argument(choice_of(RemovalMode), default=RemovalMode.DRY_RUN, templated=False)
    older_than: timedelta = argument(duration, _SAFE, default=timedelta(days=3))
    max_share: float = argument(share, default=0.2, templated=False)
    prefix_mismatch_mode: PrefixMismatchMode = argument(
        choice_of(PrefixMismatchMode), default=PrefixMismatchMode.ERROR, templated=False
    )
    inventory: str | None = argument(optional(text), default=None)
    quarantine_for: timedelta = argument(duration, default=timedelta(days=14), templated=False)
    flink_jobs_older_than: timedelta = argument(duration, default=FLINK_JOB_AGE, templated=False)
    asked_at: datetime = derived(datetime(1970, 1, 1, tzinfo=UTC))
    tables_checked: int | None = derived(None)
    unknown_tables: tuple[str, ...] = derived(())

    @property
    def remove_before(self) -> datetime:
        """Moment before which a file was written that may go."""
        return self.asked_at - self.older_than

    def asked(self, at: datetime) -> OrphanFilesSpec:
        """Return the spec with the worker's time."""
        return replace(self, asked_at=at)

    def complete(self) -> None:
        """Refuse what could take the files of a writer, or of a table without anybody having looked."""
        super().complete()
        for name in ("older_than", "quarantine_for"):
            if getattr(self, name) < MINIMUM_AGE:
                raise InvalidSpecError(
                    f"{self.table}: {name} is {getattr(self, name)}, less than a day; files of a writer that has not "
                    "committed yet look like orphans, so keep them for longer"
                )
        if not 0 < self.max_share <= 1:
            raise InvalidSpecError(f"{self.table}: max_share must be above 0 and at most 1, got {self.max_share}")
        if self.asked_at.tzinfo is None:
            raise InvalidSpecError(f"{self.table}: asked_at {self.asked_at!r} must carry a time zone")
        if self.is_framed and self.mode.removes and (self.tables_checked is None or self.unknown_tables):
            raise InvalidSpecError(
                f"{self.table}: the folders of all tables of the catalog have to be compared before files are removed"
            )
