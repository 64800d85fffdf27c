"""Counts that the summary of a table's head says, and what of them is suspicious enough to read manifests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_lake_provider.contracts.property_values import count_of, whole_number
from airflow_lake_provider.contracts.table_facts import Snapshot, TableFacts
from airflow_lake_provider.maintenance.history import has_uncounted_files
from airflow_lake_provider.maintenance.score import (
    DELETE_FILES,
    DELETED_ROWS,
    FEWEST_MANIFESTS,
    MANIFESTS,
    SMALL_FILES,
    HealthLimits,
)
from airflow_lake_provider.tables.head_files import FEWEST_MERGED, gone_by_merge, is_small, squared_distance

# A partition may hold many more deletes than the table has on average.
_OF_THE_TABLE = 1 / 3


@dataclass(frozen=True, kw_only=True)
class HeadCounts:
    """Totals of a head's summary; None where it does not say them, or says no number.

    :param manifests: only newer writers say it.
    :param are_of_all: False where a commit began to count at zero, so that files from before are in no total.
    :param mergeable_files: that a merge of all files would leave out, whatever their partitions.
    :param squared_distance: to the target size if all files were of one size, so at least this.
    """

    data_files: int | None = None
    data_bytes: int | None = None
    records: int | None = None
    delete_files: int | None = None
    position_deletes: int | None = None
    equality_deletes: int | None = None
    manifests: int | None = None
    are_of_all: bool = True
    target_bytes: int
    mergeable_files: int | None = None
    squared_distance: float | None = None

    @classmethod
    def of(cls, history: Sequence[Snapshot], target: int) -> HeadCounts:
        """Read the totals of main's head.

        :param history: of main, newest first.
        :param target: bytes that a data file should have.
        """
        if not history:
            return cls(target_bytes=target)
        summary = history[0].summary
        totals = ("data-files", "files-size", "records", "delete-files", "position-deletes", "equality-deletes")
        files, size, records, deletes, positions, keys = (whole_number(summary.get(f"total-{each}")) for each in totals)
        created, kept = (whole_number(summary.get(f"manifests-{each}")) for each in ("created", "kept"))
        is_sized = files is not None and size is not None
        return cls(
            data_files=files,
            data_bytes=size,
            records=records,
            delete_files=deletes,
            position_deletes=positions,
            equality_deletes=keys,
            manifests=None if created is None or kept is None else created + kept,
            are_of_all=not (_keeps_more_than_it_counts(history[0], files, deletes) or _counts_from_zero(history)),
            target_bytes=target,
            mergeable_files=_mergeable(files or 0, size or 0, target) if is_sized else None,
            squared_distance=squared_distance((size or 0) / files, target) if is_sized and files else None,
        )

    @property
    def lacks_totals(self) -> bool:
        """True where the summary leaves out a total by which a table is judged: the spec asks for none of them.

        Or where its totals leave out files.
        """
        of_deletes = self.delete_files, self.position_deletes, self.equality_deletes
        return not self.are_of_all or None in (self.data_files, self.data_bytes, self.records, *of_deletes)


def _keeps_more_than_it_counts(head: Snapshot, files: int | None, deletes: int | None) -> bool:
    """Tell whether a head keeps more manifests than it counts files, as it does once such a commit is expired.

    A manifest that is kept lists one file at least, but for those of files that are gone, which an append keeps.

    :param files: total of data files; ``deletes`` of delete files.
    """
    kept = whole_number(head.summary.get("manifests-kept"))
    return None not in (kept, files) and (kept or 0) > (files or 0) + (deletes or 0)


def _counts_from_zero(history: Sequence[Snapshot]) -> bool:
    """Tell whether a commit of main counts none of the files that were there before.

    Iceberg does so for the first snapshot of a branch that the commit makes (``SnapshotProducer.summary``), such as
    ``spark.wap.branch``. Main that is moved on to it has these totals, and so have all later snapshots.

    :param history: of main, newest first. Of the oldest one, the parent may be expired.
    """
    before = None
    for each in history:
        total = whole_number(each.summary.get("total-data-files"))
        # More files than before are no sign: some writers leave out what they have added.
        if total is not None and before is not None and before < total:
            return True
        added, removed = (count_of(each.summary, f"{change}-data-files") for change in ("added", "deleted"))
        before = None if total is None else total - added + removed
    oldest = history[-1]
    # An empty commit of CREATE TABLE, or a DELETE of all, may have come before. It leaves no manifest to keep.
    left = {oldest.summary.get(f"manifests-{each}") for each in ("kept", "replaced")}
    return oldest.parent is not None and before == removed == 0 < added and left != {"0"}


def _mergeable(files: int, size: int, target: int) -> int:
    return gone_by_merge(files, size, target) if files and is_small(size / files, target) else 0


def suspicions(
    facts: TableFacts,
    history: Sequence[Snapshot],
    counts: HeadCounts,
    limits: HealthLimits,
    small_files: int,
    recent: Sequence[Snapshot] = (),
) -> tuple[str, ...]:
    """Return why the manifests of a table are worth reading, as names of parts of the score; none where they are not.

    :param history: of main, newest first.
    :param limits: declared for the table; they only add suspicions.
    :param small_files: that were added since the last compaction.
    :param recent: changes of rows of the last day.
    """
    if not history:
        return ()
    of_order = ("order",) if _may_lack_order(facts, limits, recent) else ()
    return tuple(dict.fromkeys((*_suspicions(facts, history, counts, limits, small_files), *of_order)))


def _may_lack_order(facts: TableFacts, limits: HealthLimits, recent: Sequence[Snapshot]) -> bool:
    """Tell whether only manifests show what an order of the whole table needs.

    A sort needs the bounds of the column that the table is sorted by. A curve needs the partitions that are hot, and
    nothing is hot that nobody has changed.
    """
    if limits.order is None:
        return False
    return bool(recent) if limits.order.is_by_curve else bool(facts.shape.sort_order)


def _suspicions(
    facts: TableFacts, history: Sequence[Snapshot], counts: HeadCounts, limits: HealthLimits, small_files: int
) -> Iterator[str]:
    files, deletes = counts.data_files or 0, counts.delete_files or 0
    deleted_share = _OF_THE_TABLE * min(DELETED_ROWS.first, limits.deleted_rows)
    if counts.lacks_totals or has_uncounted_files(history):
        yield "no-summary"
    # Large files hide small ones in an average.
    if _is_due(counts.mergeable_files or 0, files, limits) or _is_due(small_files - 1, files, limits):
        yield "small-files"
    if counts.position_deletes and counts.position_deletes >= deleted_share * max(1, counts.records or 0):
        yield "deleted-rows"
    if deletes >= max(_fewest_merged(limits), min(DELETE_FILES.first, limits.delete_files) * files):
        yield "delete-files"
    if counts.equality_deletes:
        yield "equality-deletes"
    if deletes and _leaves_deletes_behind(history):
        yield "dangling-deletes"
    if _may_have_many_manifests(facts, history, counts, limits):
        yield "manifests"


def _fewest_merged(limits: HealthLimits) -> int:
    return min(FEWEST_MERGED, limits.fewest_merged)


def _is_due(mergeable: int, files: int, limits: HealthLimits) -> bool:
    return mergeable >= max(_fewest_merged(limits), min(SMALL_FILES.first, limits.small_files) * files)


def _since_maintenance(history: Sequence[Snapshot]) -> Iterator[Snapshot]:
    for snapshot in history:
        if snapshot.operation == "replace":
            return
        yield snapshot


def _leaves_deletes_behind(history: Sequence[Snapshot]) -> bool:
    """Tell whether data files went while delete files stayed: only then can these lie on nothing."""
    return any(
        count_of(each.summary, "deleted-data-files") and count_of(each.summary, "total-delete-files")
        for each in history
    )


def _may_have_many_manifests(
    facts: TableFacts, history: Sequence[Snapshot], counts: HeadCounts, limits: HealthLimits
) -> bool:
    if counts.manifests is not None:
        most = counts.manifests
    else:
        # Each commit adds one or two, and a rewrite leaves few. Expired commits have left theirs.
        since = list(_since_maintenance(history))
        rewritten = history[len(since)].sequence_number if len(since) < len(history) else 0
        most = max(len(since), history[0].sequence_number - rewritten)
    return most >= min(MANIFESTS.first, limits.manifests) or (most >= FEWEST_MANIFESTS and facts.shape.is_partitioned)
