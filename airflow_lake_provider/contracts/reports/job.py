"""Report of a driver: what really happened, read back from the table, or which failure it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import ClassVar

from airflow_lake_provider.contracts.reports.batch_plan import BatchPlan
from airflow_lake_provider.contracts.table_facts import TableState


class Outcome(str, Enum):
    """End of an operation that did not fail."""

    APPLIED = "applied"
    ALREADY_APPLIED = "already-applied"
    NOTHING_NEW = "nothing-new"
    EMPTY_BATCH = "empty-batch"
    DONE = "done"
    NOTHING_DUE = "nothing-due"
    SKIPPED = "skipped"
    CONFLICT = "conflict"
    PLANNED = "planned"


@dataclass(frozen=True, kw_only=True)
class JobReport:
    """Fields that all actions report.

    :param table: ``namespace.table``.
    :param outcome: how the operation ended.
    :param reason: one sentence: why it acted, or why not.
    :param run_key: identity of the commit; None for actions that need none.
    :param before: table before; None when it did not exist.
    :param after: table after, read back; None where that failed after a commit, which a warning tells.
    :param committed: ids of the snapshots this action made on main or its branch, oldest first, as text. Where an
        earlier try has made the run, they are that try's.
    :param warnings: sentences that a person should read.
    :param seconds: wall seconds by phase.
    :param ended_at: when the action ended on the driver; None of what the worker answered.
    """

    action: ClassVar[str] = ""
    table: str
    outcome: Outcome
    reason: str
    run_key: str | None = None
    before: TableState | None = None
    after: TableState | None = None
    committed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    ended_at: datetime | None = None

    @property
    def is_of_this_try(self) -> bool:
        """Return whether this try made the commits, not an earlier one of the same run."""
        return bool(self.committed) and self.outcome is not Outcome.ALREADY_APPLIED


@dataclass(frozen=True, kw_only=True)
class LoadReport(JobReport):
    """Fields that all loads of a source report.

    :param batch_files: files read. This and the other counts are None where an earlier try's snapshot does not say.
    :param batch_rows: rows or events read.
    :param schema_changes: sentences: columns added or widened, or the table created.
    :param source_position: ``<source name>=<generation>`` after this commit.
    :param source_location: path of the source with scheme and authority, as the driver resolved it; None for a table.
    :param audits_passed: names of the assertions that held for what main has now.
    :param audit_runs: how often they were run: once, and again for each other commit that came in between.
    :param dead_letters: records that were put aside, not among ``batch_rows``; None without ``dead_letter``.
    :param attempts: commits tried; without a conflict as many as were made.
    :param plan: of a dry run; None of others.
    """

    batch_files: int | None = 0
    batch_rows: int | None = 0
    schema_changes: tuple[str, ...] = ()
    source_position: str | None = None
    source_location: str | None = None
    audits_passed: tuple[str, ...] = ()
    audit_runs: int = 0
    dead_letters: int | None = None
    attempts: int = 0
    plan: BatchPlan | None = None


@dataclass(frozen=True, kw_only=True)
class AppendReport(LoadReport):
    """Report of an append.

    :param rows_appended: rows that were added.
    :param duplicates_in_batch: rows left out, as an earlier one of the batch has the values of ``deduplicate_by``.
    :param duplicates_in_table: rows left out, as a recent one of the table has them.
    """

    action: ClassVar[str] = "append"
    rows_appended: int | None = 0
    duplicates_in_batch: int | None = 0
    duplicates_in_table: int | None = 0


@dataclass(frozen=True, kw_only=True)
class OverwritePartitionsReport(LoadReport):
    """Report of an overwrite of partitions.

    :param rows_written: rows that were put in place.
    :param duplicates_in_batch: rows left out, as an earlier one of the batch has the values of ``deduplicate_by``.
    :param rows_replaced: rows of the data files that were removed, those that were deleted before included, and rows
        that ``allow_rows`` deleted. None where looking failed after the commit, which a warning tells.
    :param partitions_replaced: partitions that got rows, lost rows, or both; likewise.
    """

    action: ClassVar[str] = "overwrite-partitions"
    rows_written: int | None = 0
    duplicates_in_batch: int | None = 0
    rows_replaced: int | None = 0
    partitions_replaced: int | None = 0


@dataclass(frozen=True, kw_only=True)
class UpsertReport(LoadReport):
    """Report of an upsert.

    :param batch_keys: different keys among them.
    :param rows_inserted: as found when the batch was applied. None also where the strategy looks for no row.
    :param rows_updated: likewise.
    :param rows_deleted: likewise.
    :param rows_unchanged: rows of a batch that is the whole table which the table had already; None of other batches.
    :param strategy: how it was applied.
    :param strategy_reason: why so, and how reading the table was pruned.
    :param equality_delete_files: of the table after the commit; None where the commit wrote none and nobody counted, or
        where counting failed, which a warning tells.
    :param ordering: what was known of the order of change events: ``partition``, ``stream``, ``key``, or ``unknown``;
        None for plain rows.
    :param events_dropped: change events that were delivered again and left out; None for plain rows.
    """

    action: ClassVar[str] = "upsert"
    batch_keys: int | None = 0
    rows_inserted: int | None = 0
    rows_updated: int | None = 0
    rows_deleted: int | None = 0
    rows_unchanged: int | None = None
    strategy: str | None = None
    strategy_reason: str | None = None
    equality_delete_files: int | None = None
    ordering: str | None = None
    events_dropped: int | None = None


@dataclass(frozen=True, kw_only=True)
class CompactionReport(JobReport):
    """Report of a compaction; of a dry run, what it would do.

    :param level: the level that was carried out.
    :param files_rewritten: data files that were replaced.
    :param files_added: data files that replaced them.
    :param bytes_rewritten: size of the replaced files in bytes.
    :param delete_files_removed: delete files that were removed, less those that were added.
    :param groups_rewritten: file groups that were rewritten.
    :param groups_by_arrow: of these, those that Arrow has rewritten.
    :param left_to_spark: why groups were left to Spark's own rewrite, and how many.
    :param equality_deletes_converted: equality delete files that position deletes have taken the place of.
    :param equality_deletes_left: why others were not converted, and how many.
    :param failed_groups: file groups that were planned and not rewritten.
    :param failures: sentences: why they were not.
    :param attempts: tries; 1 without a conflict.
    """

    action: ClassVar[str] = "compaction"
    level: str | None = None
    files_rewritten: int = 0
    files_added: int = 0
    bytes_rewritten: int = 0
    delete_files_removed: int = 0
    groups_rewritten: int = 0
    groups_by_arrow: int = 0
    left_to_spark: dict[str, int] = field(default_factory=dict)
    equality_deletes_converted: int = 0
    equality_deletes_left: dict[str, int] = field(default_factory=dict)
    failed_groups: int = 0
    failures: tuple[str, ...] = ()
    attempts: int = 0


@dataclass(frozen=True, kw_only=True)
class RewriteManifestsReport(JobReport):
    """Report of a rewrite of manifests; of a dry run, what it would do.

    :param manifests_rewritten: manifests that were replaced.
    :param manifests_added: manifests that replaced them.
    """

    action: ClassVar[str] = "rewrite-manifests"
    manifests_rewritten: int = 0
    manifests_added: int = 0


@dataclass(frozen=True, kw_only=True)
class StatisticsReport(JobReport):
    """Report of statistics; of a dry run, none are there yet.

    :param of_snapshot: id of the snapshot that they are of, as text.
    :param distinct_counts: columns whose distinct values were counted, by name.
    :param table_file: location of the statistics of the table; None where none were missing.
    :param partition_file: location of those of its partitions, likewise.
    """

    action: ClassVar[str] = "compute-statistics"
    of_snapshot: str | None = None
    distinct_counts: dict[str, int] = field(default_factory=dict)
    table_file: str | None = None
    partition_file: str | None = None


@dataclass(frozen=True, kw_only=True)
class ExpiryReport(JobReport):
    """Report of an expiry; of a dry run, what it would do.

    :param snapshots_expired: ids, as text.
    :param kept_by_refs: snapshot ids past the age that a branch or tag keeps, with the ref's name.
    :param kept_for_flink: snapshot ids that stayed only so that Flink jobs can be restored, with the ids of these jobs.
    :param kept_for_sinks: snapshot ids that stayed only for sinks of Kafka Connect, with the names of these sinks.
    :param data_files_deleted: data files deleted from storage.
    :param delete_files_deleted: delete files deleted from storage.
    :param manifests_deleted: manifests deleted from storage.
    :param manifest_lists_deleted: manifest lists deleted from storage.
    :param statistics_deleted: statistics files deleted from storage.
    :param stage_branches_removed: names of left-over stage branches that were removed.
    """

    action: ClassVar[str] = "snapshot-expiry"
    snapshots_expired: tuple[str, ...] = ()
    kept_by_refs: dict[str, str] = field(default_factory=dict)
    kept_for_flink: dict[str, str] = field(default_factory=dict)
    kept_for_sinks: dict[str, str] = field(default_factory=dict)
    data_files_deleted: int = 0
    delete_files_deleted: int = 0
    manifests_deleted: int = 0
    manifest_lists_deleted: int = 0
    statistics_deleted: int = 0
    stage_branches_removed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OrphanFilesReport(JobReport):
    """Report of a look for orphan files, of their removal, or of their return.

    :param mode: ``dry-run``, ``quarantine``, ``delete`` or ``restore``; None of a table that was skipped.
    :param written_before: files that were written later are not counted.
    :param files_listed: files below the table's folders, hidden ones left out.
    :param bytes_listed: of them.
    :param orphans: number of files that no metadata names, by kind.
    :param orphan_bytes: of them.
    :param oldest: last change of the oldest of them; None where there is none.
    :param newest: likewise, of the newest.
    :param share: of the files listed.
    :param examples: locations of at most ten.
    :param files_removed: deleted, or moved to the quarantine.
    :param files_purged: deleted from the quarantine, for their time there was over.
    :param files_restored: moved back from it.
    """

    action: ClassVar[str] = "remove-orphans"
    mode: str | None = None
    written_before: datetime | None = None
    files_listed: int = 0
    bytes_listed: int = 0
    orphans: dict[str, int] = field(default_factory=dict)
    orphan_bytes: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None
    share: float = 0.0
    examples: tuple[str, ...] = ()
    files_removed: int = 0
    files_purged: int = 0
    files_restored: int = 0


@dataclass(frozen=True, kw_only=True)
class IncrementalReport(JobReport):
    """Report of an incremental run: what it read and wrote.

    :param source: ``namespace.table`` that was read.
    :param from_snapshot: exclusive start of the range; None for a full read.
    :param to_snapshot: inclusive end.
    :param upserts_read: rows new or changed in the source in the range. This and the other counts are None where an
        earlier try's snapshot does not say.
    :param deletes_read: deletes of the source in the range.
    :param rows_inserted: rows of the target that were inserted.
    :param rows_updated: rows of the target that were updated.
    :param rows_deleted: rows of the target that were deleted.
    :param attempts: commits tried; 1 without a conflict.
    """

    action: ClassVar[str] = "incremental"
    source: str = ""
    from_snapshot: str | None = None
    to_snapshot: str | None = None
    upserts_read: int | None = 0
    deletes_read: int | None = 0
    rows_inserted: int | None = 0
    rows_updated: int | None = 0
    rows_deleted: int | None = 0
    attempts: int = 0


@dataclass(frozen=True, kw_only=True)
class DeleteRowsReport(JobReport):
    """Report of a deletion, and of the branches, tags and snapshots that still reach the rows. It has no erased value.

    :param rows_deleted: rows that were deleted; None where an earlier try's snapshot does not say.
    :param erased_digest: SHA-256 of the salt and of what named the rows; also in the snapshot's summary.
    :param digest_salt: of that digest; nowhere on the table.
    :param retained_by: by ``branch main``, ``tag x``, ``consumer tag lake.consumer.x`` or ``history``, the ids of
        snapshots. These reach a data file in which the rows still are, deleted or not. None when nobody looked.
    :param bounds_in: ids of the snapshots whose manifests still list column bounds of a file that they removed and that
        held, or may have held, the rows.
    :param still_to_do: sentences: what removes the rows from there.
    :param source_location: path of the keys with scheme and authority, as the driver resolved it; None without one.
    :param attempts: commits tried; 1 without a conflict.
    """

    action: ClassVar[str] = "delete-rows"
    source_location: str | None = None
    rows_deleted: int | None = 0
    erased_digest: str | None = None
    digest_salt: str | None = None
    retained_by: dict[str, tuple[str, ...]] | None = None
    bounds_in: tuple[str, ...] = ()
    still_to_do: tuple[str, ...] = ()
    attempts: int = 0


@dataclass(frozen=True, kw_only=True)
class RowExpiryReport(JobReport):
    """Report of an expiry of rows; of a dry run, what it would do at most.

    :param expired_before: value of the column below which rows went; None where no clock is known.
    :param rows_deleted: rows that went; None where an earlier try's snapshot does not say. With equality deletes, or
        with deletes that several files share, rows of removed files count that were deleted already.
    :param files_removed: data files that had old rows alone, removed without being read.
    :param files_changed: data files with younger rows, too.
    :param attempts: commits tried; 1 without a conflict.
    """

    action: ClassVar[str] = "expire-rows"
    expired_before: str | None = None
    rows_deleted: int | None = 0
    files_removed: int = 0
    files_changed: int = 0
    attempts: int = 0


@dataclass(frozen=True, kw_only=True)
class UpdateRowsReport(JobReport):
    """Report of an update.

    :param rows_updated: rows that were updated; None where an earlier try's snapshot does not say.
    :param attempts: commits tried; 1 without a conflict.
    """

    action: ClassVar[str] = "update-rows"
    rows_updated: int | None = 0
    attempts: int = 0


@dataclass(frozen=True, kw_only=True)
class MetadataChangeReport(JobReport):
    """Report of a rollback, a publication, a tag or an upgrade; ``committed`` has what main gained by a publication.

    :param operation: ``rollback``, ``publish-branch``, ``create-tag``, ``drop-tag`` or ``upgrade``.
    :param ref: branch or tag that was moved, made or removed; None of an upgrade.
    :param ref_before: id of the snapshot that it was at, as text; None where it was not there.
    :param ref_after: likewise, afterwards.
    :param snapshots_rolled_back: ids of the snapshots that main lost, newest first.
    :param run_keys_added: run keys that count as applied on main from now on.
    :param run_keys_removed: run keys that do no longer; their runs apply their batches again.
    :param source_positions: source to generation, where the position of a source was moved; 0 where it was removed.
    :param format_version: of the table afterwards.
    :param without_spark: whether the worker committed it.
    """

    action: ClassVar[str] = "change-metadata"
    operation: str = ""
    ref: str | None = None
    ref_before: str | None = None
    ref_after: str | None = None
    snapshots_rolled_back: tuple[str, ...] = ()
    run_keys_added: tuple[str, ...] = ()
    run_keys_removed: tuple[str, ...] = ()
    source_positions: dict[str, int] = field(default_factory=dict)
    format_version: int | None = None
    without_spark: bool = False
