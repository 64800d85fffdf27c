"""Score of a table's health: 100 less the points of its parts, each of which says number, threshold and remedy.

Where thresholds and points come from is in decision 35. A part begins to take points at its threshold, a quarter of
its most; it takes the most from ``full`` on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionStrategy
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.maintenance.history import ConsumerLag
from airflow_lake_provider.tables.head_files import FEWEST_MERGED

_AT_THRESHOLD = 0.25


@dataclass(frozen=True)
class Threshold:
    """Points that a part takes by its value.

    :param first: value from which on it takes some.
    :param full: value from which on it takes all.
    :param most: all points.
    """

    first: float
    full: float
    most: int

    def lost(self, value: float) -> int:
        """Return the points that a value takes."""
        if value < self.first:
            return 0
        way = 1.0 if self.full <= self.first else min(1.0, (value - self.first) / (self.full - self.first))
        return max(1, round(self.most * (_AT_THRESHOLD + (1 - _AT_THRESHOLD) * way)))


# With fewer, no order of manifests lets a reader skip much.
FEWEST_MANIFESTS = 20

SMALL_FILES = Threshold(0.2, 0.9, 40)
DELETED_ROWS = Threshold(0.1, 0.5, 30)
PARTITION_DELETES = Threshold(0.3, 0.8, 15)
DELETE_FILES = Threshold(1.0, 5.0, 20)
EQUALITY_DELETES = Threshold(0.0, 0.1, 40)
DANGLING_DELETES = Threshold(0.1, 1.0, 10)
SNAPSHOTS = Threshold(100, 500, 15)
MANIFESTS = Threshold(100, 500, 20)
MANIFEST_OVERLAP = Threshold(0.5, 1.0, 10)
METADATA_BYTES = Threshold(2 * 1024**2, 32 * 1024**2, 15)
CONSUMERS = Threshold(1.0, 3.0, 10)
FRESHNESS = Threshold(1.0, 3.0, 20)
ORPHANS = Threshold(0.1, 0.5, 10)


@dataclass(frozen=True, kw_only=True)
class HealthLimits:
    """Limits that somebody declares for a table.

    :param fresh_within: age of the last commit of rows above which the table is stale; None for no limit.
    :param consumed_within: how far a consumer may be behind.
    :param older_than: age of snapshots that count as past their retention; None takes the table's own.
    :param retain_last: snapshots of each branch that do not; None takes the table's own.
    :param target_bytes: that a data file should have; None takes the table's own.
    :param small_files: share of files that a merge would spare, from which on manifests are read. This and what follows
        only lowers what the score begins at, and the score stays.
    :param fewest_merged: files that a merge has to spare.
    :param deleted_rows: share of them.
    :param delete_files: for each data file.
    :param manifests: number of them.
    :param order: of the rows that a policy puts whole tables in; None for none. Only manifests show what it needs.
    """

    fresh_within: timedelta | None = None
    consumed_within: timedelta = timedelta(days=3)
    older_than: timedelta | None = None
    retain_last: int | None = None
    target_bytes: int | None = None
    small_files: float = SMALL_FILES.first
    fewest_merged: int = FEWEST_MERGED
    deleted_rows: float = DELETED_ROWS.first
    delete_files: float = DELETE_FILES.first
    manifests: int = int(MANIFESTS.first)
    order: CompactionStrategy | None = None

    def __post_init__(self) -> None:
        """Refuse what no age can be measured by.

        :raises InvalidSpecError: a span is not above zero.
        """
        for name in ("fresh_within", "consumed_within"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, duration(given, name))


@dataclass(frozen=True, kw_only=True)
class ScorePart:
    """Part of a score.

    :param name: such as ``small-files``.
    :param lost: points that it takes.
    :param most: points that it can take.
    :param value: number that is compared.
    :param threshold: from which on it takes points.
    :param reason: one sentence with number, threshold and what would mend it.
    """

    name: str
    lost: int
    most: int
    value: float
    threshold: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class Measures:
    """Numbers that a score is made of; None where nobody has counted.

    :param worst_partition: largest share of deleted rows of a partition.
    :param consumer: of :func:`slowest`.
    :param data_age: time since rows were changed last.
    """

    data_files: int = 0
    data_bytes: int = 0
    records: int = 0
    mergeable_files: int = 0
    delete_files: int = 0
    deleted_rows: int = 0
    vector_deletes: int = 0
    equality_deletes: int = 0
    dangling_files: int | None = None
    worst_partition: float | None = None
    worst_partition_name: str = ""
    expirable: int = 0
    manifests: int | None = None
    mergeable_manifests: int | None = None
    overlap: float | None = None
    metadata_bytes: int | None = None
    consumer: ConsumerLag | None = None
    data_age: timedelta | None = None
    orphan_bytes: int | None = None


def slowest(consumers: Iterable[ConsumerLag]) -> ConsumerLag | None:
    """Return the consumer that is furthest behind, first one whose place is lost; None of none."""
    return max(consumers, key=lambda each: timedelta.max if each.behind is None else each.behind, default=None)


def score_of(parts: Sequence[ScorePart]) -> int:
    """Return 100 less the points of the parts, never below 0."""
    return max(0, 100 - sum(part.lost for part in parts))


def score_parts(measures: Measures, limits: HealthLimits) -> tuple[ScorePart, ...]:
    """Return the parts of a score; those that nobody has measured are left out."""
    return (
        *_of_files(measures),
        *_of_deletes(measures),
        *_of_delete_files(measures),
        *_of_metadata(measures),
        *_of_readers(measures, limits),
    )


def _part(
    name: str, threshold: Threshold, value: float, sentence: str, remedy: str, *, counts: bool = True
) -> ScorePart:
    """Return a part; the remedy is named where it takes points.

    :param counts: False where there is too little of it to matter.
    """
    lost = threshold.lost(value) if counts else 0
    end = f"; {remedy}" if lost else ""
    return ScorePart(
        name=name,
        lost=lost,
        most=threshold.most,
        value=round(value, 4),
        threshold=threshold.first,
        reason=f"{sentence}{end}.",
    )


def _of_files(given: Measures) -> Iterator[ScorePart]:
    share = min(1.0, given.mergeable_files / max(1, given.data_files))
    yield _part(
        "small-files",
        SMALL_FILES,
        share,
        f"{given.mergeable_files:,} of {given.data_files:,} data files, {share:.0%}, would be gone if small ones were "
        f"merged; the threshold is {SMALL_FILES.first:.0%}",
        "a compaction merges them",
        counts=given.mergeable_files >= FEWEST_MERGED,
    )


def _of_deletes(given: Measures) -> Iterator[ScorePart]:
    share = min(1.0, given.deleted_rows / max(1, given.records))
    is_by_vectors = given.vector_deletes * 2 > given.deleted_rows
    yield _part(
        "deletion-vectors" if is_by_vectors else "position-deletes",
        DELETED_ROWS,
        share,
        f"{given.deleted_rows:,} of {given.records:,} rows, {share:.0%}, are deleted by "
        f"{'deletion vectors' if is_by_vectors else 'position'}; the threshold is {DELETED_ROWS.first:.0%}",
        "a compaction leaves them out",
    )
    if given.worst_partition is not None:
        yield _part(
            "partition-deletes",
            PARTITION_DELETES,
            given.worst_partition,
            f"{given.worst_partition:.0%} of the rows of partition {given.worst_partition_name} are deleted; the "
            f"threshold is {PARTITION_DELETES.first:.0%}",
            "a compaction of that partition leaves them out",
        )
    keys = min(1.0, given.equality_deletes / max(1, given.records))
    yield _part(
        "equality-deletes",
        EQUALITY_DELETES,
        keys,
        f"{given.equality_deletes:,} keys of equality deletes are compared with rows at each read; the threshold is 1",
        "a compaction applies them",
        counts=given.equality_deletes > 0,
    )


def _of_delete_files(given: Measures) -> Iterator[ScorePart]:
    ratio = given.delete_files / max(1, given.data_files)
    yield _part(
        "delete-files",
        DELETE_FILES,
        ratio,
        f"{given.delete_files:,} delete files lie on {given.data_files:,} data files; the threshold is "
        f"{DELETE_FILES.first:g} for each",
        "a compaction merges or applies them",
        counts=given.delete_files >= FEWEST_MERGED,
    )
    if given.dangling_files is not None:
        share = min(1.0, given.dangling_files / max(1, given.delete_files))
        yield _part(
            "dangling-deletes",
            DANGLING_DELETES,
            share,
            f"{given.dangling_files:,} of {given.delete_files:,} delete files apply to no data file; the threshold is "
            f"{DANGLING_DELETES.first:.0%}",
            "a compaction removes them",
        )


def _of_metadata(given: Measures) -> Iterator[ScorePart]:
    yield _part(
        "snapshots",
        SNAPSHOTS,
        given.expirable,
        f"{given.expirable:,} snapshots are past their retention; the threshold is {SNAPSHOTS.first:,}",
        "a snapshot expiry removes them and the files that only they use",
    )
    if given.mergeable_manifests is not None:
        yield _part(
            "manifests",
            MANIFESTS,
            given.mergeable_manifests,
            f"{given.mergeable_manifests:,} of {given.manifests or 0:,} manifests would be gone if they were merged; "
            f"the threshold is {MANIFESTS.first:,}",
            "a rewrite of manifests merges them",
        )
    if given.overlap is not None:
        yield _part(
            "manifest-overlap",
            MANIFEST_OVERLAP,
            given.overlap,
            f"{given.overlap:.0%} of the pairs of manifests have partitions in common; the threshold is "
            f"{MANIFEST_OVERLAP.first:.0%} from {FEWEST_MANIFESTS} manifests on",
            "a rewrite of manifests sorts them by partition",
            counts=(given.manifests or 0) >= FEWEST_MANIFESTS,
        )
    if given.metadata_bytes is not None:
        yield _part(
            "metadata-size",
            METADATA_BYTES,
            given.metadata_bytes,
            f"metadata.json has {size_text(given.metadata_bytes)}, which each commit writes and each reader reads; the "
            f"threshold is {size_text(METADATA_BYTES.first)}",
            "a snapshot expiry makes it smaller, and so does a lower write.metadata.previous-versions-max",
        )


def _of_readers(given: Measures, limits: HealthLimits) -> Iterator[ScorePart]:
    consumer = given.consumer
    if consumer is not None and consumer.behind is None:
        yield _part(
            "consumers",
            CONSUMERS,
            CONSUMERS.full,
            f"consumer {consumer.consumer} has read up to snapshot {consumer.snapshot}, which main no longer has",
            "let its DAG run, which takes back what main lost, or remove its tag where nobody reads any more",
        )
    elif consumer is not None and consumer.behind is not None:
        yield _part(
            "consumers",
            CONSUMERS,
            consumer.behind / limits.consumed_within,
            f"consumer {consumer.consumer} is {age_text(consumer.behind)} behind and keeps snapshots from expiry; the "
            f"threshold is {age_text(limits.consumed_within)}",
            "let its DAG run, or remove its tag where nobody reads any more",
        )
    if limits.fresh_within is not None and given.data_age is not None:
        yield _part(
            "freshness",
            FRESHNESS,
            max(0.0, given.data_age / limits.fresh_within),
            f"rows were changed {age_text(given.data_age)} ago; the threshold is {age_text(limits.fresh_within)}",
            "look at the DAG that writes the table",
        )
    if given.orphan_bytes is not None:
        share = given.orphan_bytes / max(1, given.data_bytes)
        yield _part(
            "orphans",
            ORPHANS,
            share,
            f"{size_text(given.orphan_bytes)} lie in files that no metadata names, {share:.0%} of the table; the "
            f"threshold is {ORPHANS.first:.0%}",
            "a removal of orphan files deletes them",
        )


def size_text(count: float) -> str:
    """Return bytes in a unit in which they are short."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}"
        count /= 1024
    return f"{count:,.0f} TiB"


def age_text(span: timedelta) -> str:
    """Return a span in hours, or in days from two of them on: ``1 hour``, ``1.5 hours``, ``7 days``."""
    hours = span / timedelta(hours=1)
    number = f"{hours / 24 if hours >= 48 else hours:,.1f}".removesuffix(".0")
    return f"{number} days" if hours >= 48 else f"{number} hour{'' if number == '1' else 's'}"
