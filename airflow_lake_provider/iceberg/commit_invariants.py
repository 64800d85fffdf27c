"""Invariants of maintenance, by the summaries of its snapshot and of the one before.

A rewrite brings and takes no row, and a change of rows takes those that matched and no others.
"""

from __future__ import annotations

from collections.abc import Callable

from airflow_lake_provider.contracts.property_values import count_of, whole_number
from airflow_lake_provider.contracts.table_facts import Snapshot

_UNCHANGED = ("total-records", "total-data-files")


def broken_invariant(snapshot: Snapshot, parent: Snapshot, deletes_of: Callable[[Snapshot], int | None]) -> str | None:
    """Return which invariant a rewrite of files or manifests breaks, a sentence; None where it breaks none.

    A rewrite applies deletes, so it may have fewer rows than the files it replaced: at most as many as are deleted by
    position. Keys of equality deletes may delete any number, so nothing is lost there by these counts.

    :param snapshot: that the rewrite has committed.
    :param parent: of it.
    :param deletes_of: returns how many deletes the delete files of a snapshot have by its manifest list; None where the
        list does not say. It is asked where rows went, as summaries of some writers count no deletes.
    """
    files = count_of(snapshot.summary, "added-data-files"), count_of(snapshot.summary, "deleted-data-files")
    if not any(files):
        return _changed_total(snapshot, parent)
    gone = count_of(snapshot.summary, "deleted-records") - count_of(snapshot.summary, "added-records")
    if gone < 0:
        return f"it has {-gone:,} rows more than the {files[1]:,} files that it replaced"
    if gone == 0 or count_of(parent.summary, "total-equality-deletes"):
        return None
    deleted = count_of(parent.summary, "total-position-deletes")
    if gone <= deleted or deletes_of(parent) != deleted:
        return None
    return f"it has {gone:,} rows fewer than the {files[1]:,} files that it replaced, and {deleted:,} were deleted"


def broken_change(
    snapshot: Snapshot, parent: Snapshot, deleted: int, deletes_of: Callable[[Snapshot], int | None]
) -> str | None:
    """Return how a commit took other rows than those that matched, a sentence; None where it did not.

    A file that went may have had rows that were deleted before, which its records count. Keys of equality deletes may
    delete any number of rows.

    :param deleted: rows that matched, and are to be gone.
    :param deletes_of: as of :func:`broken_invariant`.
    """
    if count_of(parent.summary, "total-equality-deletes"):
        return None
    gone, before = -snapshot.rows_gained, count_of(parent.summary, "total-position-deletes")
    # A vector in place of several delete files has a position once that these may have had twice.
    least = deleted - count_of(snapshot.summary, "removed-position-deletes")
    if least <= gone <= deleted + before or (gone > deleted and deletes_of(parent) != before):
        return None
    return f"{deleted:,} rows matched, and {gone:,} went, of which at most {before:,} were deleted before"


def _changed_total(snapshot: Snapshot, parent: Snapshot) -> str | None:
    for name in _UNCHANGED:
        now, before = (whole_number(each.summary.get(name, "")) for each in (snapshot, parent))
        if now is not None and before is not None and now != before:
            return f"it replaced no data file, and {name} went from {before:,} to {now:,}"
    return None
