"""Cost and benefit of actions, estimated from metadata. Decision 37 says how the constants were measured."""

from __future__ import annotations

from dataclasses import replace

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionStrategy
from airflow_lake_provider.maintenance.health import DeleteDebt, FileSizes
from airflow_lake_provider.maintenance.plan import Effect, PlannedAction

# Most core-seconds, and bytes rewritten, of a job whose driver does without the JVM's second compiler (decision 45).
SHORT_JOB, SHORT_JOB_BYTES = 20.0, 64 * 1024**2
# Core-seconds of planning, commits and tidying of a table.
COMPACTION_OF_A_TABLE = 0.5
EXPIRY_OF_A_TABLE = 0.2
EXPIRY_OF_A_SNAPSHOT = 0.01
MANIFESTS_OF_A_TABLE = 0.2
MANIFEST = 0.002
# Of the files that have old and young rows; nobody has counted them.
ROW_EXPIRY = 2.0
ORPHANS_OF_A_TABLE = 1.2
# A guess: a local disk, where Hadoop asks for the rights of each file, says nothing of a store.
ORPHANS_OF_A_FILE = 0.0001
# A change of metadata is made by the worker, or in a driver beside others.
TAG = 0.1
# Core-seconds of opening a file, and bytes that one core rewrites in a second.
FILE = 0.012
BYTES_MERGED, BYTES_SORTED, BYTES_ALONG_A_CURVE = 55e6, 18e6, 7e6
_BYTES = {CompactionStrategy.BINPACK: BYTES_MERGED, CompactionStrategy.SORT: BYTES_SORTED}
# Bytes whose reading costs as much as opening a file: read.split.open-file-cost of Iceberg.
OPEN_FILE_BYTES = 4 * 1024**2


def tag_seconds() -> float:
    """Return the core-seconds of a tag."""
    return TAG


def manifests_seconds(manifests: int) -> float:
    """Return the core-seconds of a rewrite of manifests.

    :param manifests: that are read.
    """
    return round(MANIFESTS_OF_A_TABLE + MANIFEST * max(0, manifests), 3)


def statistics_seconds(size: int) -> float:
    """Return the core-seconds of statistics.

    :param size: bytes of the data files, all of which are read.
    """
    return round(COMPACTION_OF_A_TABLE + max(0, size) / BYTES_MERGED, 3)


def expiry_seconds(snapshots: int) -> float:
    """Return the core-seconds of an expiry.

    :param snapshots: that go; each has a list of manifests that is read.
    """
    return round(EXPIRY_OF_A_TABLE + EXPIRY_OF_A_SNAPSHOT * max(0, snapshots), 3)


def orphan_seconds(files: int) -> float:
    """Return the core-seconds of a look for orphan files.

    :param files: of the table, which are listed and compared.
    """
    return round(ORPHANS_OF_A_TABLE + ORPHANS_OF_A_FILE * max(0, files), 3)


def compaction_effect(
    files: FileSizes,
    mergeable: int,
    deletes: DeleteDebt | None,
    level: CompactionLevel,
    strategy: CompactionStrategy,
) -> Effect:
    """Return what a compaction is expected to do.

    :param mergeable: files that a merge would spare.
    :param deletes: that it applies; None where it leaves them.
    """
    total, size = max(0, files.data_files or 0), max(0, files.data_bytes or 0)
    counted = files.mergeable_files if files.mergeable_in_groups is None else files.mergeable_in_groups
    share = min(1.0, mergeable / counted) if counted and counted > 0 else 0.0
    small = min(size, max(0, size if files.small_bytes is None else files.small_bytes)) * share
    read = share * max(0, total if files.small_files is None else files.small_files)
    removed = mergeable
    wasted = 0.0
    if deletes is not None:
        with_deletes = _share_with_deletes(deletes, total)
        read, small = max(read, with_deletes * total), max(small, with_deletes * size)
        removed += max(0, deletes.delete_files or 0)
        wasted = min(1.0, max(0.0, deletes.deleted_share or 0.0)) * size
    if level is CompactionLevel.FULL:
        read, small = total, size
    seconds = COMPACTION_OF_A_TABLE + FILE * read + small / _BYTES.get(strategy, BYTES_ALONG_A_CURVE)
    return Effect(
        files_removed=removed,
        bytes_rewritten=round(small),
        wasted_bytes=round(wasted),
        core_seconds=round(seconds, 3),
    )


def _share_with_deletes(deletes: DeleteDebt, data_files: int) -> float:
    """Return the share of data files with deletes on them: a vector lies on one, any other delete on any number."""
    is_by_vectors = (deletes.vector_deletes or 0) * 2 > (deletes.deleted_rows or 0) and not deletes.equality_deletes
    return min(1.0, max(0, deletes.delete_files or 0) / max(1, data_files)) if is_by_vectors else 1.0


def compaction_gain(files: FileSizes, effect: Effect, deletes: DeleteDebt | None, level: CompactionLevel) -> float:
    """Return the files that a reader is spared, or what stands for them.

    :param deletes: that it applies; None where it leaves them.
    """
    gain = effect.files_removed + effect.wasted_bytes / OPEN_FILE_BYTES
    total = max(0, files.data_files or 0)
    if deletes is not None and (deletes.equality_deletes or 0) > 0:
        # Each data file is read together with the keys.
        gain += total
    if level is CompactionLevel.FULL and files.sorted_share is not None:
        # Files out of order are those that a predicate does not skip.
        gain += total * (1 - min(1.0, max(0.0, files.sorted_share)))
    return gain


def ranked_action(action: PlannedAction, benefit: float) -> PlannedAction:
    """Return an action with its benefit for each core-second."""
    seconds = action.effect.core_seconds
    return replace(action, benefit=round(benefit, 3), rank=round(benefit / seconds, 3) if seconds > 0 else 0.0)
