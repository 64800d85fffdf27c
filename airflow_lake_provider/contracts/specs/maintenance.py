"""Specs of maintenance: compaction, manifests, snapshots, orphan files, rows that are too old, statistics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import (
    choice_of,
    flag,
    names,
    number,
    optional,
    share,
    size,
    text,
)
from airflow_lake_provider.contracts.author.maintenance_policy import (
    CompactionLevel,
    CompactionRunner,
    CompactionStrategy,
    Verification,
)
from airflow_lake_provider.contracts.author.table_layout import sort_terms
from airflow_lake_provider.contracts.durations import duration, to_iso
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.row_age import Clock, moment_of_row
from airflow_lake_provider.contracts.specs.job import JobSpec, argument, attempts, derived
from airflow_lake_provider.contracts.sql_limits import PREDICATE, shown, unfit_for_predicate

# A Flink job whose last commit is older counts as gone, where nobody says otherwise.
FLINK_JOB_AGE = timedelta(days=7)
# Files of a writer that has not committed yet are as good as orphans; nobody writes for a day.
MINIMUM_AGE = timedelta(days=1)
FOREIGN_FILES_REMEDY = (
    "foreign_files='keep' expires the snapshots and leaves such files; foreign_files='delete' deletes them, as "
    "Iceberg's own expire_snapshots does"
)
# Stands for an age that a template makes: no minimum is above it.
_SAFE = timedelta(days=36_500)
# Iceberg has counts of 32 bits.
_MOST = 2**31 - 1
# A slip of the unit must not empty a table, and nobody's clock is that wrong.
_SHORTEST, _LONGEST = timedelta(days=1), timedelta(days=36_500)


def _refuse_outside(table: str, name: str, count: int, least: int) -> None:
    if not least <= count <= _MOST:
        bound = f"at least {least}" if count < least else f"at most {_MOST}"
        raise InvalidSpecError(f"{table}: {name} must be {bound}, got {count}")


def _sort_by(value: object, name: str) -> tuple[str, ...]:
    return names(value, name, "columns, for 'sort' with their order")


def _paths(value: object, name: str) -> tuple[str, ...]:
    return names(value, name, "partitions, such as 'day=2026-11-26'")


def _needs_of_strategy(strategy: CompactionStrategy) -> tuple[str, ...]:
    return () if strategy is CompactionStrategy.BINPACK else (f"compaction-{strategy.value}",)


@dataclass(frozen=True, kw_only=True)
class CompactionSpec(JobSpec):
    """Rewrite files into fewer and cleaner ones: the arguments of :class:`.LakeCompactionOperator`."""

    action: ClassVar[str] = "compaction"
    capabilities: ClassVar[tuple[str, ...]] = ("compaction",)
    level: CompactionLevel = argument(choice_of(CompactionLevel), default=CompactionLevel.AUTO)
    strategy: CompactionStrategy = argument(
        choice_of(CompactionStrategy), default=CompactionStrategy.BINPACK, needs=_needs_of_strategy
    )
    runner: CompactionRunner = argument(choice_of(CompactionRunner), default=CompactionRunner.AUTO)
    sort_by: tuple[str, ...] = argument(_sort_by, default=(), templated=False)
    where: str | None = argument(optional(text), default=None, is_sql=True)
    skip_partitions: tuple[str, ...] = argument(_paths, default=(), templated=False)
    target_file_size: int | None = argument(optional(size), default=None, templated=False)
    partial_progress: bool = argument(flag, default=True, templated=False)
    max_commits: int = argument(number, default=10, templated=False)
    delete_file_threshold: int = argument(number, default=1, templated=False)
    delete_ratio_threshold: float = argument(share, default=0.1, templated=False)
    min_input_files: int = argument(number, default=5, templated=False)
    rewrite_manifests: bool = argument(flag, default=True, templated=False)
    max_attempts: int = attempts(3)
    # BaseOperator has a method of the argument's name.
    dry_run: bool = argument(flag, default=False, attribute="only_plan")
    fail_on_conflict: bool = argument(flag, default=False, templated=False)
    verify: Verification | None = argument(optional(choice_of(Verification)), default=None, templated=False)
    not_applied: ClassVar[frozenset[str]] = JobSpec.not_applied | {"verify", "runner"}

    def complete(self) -> None:
        """Refuse what does not go together."""
        super().complete()
        if self.strategy.is_by_curve and not self.sort_by:
            raise InvalidSpecError(f"{self.table}: strategy {self.strategy.value!r} needs the columns in sort_by")
        if self.strategy is CompactionStrategy.BINPACK and self.sort_by and self.is_final("strategy"):
            raise InvalidSpecError(f"{self.table}: sort_by needs strategy 'sort', 'zorder' or 'hilbert', not 'binpack'")
        if self.strategy is CompactionStrategy.SORT:
            sort_terms(self.sort_by)
        unfit = unfit_for_predicate(self.where) if self.where is not None else None
        if unfit is not None:
            raise InvalidSpecError(
                f"{self.table}: where was refused for {unfit}, got where={shown(str(self.where))}. {PREDICATE}"
            )
        if not 0 < self.delete_ratio_threshold <= 1:
            raise InvalidSpecError(
                f"{self.table}: delete_ratio_threshold is a share in (0, 1], not {self.delete_ratio_threshold}"
            )
        counts = {"max_commits": 1, "min_input_files": 1, "delete_file_threshold": 0}
        for name, least in counts.items():
            _refuse_outside(self.table, name, getattr(self, name), least)


@dataclass(frozen=True, kw_only=True)
class RewriteManifestsSpec(JobSpec):
    """Merge small manifests, sorted by partition: the arguments of :class:`.LakeRewriteManifestsOperator`."""

    action: ClassVar[str] = "rewrite-manifests"
    capabilities: ClassVar[tuple[str, ...]] = ("file-lists",)
    sort: bool = argument(flag, default=False)
    # BaseOperator has a method of the argument's name.
    dry_run: bool = argument(flag, default=False, attribute="only_plan")
    fail_on_conflict: bool = argument(flag, default=False, templated=False)


class ForeignFiles(str, Enum):
    """Rule for files that only expired snapshots reach and that may not be the table's own."""

    REFUSE = "refuse"
    KEEP = "keep"
    DELETE = "delete"


