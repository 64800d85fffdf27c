"""What a table's maintenance may do, when, and from which debt on.

A policy is what an author gives, or a layer of it: YAML, properties of a namespace, properties of a table. How layers
are merged is in ``maintenance/policy.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

from airflow_lake_provider.contracts.argument_validation import (
    Reader,
    choice_of,
    flag,
    names,
    number,
    optional,
    share,
    size,
    text,
)
from airflow_lake_provider.contracts.author_object import AuthorObject, reads
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.compaction import CompactionLevel, CompactionStrategy


class OrphanMode(str, Enum):
    """What is done with files that no metadata names."""

    OFF = "off"
    DRY_RUN = "dry-run"
    DELETE = "delete"


def _at_least(read: Reader, least: float) -> Reader:
    def checked(value: object, name: str) -> object:
        given = read(value, name)
        if given < least:
            raise InvalidSpecError(f"{name} must be at least {least}, got {given}")
        return given

    return checked


def _fraction(value: object, name: str) -> float:
    given = share(value, name)
    if not 0 < given <= 1:
        raise InvalidSpecError(f"{name} is a share in (0, 1], got {given}")
    return given


def _policy_of(cls: type[AuthorObject]) -> Callable[[object, str], AuthorObject]:
    def read(value: object, name: str) -> AuthorObject:
        if isinstance(value, cls):
            return value
        if not isinstance(value, dict):
            raise InvalidSpecError(f"{name} must be a mapping or a {cls.__name__}, got {value!r}")
        return cls.from_mapping(value, name)

    return read


_count = _at_least(number, 1)
_from_zero = _at_least(number, 0)


@dataclass(frozen=True, kw_only=True)
class CompactionPolicy(AuthorObject):
    """Debt from which on files are rewritten, and how.

    :param enabled: False rewrites none.
    :param level: most that a run may rewrite: ``minor``, ``major``, ``full``; ``auto`` is minor or major, by the debt.
    :param small_file_share: data files that a merge would save, over all of them.
    :param min_input_files: fewer are not merged for their size.
    :param deleted_share: deleted rows over all rows, of a table or of a partition.
    :param delete_files_per_data_file: delete files over data files.
    :param target_file_size: None takes the table's own.
    :param strategy: ``binpack``, ``sort``, ``zorder``, ``hilbert``.
    :param sort_by: of a sort or a curve; a sort without it takes the table's own order.
    :param sorted_share: a sort is due where a smaller share of the files lies in order.
    :param hot_within: partitions that were changed so recently are left alone.
    """

    enabled: bool = field(default=True, metadata=reads(flag))
    level: CompactionLevel = field(default=CompactionLevel.AUTO, metadata=reads(choice_of(CompactionLevel)))
    small_file_share: float = field(default=0.2, metadata=reads(_fraction))
    min_input_files: int = field(default=5, metadata=reads(_count))
    deleted_share: float = field(default=0.1, metadata=reads(_fraction))
    delete_files_per_data_file: float = field(default=1.0, metadata=reads(_at_least(share, 0)))
    target_file_size: int | None = field(default=None, metadata=reads(optional(size)))
    strategy: CompactionStrategy = field(
        default=CompactionStrategy.BINPACK, metadata=reads(choice_of(CompactionStrategy))
    )
    sort_by: Sequence[str] = field(default=(), metadata=reads(names))
    sorted_share: float = field(default=0.5, metadata=reads(_fraction))
    hot_within: timedelta = field(default=timedelta(hours=1), metadata=reads(duration))


@dataclass(frozen=True, kw_only=True)
class ExpiryPolicy(AuthorObject):
    """Snapshots that go.

    :param enabled: False keeps all.
    :param older_than: None takes the table's own age.
    :param retain_last: None takes the table's own number.
    :param min_snapshots: an expiry is due where so many would go.
    """

    enabled: bool = field(default=True, metadata=reads(flag))
    older_than: timedelta | None = field(default=None, metadata=reads(optional(duration)))
    retain_last: int | None = field(default=None, metadata=reads(optional(_count)))
    min_snapshots: int = field(default=20, metadata=reads(_count))


@dataclass(frozen=True, kw_only=True)
class ManifestPolicy(AuthorObject):
    """Manifests that are merged.

    :param enabled: False merges none.
    :param mergeable: a rewrite is due where it would leave so many fewer.
    :param overlap: share of pairs of manifests with partitions in common from which on they are sorted.
    """

    enabled: bool = field(default=True, metadata=reads(flag))
    mergeable: int = field(default=20, metadata=reads(_count))
    overlap: float = field(default=0.5, metadata=reads(_fraction))


@dataclass(frozen=True, kw_only=True)
class OrphanPolicy(AuthorObject):
    """Files that no metadata names.

    :param mode: ``off``, ``dry-run`` counts them, ``delete`` removes them.
    :param older_than: of their last change; at least a day.
    :param every: time between two looks, since each lists the whole table.
    :param max_share: of a table's files; more are refused.
    """

    mode: OrphanMode = field(default=OrphanMode.DRY_RUN, metadata=reads(choice_of(OrphanMode)))
    older_than: timedelta = field(default=timedelta(days=3), metadata=reads(duration))
    every: timedelta = field(default=timedelta(days=7), metadata=reads(duration))
    max_share: float = field(default=0.2, metadata=reads(_fraction))

    def complete(self) -> None:
        """Refuse an age below which a writer may still be about to commit its files."""
        if self.older_than < timedelta(days=1):
            raise InvalidSpecError(f"orphans.older_than must be at least P1D, got {self.older_than}")


@dataclass(frozen=True, kw_only=True)
class RowExpiryPolicy(AuthorObject):
    """Rows that go by their age; off until both are given.

    :param column: date or timestamp of a row.
    :param keep: rows older than this before the last commit of rows go.
    """

    column: str | None = field(default=None, metadata=reads(optional(text)))
    keep: timedelta | None = field(default=None, metadata=reads(optional(duration)))

    def complete(self) -> None:
        """Refuse one without the other."""
        if (self.column is None) != (self.keep is None):
            raise InvalidSpecError(f"row_expiry needs column and keep, got column={self.column!r}, keep={self.keep}")


@dataclass(frozen=True, kw_only=True)
class TagPolicy(AuthorObject):
    """Tags by the calendar, each with its age; 0 makes none of its kind.

    :param daily: days for which a tag of each day is kept.
    :param weekly: weeks.
    :param monthly: months.
    """

    daily: int = field(default=0, metadata=reads(_from_zero))
    weekly: int = field(default=0, metadata=reads(_from_zero))
    monthly: int = field(default=0, metadata=reads(_from_zero))


@dataclass(frozen=True, kw_only=True)
class MaintenancePolicy(AuthorObject):
    """Policy of one table.

    :param paused: True lets nothing be done.
    :param compaction: of data and delete files.
    :param expiry: of snapshots.
    :param manifests: merged and sorted.
    :param orphans: files that no metadata names.
    :param row_expiry: rows that go by their age.
    :param tags: by the calendar.
    :param fresh_within: age of the last commit of rows above which the table is stale.
    :param consumed_within: how far a consumer may be behind.
    :param major_hours: UTC hours in which major and full work may begin, ``"22-6"``; None for all.
    :param pool: Airflow pool of the cluster.
    :param priority: tables of a higher one come first.
    :param owner: who is told when it fails.
    """

    paused: bool = field(default=False, metadata=reads(flag))
    compaction: CompactionPolicy = field(default_factory=CompactionPolicy, metadata=reads(_policy_of(CompactionPolicy)))
    expiry: ExpiryPolicy = field(default_factory=ExpiryPolicy, metadata=reads(_policy_of(ExpiryPolicy)))
    manifests: ManifestPolicy = field(default_factory=ManifestPolicy, metadata=reads(_policy_of(ManifestPolicy)))
    orphans: OrphanPolicy = field(default_factory=OrphanPolicy, metadata=reads(_policy_of(OrphanPolicy)))
    row_expiry: RowExpiryPolicy = field(default_factory=RowExpiryPolicy, metadata=reads(_policy_of(RowExpiryPolicy)))
    tags: TagPolicy = field(default_factory=TagPolicy, metadata=reads(_policy_of(TagPolicy)))
    fresh_within: timedelta | None = field(default=None, metadata=reads(optional(duration)))
    consumed_within: timedelta = field(default=timedelta(days=3), metadata=reads(duration))
    major_hours: str | None = field(default=None, metadata=reads(optional(text)))
    pool: str | None = field(default=None, metadata=reads(optional(text)))
    priority: int = field(default=0, metadata=reads(number))
    owner: str | None = field(default=None, metadata=reads(optional(text)))
