"""A row of ``lake_ops.maintenance_history``: what one run did to one table by one action, and what it was to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

# Of the table's columns. Another version leaves a table of this one alone.
HISTORY_VERSION = 1

DONE = "done"
NOTHING_DUE = "nothing-due"
CONFLICT = "conflict"
UNSUPPORTED = "unsupported"
FAILED = "failed"
PLANNED = "planned"
OUTCOMES = (DONE, NOTHING_DUE, CONFLICT, UNSUPPORTED, FAILED, PLANNED)
# How far back plans read rows. A table that keeps failing is tried once a week, so that three months are enough to see
# it, and no look may be rarer.
REMEMBERED = timedelta(days=90)


@dataclass(frozen=True, kw_only=True)
class HistoryEntry:
    """One row; its fields are the columns, in their order. New ones go to the end.

    :param month: of ``ended_at``, such as ``2026-11``; the table's partitions.
    :param run_key: of the run, the same for each retry of the task that writes.
    :param dag_id: of the run.
    :param run_id: of the run.
    :param task_id: that wrote the row.
    :param try_number: of that task.
    :param table_name: whole name of the table that was maintained.
    :param action: such as ``compaction``.
    :param level: of a compaction.
    :param outcome: one of ``done``, ``nothing-due``, ``conflict``, ``unsupported``, ``failed``, and ``planned`` of a
        dry run.
    :param cause: one sentence: why it acted, or why not.
    :param error: class of the error.
    :param started_at: ``ended_at`` less the seconds.
    :param ended_at: when the action ended; of one that failed, when the row was made.
    :param seconds: of all phases of the action; None where it has no report.
    :param core_seconds_expected: by the plan.
    :param reasons: why it was planned, the beginning of the sentences.
    :param score_before: of the table's health when it was planned.
    :param snapshot_before: head of main, as text.
    :param snapshot_after: likewise.
    :param rows_before: records less those that position deletes and vectors delete.
    :param rows_after: likewise.
    :param data_files_before: of the head.
    :param data_files_after: likewise.
    :param bytes_before: of data and delete files of the head.
    :param bytes_after: likewise.
    :param delete_files_before: of the head.
    :param delete_files_after: likewise.
    :param snapshots_before: of all branches.
    :param snapshots_after: likewise.
    :param manifests_before: of the head.
    :param manifests_after: likewise.
    :param orphan_files: that no metadata names, as a look for them has counted them, less those that it removed.
    :param orphan_bytes: of them.
    :param oldest_orphan_at: when the oldest of them was written.
    """

    month: str
    run_key: str
    dag_id: str
    run_id: str
    task_id: str
    try_number: int
    table_name: str
    action: str
    level: str | None = None
    outcome: str
    cause: str | None = None
    error: str | None = None
    started_at: datetime | None = None
    ended_at: datetime
    seconds: float | None = None
    core_seconds_expected: float | None = None
    reasons: str | None = None
    score_before: int | None = None
    snapshot_before: str | None = None
    snapshot_after: str | None = None
    rows_before: int | None = None
    rows_after: int | None = None
    data_files_before: int | None = None
    data_files_after: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    delete_files_before: int | None = None
    delete_files_after: int | None = None
    snapshots_before: int | None = None
    snapshots_after: int | None = None
    manifests_before: int | None = None
    manifests_after: int | None = None
    orphan_files: int | None = None
    orphan_bytes: int | None = None
    oldest_orphan_at: datetime | None = None
