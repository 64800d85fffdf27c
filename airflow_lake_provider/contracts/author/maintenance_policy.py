"""Policies of authors: what a table's maintenance may do, when, and from which debt on.

Each field is a setting. Its kind says how it is read; its bound, what a property of a table or a namespace may make of
it. How the layers of a policy are merged is in ``maintenance/policy.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any

from airflow_lake_provider.contracts.author_object import AuthorObject, reads
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.reports.history_entry import REMEMBERED
from airflow_lake_provider.contracts.setting_kinds import (
    COLUMNS,
    FEWER_HOURS,
    FLAG,
    HOURS,
    LONGER,
    LOWER,
    NEVER,
    ONLY_FALSE,
    ONLY_TRUE,
    RATIO,
    SHARE,
    SIZE,
    TEXT,
    Bound,
    Hours,
    before_in,
    one_of,
    setting,
    span,
    whole,
)

# Files of a writer that has not committed yet are as good as orphans; nobody writes for a day. A slip of the unit must
# not empty a table.
_SAFE_AGE = timedelta(days=1)
_MOST_TAGS = 1_000
_PRIORITIES = 1_000_000


class CompactionLevel(str, Enum):
    """Amount that a compaction rewrites."""

    AUTO = "auto"
    MINOR = "minor"
    MAJOR = "major"
    FULL = "full"


class CompactionStrategy(str, Enum):
    """Order of the rows in rewritten files."""

    BINPACK = "binpack"
    SORT = "sort"
    ZORDER = "zorder"
    HILBERT = "hilbert"

    @property
    def is_by_curve(self) -> bool:
        """True where rows follow a curve through several columns."""
        return self in (CompactionStrategy.ZORDER, CompactionStrategy.HILBERT)


class CompactionRunner(str, Enum):
    """Writer of the files of a compaction."""

    SPARK = "spark"
    AUTO = "auto"
    ARROW = "arrow"


class Verification(str, Enum):
    """Comparison of the rows before and after a compaction, by a scan of both."""

    ROWS = "rows"
    KEYS = "keys"


class OrphanMode(str, Enum):
    """Treatment of files that no metadata names."""

    OFF = "off"
    DRY_RUN = "dry-run"
    QUARANTINE = "quarantine"
    DELETE = "delete"


# Smaller files would be millions.
_NO_CRUMBS = Bound("at least 1 MiB", lambda _, given: given is None or given >= 1024**2)
_NO_MORE_WORK = before_in(CompactionLevel.MINOR, CompactionLevel.AUTO, CompactionLevel.MAJOR, CompactionLevel.FULL)
_NO_MORE_DELETED = before_in(*OrphanMode)
_NO_MORE_MEMORY = before_in(*CompactionRunner)


def _group(cls: type[AuthorObject]) -> Mapping[str, Any]:
    """Return the metadata of a field whose settings are those of an object."""
    return {**reads(_reader_of(cls)), "group": cls}


def _reader_of(cls: type[AuthorObject]) -> Callable[[object, str], AuthorObject]:
    def read(value: object, name: str) -> AuthorObject:
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise InvalidSpecError(f"{name} must be a mapping or a {cls.__name__}, got {value!r}")
        return cls.from_mapping(value, name)

    return read


@dataclass(frozen=True, kw_only=True)
class CompactionPolicy(AuthorObject):
    """Debt from which on files are rewritten, and how.

    :param enabled: False rewrites none.
    :param level: most that a run may rewrite: ``minor``, ``major``, ``full``; ``auto`` is minor or major, by the debt.
    :param small_file_share: data files that a merge would save, over all of them.
    :param min_input_files: fewer are not merged for their size.
    :param deleted_share: deleted rows over all rows, of a table or of a partition.
    :param delete_files_per_data_file: delete files over data files.
    :param target_file_size: size that a data file should have.
    :param strategy: ``binpack``, ``sort``, ``zorder``, ``hilbert``.
    :param sort_by: of a sort or a curve; a sort without it takes the table's own order.
    :param sorted_share: a sort is due where a smaller share of the files lies in order.
    :param hot_within: partitions that were changed so recently are left alone; at most a day counts, and ``PT0S`` lets
        none be.
    :param every: least time between two compactions, however quickly the debt grows.
    :param after_commits: commits of rows since the last compaction from which on one is due. Where this or one of the
        next two is given, the shares above do not count.
    :param after_small_files: small files that were added since then.
    :param after_delete_files: delete files and deletion vectors that are there, and that no compaction has paid.
    :param verify: rows or keys before and after it are compared, by a scan of both: ``rows``, ``keys``. Of a table
        without identifier fields rows are.
    :param runner: ``arrow`` for Python workers, ``spark`` for Iceberg's own runner; ``auto`` is Arrow where executors
        have memory for it beside the JVM's heap.
    """

    enabled: bool = field(default=True, metadata=setting(FLAG, ONLY_FALSE))
    level: CompactionLevel = field(
        default=CompactionLevel.AUTO, metadata=setting(one_of(CompactionLevel), _NO_MORE_WORK)
    )
    small_file_share: float = field(default=0.2, metadata=setting(SHARE))
    min_input_files: int = field(default=5, metadata=setting(whole(1)))
    deleted_share: float = field(default=0.1, metadata=setting(SHARE))
    delete_files_per_data_file: float = field(default=1.0, metadata=setting(RATIO))
    target_file_size: int | None = field(default=None, metadata=setting(SIZE.or_none("the table's own"), _NO_CRUMBS))
    strategy: CompactionStrategy = field(
        default=CompactionStrategy.BINPACK, metadata=setting(one_of(CompactionStrategy))
    )
    sort_by: Sequence[str] = field(default=(), metadata=setting(COLUMNS))
    sorted_share: float = field(default=0.5, metadata=setting(SHARE))
    hot_within: timedelta = field(default=timedelta(hours=1), metadata=setting(span(zero="none is hot")))
    every: timedelta = field(default=timedelta(minutes=15), metadata=setting(span()))
    after_commits: int | None = field(default=None, metadata=setting(whole(1).or_none("not counted")))
    after_small_files: int | None = field(default=None, metadata=setting(whole(1).or_none("not counted")))
    after_delete_files: int | None = field(default=None, metadata=setting(whole(1).or_none("not counted")))
    verify: Verification | None = field(
        default=None, metadata=setting(one_of(Verification).or_none("nothing is compared"), NEVER)
    )
    runner: CompactionRunner = field(
        default=CompactionRunner.AUTO, metadata=setting(one_of(CompactionRunner), _NO_MORE_MEMORY)
    )

    @property
    def waits_for_growth(self) -> bool:
        """True where a compaction is due by what commits have added, and not by shares."""
        return (self.after_commits, self.after_small_files, self.after_delete_files) != (None, None, None)

    def complete(self) -> None:
        """Refuse a curve through no columns. Columns of another layer do not count where nothing is sorted."""
        if self.strategy.is_by_curve and not self.sort_by:
            raise InvalidSpecError(f"compaction.strategy {self.strategy.value!r} needs compaction.sort_by, got none")
        if self.strategy is CompactionStrategy.BINPACK:
            object.__setattr__(self, "sort_by", ())


@dataclass(frozen=True, kw_only=True)
class ExpiryPolicy(AuthorObject):
    """Snapshots that go.

    :param enabled: False keeps all.
    :param older_than: age from which on a snapshot may go.
    :param retain_last: number of snapshots that stay in any case.
    :param min_snapshots: an expiry is due where so many would go.
    """

    enabled: bool = field(default=True, metadata=setting(FLAG, ONLY_FALSE))
    older_than: timedelta | None = field(default=None, metadata=setting(span().or_none("the table's own age")))
    retain_last: int | None = field(default=None, metadata=setting(whole(1).or_none("the table's own number")))
    min_snapshots: int = field(default=20, metadata=setting(whole(1)))


@dataclass(frozen=True, kw_only=True)
class ManifestPolicy(AuthorObject):
    """Manifests that are merged.

    :param enabled: False merges none.
    :param mergeable: a rewrite is due where it would leave so many fewer.
    :param overlap: share of pairs of manifests with partitions in common from which on they are sorted.
    """

    enabled: bool = field(default=True, metadata=setting(FLAG, ONLY_FALSE))
    mergeable: int = field(default=20, metadata=setting(whole(1)))
    overlap: float = field(default=0.5, metadata=setting(SHARE))


@dataclass(frozen=True, kw_only=True)
class OrphanPolicy(AuthorObject):
    """Files that no metadata names; off until ``mode`` is given, since each look lists the whole table.

    :param mode: ``off``, ``dry-run`` counts them, ``quarantine`` moves them aside, ``delete`` removes them.
    :param older_than: of their last change; at least a day.
    :param every: time between two looks; at most the 90 days for which the maintenance history is read.
    :param max_share: of a table's files; more are refused.
    :param quarantine_for: time after which files that were moved aside are deleted; at least a day.
    """

    mode: OrphanMode = field(default=OrphanMode.OFF, metadata=setting(one_of(OrphanMode), _NO_MORE_DELETED))
    older_than: timedelta = field(default=timedelta(days=3), metadata=setting(span(_SAFE_AGE), LONGER))
    every: timedelta = field(default=timedelta(days=7), metadata=setting(span(most=REMEMBERED), LONGER))
    max_share: float = field(default=0.2, metadata=setting(SHARE, LOWER))
    quarantine_for: timedelta = field(default=timedelta(days=14), metadata=setting(span(_SAFE_AGE), LONGER))


@dataclass(frozen=True, kw_only=True)
class RowExpiryPolicy(AuthorObject):
    """Rows that go by their age; off until column and age are given.

    :param enabled: False keeps all; column and age are None then.
    :param column: date or timestamp of a row.
    :param keep: rows older than this before the last commit of rows go; at least a day.
    :param max_share: of a table's rows; more are refused.
    """

    enabled: bool = field(default=True, metadata=setting(FLAG, ONLY_FALSE))
    column: str | None = field(default=None, metadata=setting(TEXT.or_none("no row goes"), NEVER))
    keep: timedelta | None = field(default=None, metadata=setting(span(_SAFE_AGE).or_none("no row goes"), LONGER))
    max_share: float = field(default=0.5, metadata=setting(SHARE, LOWER))

    def complete(self) -> None:
        """Refuse a column without an age; an age alone is for tables whose column comes from elsewhere."""
        if not self.enabled:
            # So nobody who asks for one of them alone expires rows.
            object.__setattr__(self, "column", None)
            object.__setattr__(self, "keep", None)
        if self.column is not None and self.keep is None:
            raise InvalidSpecError(f"row_expiry needs keep beside column, got column={self.column!r} and no keep")


@dataclass(frozen=True, kw_only=True)
class StatisticsPolicy(AuthorObject):
    """Statistics for those who plan queries; off until ``every`` is given.

    :param every: time between two computations, since each reads the whole table.
    :param columns: of which distinct values are counted; none for all.
    """

    every: timedelta | None = field(default=None, metadata=setting(span().or_none("never"), LONGER))
    columns: Sequence[str] = field(default=(), metadata=setting(COLUMNS))


@dataclass(frozen=True, kw_only=True)
class TagPolicy(AuthorObject):
    """Tags by the calendar, each with its age; 0 makes none of its kind.

    :param daily: days for which a tag of each day is kept.
    :param weekly: weeks for which a tag of each week is kept.
    :param monthly: months for which a tag of each month is kept.
    """

    daily: int = field(default=0, metadata=setting(whole(0, _MOST_TAGS)))
    weekly: int = field(default=0, metadata=setting(whole(0, _MOST_TAGS)))
    monthly: int = field(default=0, metadata=setting(whole(0, _MOST_TAGS)))


@dataclass(frozen=True, kw_only=True)
class TuningPolicy(AuthorObject):
    """Defaults that follow what is measured of a table; what any layer names stays as it is.

    :param enabled: True tunes them.
    :param smallest_target_file_size: lower bound of ``compaction.target_file_size``; the upper one is the table's own.
    :param lowest_small_file_share: lower bound of ``compaction.small_file_share``; the upper one is its default.
    :param fewest_snapshots: lower bound of ``expiry.min_snapshots``.
    :param most_snapshots: upper bound of it.
    :param shortest_orphan_wait: lower bound of ``orphans.every``.
    :param longest_orphan_wait: upper bound of it.
    """

    enabled: bool = field(default=False, metadata=setting(FLAG, ONLY_FALSE))
    smallest_target_file_size: int = field(default=256 * 1024**2, metadata=setting(SIZE, _NO_CRUMBS))
    lowest_small_file_share: float = field(default=0.01, metadata=setting(SHARE))
    fewest_snapshots: int = field(default=5, metadata=setting(whole(1)))
    most_snapshots: int = field(default=500, metadata=setting(whole(1)))
    # A stranger's longer one could exceed the longest, and leave the table without a policy.
    shortest_orphan_wait: timedelta = field(
        default=timedelta(days=1), metadata=setting(span(_SAFE_AGE, REMEMBERED), NEVER)
    )
    longest_orphan_wait: timedelta = field(
        default=timedelta(days=28), metadata=setting(span(_SAFE_AGE, REMEMBERED), LONGER)
    )

    def complete(self) -> None:
        """Refuse bounds that leave nothing between them."""
        for least, most in (("fewest_snapshots", "most_snapshots"), ("shortest_orphan_wait", "longest_orphan_wait")):
            low, high = getattr(self, least), getattr(self, most)
            if low > high:
                raise InvalidSpecError(f"tuning.{least} must not exceed tuning.{most}, got {low} and {high}")


@dataclass(frozen=True, kw_only=True)
class MaintenancePolicy(AuthorObject):
    """Policy of one table, all layers merged.

    :param paused: True lets nothing be done.
    :param compaction: of data and delete files.
    :param expiry: of snapshots.
    :param manifests: merged and sorted.
    :param orphans: files that no metadata names.
    :param row_expiry: rows that go by their age.
    :param statistics: of columns and partitions.
    :param tags: by the calendar.
    :param tuning: of defaults, by what is measured.
    :param fresh_within: age of the last commit of rows above which the table is stale.
    :param consumed_within: how far a consumer may be behind.
    :param major_hours: UTC hours in which major and full work may begin, ``"22-6"``.
    :param pool: Airflow pool of the cluster.
    :param priority: tables of a higher one come first.
    :param owner: whom a notifier of the run tells when it fails.
    """

    paused: bool = field(default=False, metadata=setting(FLAG, ONLY_TRUE))
    compaction: CompactionPolicy = field(default_factory=CompactionPolicy, metadata=_group(CompactionPolicy))
    expiry: ExpiryPolicy = field(default_factory=ExpiryPolicy, metadata=_group(ExpiryPolicy))
    manifests: ManifestPolicy = field(default_factory=ManifestPolicy, metadata=_group(ManifestPolicy))
    orphans: OrphanPolicy = field(default_factory=OrphanPolicy, metadata=_group(OrphanPolicy))
    row_expiry: RowExpiryPolicy = field(default_factory=RowExpiryPolicy, metadata=_group(RowExpiryPolicy))
    statistics: StatisticsPolicy = field(default_factory=StatisticsPolicy, metadata=_group(StatisticsPolicy))
    tags: TagPolicy = field(default_factory=TagPolicy, metadata=_group(TagPolicy))
    tuning: TuningPolicy = field(default_factory=TuningPolicy, metadata=_group(TuningPolicy))
    fresh_within: timedelta | None = field(default=None, metadata=setting(span().or_none("no limit")))
    consumed_within: timedelta = field(default=timedelta(days=3), metadata=setting(span()))
    major_hours: Hours | None = field(default=None, metadata=setting(HOURS.or_none("all hours"), FEWER_HOURS))
    pool: str | None = field(default=None, metadata=setting(TEXT.or_none("that of the task"), NEVER))
    priority: int = field(default=0, metadata=setting(whole(-_PRIORITIES, _PRIORITIES), LOWER))
    owner: str | None = field(default=None, metadata=setting(TEXT.or_none("that of the DAG"), NEVER))
