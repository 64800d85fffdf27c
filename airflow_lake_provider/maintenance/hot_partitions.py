"""Partitions of a table that were changed in the last day, which a compaction may leave alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.tables.head_files import AddedFiles

_MOST_HOT = 10
_CHANGED_PARTITION = "partitions."
# What manifests say of all files of a partition.
_COUNTED = ("mergeable_files", "delete_files", "equality_deletes", "deleted_rows")


@dataclass(frozen=True, kw_only=True)
class HotPartition:
    """A partition that was changed in the last day.

    :param partition: such as ``day=2026-11-26``.
    :param commits: that changed it.
    :param newest: moment of the newest of them.
    :param oldest: moment of the oldest of them that no compaction of the partition has followed, as far as one knows.
    :param files: that these added and are live, where manifests were read.
    :param mergeable_files: of all of its files, those that a merge would spare; where manifests were read.
    :param delete_files: that lie on its files; None where nobody has counted them.
    :param equality_deletes: keys in them; likewise.
    :param deleted_rows: that the others delete; likewise.
    :param outside: predicate of SQL on the rows of all others; None where none can be written.
    """

    partition: str
    commits: int
    newest: datetime
    oldest: datetime | None = None
    files: int | None = None
    mergeable_files: int | None = None
    delete_files: int | None = None
    equality_deletes: int | None = None
    deleted_rows: int | None = None
    outside: str | None = None


def hottest_partitions(
    history: Sequence[Snapshot],
    recent: Sequence[Snapshot],
    added: Sequence[AddedFiles],
    outside: Callable[[str], str | None],
) -> tuple[HotPartition, ...]:
    """Return the partitions that summaries say were changed, or else manifests, with what manifests say of them.

    :param history: of main, newest first.
    :param recent: changes of rows in it.
    :param added: by these, of each partition; none where manifests were not read.
    :param outside: returns the predicate on the rows of all partitions but one.
    """
    rewrites = (each for each in history if each.operation == "replace")
    return _with_files(hot_partitions(recent, rewrites) or _hot_by_files(added, history), added, outside)


def hot_partitions(recent: Sequence[Snapshot], rewrites: Iterable[Snapshot] = ()) -> tuple[HotPartition, ...]:
    """Return the partitions that summaries of recent changes say were changed, by the newest change.

    :param recent: changes of rows.
    :param rewrites: of files without a change of rows, which name their partitions, too.
    """
    rewritten = {name: max(times) for name, times in _moments_by_partition(rewrites).items()}
    return _hottest(
        HotPartition(
            partition=name,
            commits=len(times),
            newest=max(times),
            oldest=min((at for at in times if name not in rewritten or at > rewritten[name]), default=None),
        )
        for name, times in _moments_by_partition(recent).items()
    )


def _moments_by_partition(snapshots: Iterable[Snapshot]) -> dict[str, list[datetime]]:
    moments: dict[str, list[datetime]] = {}
    for snapshot in snapshots:
        for key in snapshot.summary:
            if key.startswith(_CHANGED_PARTITION):
                moments.setdefault(key.removeprefix(_CHANGED_PARTITION), []).append(snapshot.committed_at)
    return moments


def _hot_by_files(added: Iterable[AddedFiles], history: Sequence[Snapshot]) -> tuple[HotPartition, ...]:
    """Return the partitions that live files and deletes of some snapshots are in, by the newest of these."""
    moments = {each.id: each.committed_at for each in history}
    return _hottest(
        HotPartition(
            partition=each.partition,
            commits=len(each.snapshots),
            newest=max(moments[snapshot] for snapshot in each.snapshots),
            oldest=min(moments[snapshot] for snapshot in each.snapshots),
            files=each.files,
        )
        for each in added
    )


def _with_files(
    partitions: Iterable[HotPartition], added: Iterable[AddedFiles], outside: Callable[[str], str | None]
) -> tuple[HotPartition, ...]:
    """Return hot partitions with what manifests say of them, and how a compaction leaves them out.

    :param outside: returns the predicate on the rows of all others.
    """
    counted = {each.partition: {name: getattr(each, name) for name in _COUNTED} for each in added}
    return tuple(
        replace(each, **counted.get(each.partition, {}), outside=outside(each.partition)) for each in partitions
    )


def _hottest(partitions: Iterable[HotPartition]) -> tuple[HotPartition, ...]:
    """Return some partitions, those with the newest changes first."""
    ordered = sorted(partitions, key=lambda each: (-each.newest.timestamp(), -each.commits, each.partition))
    return tuple(ordered[:_MOST_HOT])
