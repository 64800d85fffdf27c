"""Health of a table as its metadata tells it: facts, and a score with its parts.

:func:`health_of` reads the facts of a loaded table, and its manifests only where these facts raise a suspicion.
``hooks/table_health.py`` does so for the tables of a catalog.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from airflow_lake_provider.contracts.curve_order import CurveOrder
from airflow_lake_provider.contracts.json_codec import from_json, to_json
from airflow_lake_provider.maintenance.head_counts import HeadCounts, suspicions
from airflow_lake_provider.maintenance.history import (
    CommitRate,
    ConsumerLag,
    Growth,
    MaintenanceRun,
    SnapshotAges,
    calendar_refs,
    commit_rate,
    consumer_lags,
    counted_growth,
    curve_order,
    growth,
    has_identifiers,
    last_arrival,
    last_data_commit,
    last_maintenance,
    last_row_expiry,
    recent_changes,
    snapshot_ages,
)
from airflow_lake_provider.maintenance.hot_partitions import HotPartition, hottest_partitions
from airflow_lake_provider.maintenance.score import HealthLimits, Measures, ScorePart, score_of, score_parts, slowest
from airflow_lake_provider.tables.base import LoadedTable
from airflow_lake_provider.tables.head_files import HeadFiles


@dataclass(frozen=True, kw_only=True)
class OrphanCount:
    """Files that no metadata names, as the last dry run has counted them.

    :param files: how many.
    :param bytes: of all of them.
    :param counted_at: when, in UTC.
    """

    files: int
    bytes: int
    counted_at: datetime


@dataclass(frozen=True, kw_only=True)
class FileSizes:
    """Sizes of a head's data files against the size that they should have.

    :param data_files: how many; None where the summary does not say it, and manifests were not read.
    :param data_bytes: of all of them; of delete files as well, before manifests are read.
    :param target_bytes: the table's ``write.target-file-size-bytes``, else Iceberg's default.
    :param small_files: below 75 % of the target; None before manifests are read.
    :param small_bytes: of the small files.
    :param by_size: files below 1/64, 1/16, 1/4, 3/4 and 1.8 of the target, each without those before it, and all larger
        ones; empty before manifests are read.
    :param mergeable_files: that would be gone if small files were merged within their partitions; at most these, before
        manifests are read.
    :param mergeable_in_groups: of these, those in partitions with as many small files as a merge takes; None before
        manifests are read.
    :param squared_distance: mean of ``((target - size) / target) ** 2`` over files below the target, 0 for others.
    :param sorted_by: first column of the table's own sort order; None where it has none, or manifests were not read.
    :param sorted_share: files whose values of that column meet those of no other file of their partition, over all.
        None where manifests do not show it.
    """

    data_files: int | None = None
    data_bytes: int | None = None
    target_bytes: int
    small_files: int | None = None
    small_bytes: int | None = None
    by_size: tuple[int, ...] = ()
    mergeable_files: int | None = None
    mergeable_in_groups: int | None = None
    squared_distance: float | None = None
    sorted_by: str | None = None
    sorted_share: float | None = None


@dataclass(frozen=True, kw_only=True)
class PartitionDeletes:
    """A partition with many deleted rows.

    :param partition: such as ``day=2026-11-26``.
    :param deleted_share: deleted rows over the rows of its data files.
    """

    partition: str
    deleted_share: float


@dataclass(frozen=True, kw_only=True)
class DeleteDebt:
    """Deletes that readers apply, by kind; None where only manifests say it, and nobody has read them.

    :param delete_files: delete files and deletion vectors.
    :param deleted_rows: by position deletes and deletion vectors.
    :param deleted_share: of the rows of all data files.
    :param position_deletes: rows that position delete files delete.
    :param vector_deletes: rows that deletion vectors delete.
    :param equality_deletes: keys in equality delete files.
    :param dangling_files: delete files that apply to no data file.
    :param partitions: those with the largest shares of deleted rows, at most five.
    """

    delete_files: int | None = None
    deleted_rows: int | None = None
    deleted_share: float | None = None
    position_deletes: int | None = None
    vector_deletes: int | None = None
    equality_deletes: int | None = None
    dangling_files: int | None = None
    partitions: tuple[PartitionDeletes, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ManifestSizes:
    """Lists of files of a head.

    :param manifests: how many.
    :param bytes: of all of them.
    :param mergeable: those that would be gone if they were merged.
    :param overlap: share of pairs whose partition ranges meet; None of tables without partitions.
    """

    manifests: int | None = None
    bytes: int | None = None
    mergeable: int | None = None
    overlap: float | None = None


@dataclass(frozen=True, kw_only=True)
class TableHealth:
    """Health of one table at one moment. Ids of snapshots are text, times are UTC.

    :param table: whole name.
    :param read_at: moment against which ages count.
    :param error: why the table could not be read; it has no score then.
    :param score: from 0 to 100.
    :param parts: what the score is made of, and why.
    :param suspected: facts for which manifests were read, by the names of parts.
    :param manifests_read: whether counts of files are exact; else they are what summaries say.
    :param format_version: of the table.
    :param snapshot: head of main; None of a table without one.
    :param snapshot_at: moment of its commit.
    :param files: sizes of its data files.
    :param deletes: deletes that readers apply.
    :param manifests: its lists of files.
    :param snapshots: their number and ages.
    :param metadata_bytes: of ``metadata.json``, unpacked; None where the catalog's client does not say.
    :param commits: how often main is committed to.
    :param growth: since the last compaction.
    :param rows: of its data files, deleted ones among them.
    :param has_identifiers: whether it has identifier fields.
    :param curve: rows that lie along a curve; None where no compaction has put any in order.
    :param hot_partitions: those changed most in the last day, by the time of the newest change.
    :param last_maintenance: newest run by action; ``replace`` is one of another tool.
    :param consumers: incremental readers, by their tags.
    :param last_data_commit: newest commit that changed rows.
    :param last_arrival: newest commit that brought rows, and took fewer away.
    :param rows_expired_at: newest expiry of rows.
    :param rows_expired_before: column and value below which it removed them, such as ``day < 2026-01-01``.
    :param statistics_at: moment of main's newest snapshot that has statistics.
    :param orphans: None where no dry run has counted them.
    :param tags: those that a policy makes by the calendar.
    :param branches: those whose names are such as these tags have.
    :param obstacles: why the table rules an action out, by the action; a compaction is asked for where manifests were
        worth reading.
    :param policy_error: why the table's policy could not be read: defaults judge it, and no maintenance touches it.
    """

    table: str
    read_at: datetime
    error: str | None = None
    score: int | None = None
    parts: tuple[ScorePart, ...] = ()
    suspected: tuple[str, ...] = ()
    manifests_read: bool = False
    format_version: int | None = None
    snapshot: str | None = None
    snapshot_at: datetime | None = None
    files: FileSizes | None = None
    deletes: DeleteDebt | None = None
    manifests: ManifestSizes | None = None
    snapshots: SnapshotAges | None = None
    metadata_bytes: int | None = None
    commits: CommitRate | None = None
    growth: Growth = field(default_factory=Growth)
    rows: int | None = None
    has_identifiers: bool = False
    curve: CurveOrder | None = None
    hot_partitions: tuple[HotPartition, ...] = ()
    last_maintenance: dict[str, MaintenanceRun] = field(default_factory=dict)
    consumers: tuple[ConsumerLag, ...] = ()
    last_data_commit: datetime | None = None
    last_arrival: datetime | None = None
    rows_expired_at: datetime | None = None
    rows_expired_before: str | None = None
    statistics_at: datetime | None = None
    orphans: OrphanCount | None = None
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    obstacles: dict[str, str] = field(default_factory=dict)
    policy_error: str | None = None

    @property
    def findings(self) -> tuple[ScorePart, ...]:
        """Parts that take points, the worst first."""
        return tuple(sorted((part for part in self.parts if part.lost), key=lambda part: (-part.lost, part.name)))

    @property
    def is_suspect(self) -> bool:
        """True where anything is worth a look: a suspicion, a finding or an error."""
        return bool(self.error or self.suspected or self.findings)

    @property
    def order(self) -> tuple[int, str]:
        """Sorts tables worst first; those that cannot be read are the worst."""
        return -1 if self.score is None else self.score, self.table

    def to_json(self) -> str:
        """Return it as JSON."""
        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> TableHealth:
        """Read what :meth:`to_json` wrote.

        :raises InvalidSpecError: another version wrote it, with other fields.
        """
        return from_json(cls, text)


def health_of(
    table: LoadedTable, now: datetime, limits: HealthLimits | None = None, orphans: OrphanCount | None = None
) -> TableHealth:
    """Return the health of a loaded table.

    :param now: UTC; against it ages count.
    :param limits: declared for the table.
    :param orphans: of its last dry run.
    :raises BrokenMetadataError: its history goes in a circle.
    """
    facts, history, declared = table.facts, list(table.facts.ancestors()), limits or HealthLimits()
    recent = recent_changes(history, now)
    counts = HeadCounts.of(history, declared.target_bytes or table.target_bytes)
    grown = growth(history, counts.target_bytes)
    expired_at, expired_before = last_row_expiry(history)
    suspected = suspicions(facts, history, counts, declared, grown.small_files, recent)
    wanted = {each.id for each in recent}
    exact = table.head_files(wanted, counts.target_bytes, declared.fewest_merged) if suspected else None
    health = TableHealth(
        table=facts.name,
        read_at=now,
        suspected=suspected,
        manifests_read=exact is not None and exact.are_counted,
        format_version=facts.format_version,
        snapshot=history[0].id if history else None,
        snapshot_at=history[0].committed_at if history else None,
        files=_files(counts, exact),
        deletes=_deletes(counts, exact),
        manifests=_manifests(counts, exact),
        snapshots=snapshot_ages(facts, table.expirable(now, declared.older_than, declared.retain_last)),
        metadata_bytes=table.metadata_bytes,
        commits=commit_rate(facts, history, now),
        growth=counted_growth(grown, history, exact),
        rows=exact.records if exact and exact.are_counted else counts.records,
        has_identifiers=has_identifiers(facts),
        curve=curve_order(facts, history),
        hot_partitions=hottest_partitions(history, recent, exact.added if exact else (), table.rows_outside),
        last_maintenance=last_maintenance(history),
        consumers=consumer_lags(facts, history, now),
        last_data_commit=last_data_commit(history),
        last_arrival=last_arrival(history),
        rows_expired_at=expired_at,
        rows_expired_before=expired_before,
        statistics_at=table.statistics_at(),
        orphans=orphans,
        tags=calendar_refs(facts),
        branches=calendar_refs(facts, of_branches=True),
        obstacles=_obstacles(table, suspected=bool(suspected)),
    )
    return _scored(health, declared)


# Capabilities by the actions that ask for them where manifests were worth reading.
_SUSPECTED = {"compaction": "compaction", "rewrite-manifests": "file-lists"}
# Among the obstacles: a compaction has to take the whole table.
OF_PART = "compaction-of-part"


def _obstacles(table: LoadedTable, *, suspected: bool) -> dict[str, str]:
    asked = {"snapshot-expiry": "snapshot-expiry", **(_SUSPECTED if suspected else {})}
    reasons = {action: table.unfit_for(name) or table.broken_setting(action) for action, name in asked.items()}
    reasons[OF_PART] = table.part_obstacle() if suspected else None
    # By the version alone: of a thousand tables, nobody works out the columns.
    without_rows = table.capabilities.lacks("row-expiry", table.facts.format_version)
    reasons["expire-rows"] = without_rows or table.broken_setting("expire-rows")
    reasons["compute-statistics"] = table.broken_setting("compute-statistics")
    reasons["remove-orphans"] = table.unfit_for("remove-orphans")  # without a commit, so by no setting of one
    return {action: why for action, why in reasons.items() if why is not None}


def _scored(health: TableHealth, limits: HealthLimits) -> TableHealth:
    """Add the score of a table, and the parts that it is made of."""
    files, deletes = health.files or FileSizes(target_bytes=0), health.deletes or DeleteDebt()
    manifests = health.manifests or ManifestSizes()
    worst = deletes.partitions[0] if deletes.partitions else None
    measures = Measures(
        data_files=files.data_files or 0,
        records=health.rows or 0,
        mergeable_files=files.mergeable_files or 0,
        delete_files=deletes.delete_files or 0,
        deleted_rows=deletes.deleted_rows or 0,
        vector_deletes=deletes.vector_deletes or 0,
        equality_deletes=deletes.equality_deletes or 0,
        dangling_files=deletes.dangling_files,
        worst_partition=worst.deleted_share if worst else None,
        worst_partition_name=worst.partition if worst else "",
        expirable=health.snapshots.expirable if health.snapshots else 0,
        manifests=manifests.manifests,
        mergeable_manifests=manifests.mergeable,
        overlap=manifests.overlap,
        metadata_bytes=health.metadata_bytes,
        consumer=slowest(health.consumers),
        data_age=health.read_at - health.last_data_commit if health.last_data_commit else None,
        orphan_bytes=health.orphans.bytes if health.orphans else None,
        data_bytes=files.data_bytes or 0,
    )
    parts = score_parts(measures, limits)
    return replace(health, score=score_of(parts), parts=parts)


def _files(counts: HeadCounts, exact: HeadFiles | None) -> FileSizes:
    if exact is None or not exact.are_counted:
        return FileSizes(
            data_files=counts.data_files,
            data_bytes=counts.data_bytes,
            target_bytes=counts.target_bytes,
            mergeable_files=counts.mergeable_files,
            squared_distance=counts.squared_distance,
        )
    names = {each.name for each in fields(FileSizes)} - {"target_bytes"}
    counted: dict[str, Any] = {name: getattr(exact, name) for name in names}
    return FileSizes(target_bytes=counts.target_bytes, **counted)


def _deletes(counts: HeadCounts, exact: HeadFiles | None) -> DeleteDebt:
    if exact is None or not exact.are_counted:
        return DeleteDebt(
            delete_files=counts.delete_files,
            deleted_rows=counts.position_deletes,
            deleted_share=_share(counts.position_deletes, counts.records),
            equality_deletes=counts.equality_deletes,
        )
    return DeleteDebt(
        delete_files=exact.delete_files,
        deleted_rows=exact.position_deletes + exact.vector_deletes,
        deleted_share=_share(exact.position_deletes + exact.vector_deletes, exact.records),
        position_deletes=exact.position_deletes,
        vector_deletes=exact.vector_deletes,
        equality_deletes=exact.equality_deletes,
        dangling_files=exact.dangling_files,
        partitions=tuple(
            PartitionDeletes(partition=name, deleted_share=share) for name, share in exact.deleted_by_partition
        ),
    )


def _manifests(counts: HeadCounts, exact: HeadFiles | None) -> ManifestSizes:
    if exact is None:
        return ManifestSizes(manifests=counts.manifests)
    return ManifestSizes(
        manifests=exact.manifests,
        bytes=exact.manifest_bytes,
        mergeable=exact.mergeable_manifests,
        overlap=exact.overlap,
    )


def _share(deleted: int | None, records: int | None) -> float | None:
    return None if deleted is None or not records else min(1.0, deleted / records)


def broken_table(name: str, now: datetime, error: str) -> TableHealth:
    """Return the entry of a table that could not be read.

    :param error: type and text.
    """
    return TableHealth(table=name, read_at=now, error=error)
