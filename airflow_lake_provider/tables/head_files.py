"""Exact counts of the files of a table's head, and what a small file is. Standard library only."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

# Fewer files are not worth a commit: min-input-files of Iceberg.
FEWEST_MERGED = 5
# A file below this share of the target is small: Iceberg's rewrite_data_files.
SMALL_FILE_SHARE = 0.75
# Shares of the target at which classes of sizes end; a file of Iceberg's largest, 180 %, is in the last but one.
SIZE_CLASSES = (1 / 64, 1 / 16, 1 / 4, SMALL_FILE_SHARE, 1.8)


def is_small(size: float, target: int) -> bool:
    """Tell whether a compaction takes a file for its size."""
    return size < SMALL_FILE_SHARE * target


def by_size(sizes: Iterable[int], target: int) -> tuple[int, ...]:
    """Return how many files are in each class of sizes, one more than :data:`SIZE_CLASSES` has ends."""
    ends = [share * target for share in SIZE_CLASSES]
    counts = Counter(bisect_right(ends, size) for size in sizes)
    return tuple(counts[place] for place in range(len(ends) + 1))


def squared_distance(size: float, target: int) -> float:
    """Return how far a file is below the target size: 0 for none, 1 for an empty one."""
    return max(0.0, (target - size) / target) ** 2


def gone_by_merge(files: int, size: int, target: int) -> int:
    """Return how many of some files would be gone if they were merged into files of the target size.

    :param size: bytes of all of them.
    """
    return max(0, files - max(1, -(-size // target)))


@dataclass(frozen=True, kw_only=True)
class AddedFiles:
    """Live files of a partition to which some snapshots added data files or deletes.

    :param snapshots: these.
    :param files: data files that they added.
    :param mergeable_files: of all of the partition, those that would be gone if its small files were merged, where
        these are enough for a group.
    :param delete_files: of all of the partition, those that lie on data files.
    :param equality_deletes: keys in them.
    :param deleted_rows: that the others delete.
    """

    partition: str
    snapshots: frozenset[str]
    files: int
    mergeable_files: int = 0
    delete_files: int = 0
    equality_deletes: int = 0
    deleted_rows: int = 0


@dataclass(frozen=True, kw_only=True)
class HeadFiles:
    """Counts of the files of a head, and of the lists that name them.

    :param are_counted: whether files were counted; False where there are too many, then only their lists are.
    :param by_size: data files in each class of :func:`by_size`.
    :param mergeable_files: that would be gone if small files were merged within their partitions.
    :param mergeable_in_groups: of these, those in partitions with enough small files for a group.
    :param deleted_by_partition: names and shares of deleted rows, the largest first.
    :param overlap: share of pairs of lists whose partition ranges meet; None without partitions.
    :param sorted_by: first column of the table's sort order, where files say its values.
    :param sorted_share: files whose values of it meet those of no other file of their partition, over all. None where
        files do not say their values, or only characters that they share.
    :param added: by the snapshots that were asked for, by partition.
    """

    are_counted: bool
    data_files: int = 0
    data_bytes: int = 0
    records: int = 0
    small_files: int = 0
    small_bytes: int = 0
    by_size: tuple[int, ...] = ()
    mergeable_files: int = 0
    mergeable_in_groups: int = 0
    squared_distance: float = 0.0
    delete_files: int = 0
    position_deletes: int = 0
    vector_deletes: int = 0
    equality_deletes: int = 0
    dangling_files: int = 0
    deleted_by_partition: tuple[tuple[str, float], ...] = ()
    manifests: int = 0
    manifest_bytes: int = 0
    mergeable_manifests: int = 0
    overlap: float | None = None
    sorted_by: str | None = None
    sorted_share: float | None = None
    added: tuple[AddedFiles, ...] = ()