def _at_least_nothing(value: object, name: str) -> timedelta:
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise InvalidSpecError(f"{name} must be a timedelta of zero or more, and no template, got {value!r}")
    return value if value == timedelta(0) else _counted_back(value, name)


def _counted_back(value: object, name: str) -> timedelta:
    """Return an age that leads to a moment of the calendar."""
    age = duration(value, name)
    if age > _LONGEST:
        raise InvalidSpecError(f"{name} must be at most {to_iso(_LONGEST)}, got {to_iso(age)}")
    return age


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
    older_than: timedelta | None = argument(optional(_counted_back), default=None)
    retain_last: int | None = argument(optional(number), default=None)
    stage_branches_older_than: timedelta = argument(_counted_back, _SAFE, default=timedelta(days=1))
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
        if self.retain_last is not None:
            _refuse_outside(self.table, "retain_last", self.retain_last, 1)
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
    older_than: timedelta = argument(_counted_back, _SAFE, default=timedelta(days=3))
    max_share: float = argument(share, default=0.2, templated=False)
    prefix_mismatch_mode: PrefixMismatchMode = argument(
        choice_of(PrefixMismatchMode), default=PrefixMismatchMode.ERROR, templated=False
    )
    inventory: str | None = argument(optional(text), default=None)
    quarantine_for: timedelta = argument(_counted_back, default=timedelta(days=14), templated=False)
    flink_jobs_older_than: timedelta = argument(_counted_back, default=FLINK_JOB_AGE, templated=False)
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


def _age(value: object, name: str) -> timedelta:
    age = duration(value, name)
    if not _SHORTEST <= age <= _LONGEST:
        raise InvalidSpecError(f"{name} must be at least {to_iso(_SHORTEST)} and at most {to_iso(_LONGEST)}, got {age}")
    return age


@dataclass(frozen=True, kw_only=True)
class RowExpirySpec(JobSpec):
    """Remove rows by their age: the arguments of :class:`.LakeRowExpiryOperator`.

    :param asked_at: the worker's time, beyond which no clock goes.
    """

    action: ClassVar[str] = "expire-rows"
    capabilities: ClassVar[tuple[str, ...]] = ("row-expiry",)
    not_applied: ClassVar[frozenset[str]] = JobSpec.not_applied | {"asked_at", "max_share"}
    column: str = argument(text, "column", templated=False)
    # LakeJobOperator has a method of the argument's name.
    keep: timedelta = argument(_age, timedelta(days=30), attribute="kept_for")
    clock: Clock = argument(choice_of(Clock), default=Clock.LAST_COMMIT, templated=False)
    before: datetime | None = argument(optional(moment_of_row), default=None, is_limit=True)
    max_share: float = argument(share, default=0.5, templated=False)
    max_attempts: int = attempts()
    # BaseOperator has a method of the argument's name.
    dry_run: bool = argument(flag, default=False, attribute="only_plan")
    asked_at: datetime | None = derived(None)

    def complete(self) -> None:
        """Refuse what does not go together."""
        super().complete()
        if not 0 < self.max_share <= 1:
            raise InvalidSpecError(f"{self.table}: max_share is a share in (0, 1], not {self.max_share}")
        if self.is_framed and (self.asked_at is None or self.asked_at.tzinfo is None):
            raise InvalidSpecError(f"{self.table}: asked_at must be a moment with a zone, got {self.asked_at!r}")


@dataclass(frozen=True, kw_only=True)
class StatisticsSpec(JobSpec):
    """Count distinct values, and rows by partition: the arguments of :class:`.LakeStatisticsOperator`."""

    action: ClassVar[str] = "compute-statistics"
    capabilities: ClassVar[tuple[str, ...]] = ("statistics",)
    of_columns: tuple[str, ...] = argument(
        names, default=(), templated=False, author_name="columns", names_columns=True
    )
    # BaseOperator has a method of the argument's name.
    dry_run: bool = argument(flag, default=False, attribute="only_plan")
    fail_on_conflict: bool = argument(flag, default=False, templated=False)
