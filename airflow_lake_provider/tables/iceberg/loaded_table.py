"""An Iceberg table as PyIceberg has loaded it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import ClassVar

from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField

from airflow_lake_provider.contracts.capabilities import ICEBERG, FormatCapabilities, Verdict
from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.file_locations import folders_of_metadata, is_below, normalised
from airflow_lake_provider.contracts.policy_settings import NamedValue
from airflow_lake_provider.contracts.property_values import number_or
from airflow_lake_provider.contracts.reports.job import (
    CompactionReport,
    ExpiryReport,
    RewriteManifestsReport,
    RowExpiryReport,
    StatisticsReport,
)
from airflow_lake_provider.contracts.specs.maintenance import (
    FLINK_JOB_AGE,
    CompactionSpec,
    RewriteManifestsSpec,
    RowExpirySpec,
    SnapshotExpirySpec,
    StatisticsSpec,
)
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange
from airflow_lake_provider.contracts.table_facts import REMEDY, Snapshot, TableFacts, TableState
from airflow_lake_provider.iceberg.column_types import changed_types, other_types
from airflow_lake_provider.iceberg.compaction_rules import endangered_part
from airflow_lake_provider.iceberg.file_ownership import declared_paths
from airflow_lake_provider.iceberg.manifest_rules import manifest_target_bytes
from airflow_lake_provider.iceberg.metadata_facts import IcebergFacts, refuse_broken_history
from airflow_lake_provider.iceberg.owner_settings import broken_setting, owner_policy
from airflow_lake_provider.iceberg.snapshot_retention import MAX_REF_AGE, expirable_snapshots
from airflow_lake_provider.iceberg.statistics_rules import SKETCH
from airflow_lake_provider.iceberg.streaming_writers import (
    jobs_of_dropped_branch,
    jobs_that_lose_commits,
    recent,
    without_upgrade_to_version_3,
)
from airflow_lake_provider.iceberg.table_check import check_table
from airflow_lake_provider.iceberg.table_obstacles import unfit_for
from airflow_lake_provider.tables.base import ListedTable, LoadedTable
from airflow_lake_provider.tables.head_files import FEWEST_MERGED, HeadFiles
from airflow_lake_provider.tables.iceberg.compaction_plan import plan_compaction
from airflow_lake_provider.tables.iceberg.head_files import ManifestRecord, count_head, target_bytes
from airflow_lake_provider.tables.iceberg.live_files import LiveFiles, columns_in, endangered_deletes, read_files
from airflow_lake_provider.tables.iceberg.maintenance_plans import (
    plan_expiry,
    plan_manifests,
    plan_row_expiry,
    plan_statistics,
    statistics_at,
)
from airflow_lake_provider.tables.iceberg.manifest_entries import whole_file
from airflow_lake_provider.tables.iceberg.metadata_commit import commit_metadata, is_committed_without_spark
from airflow_lake_provider.tables.iceberg.partitions import (
    partition_path,
    partition_ranges,
    partition_types,
    rows_outside,
)
from airflow_lake_provider.tables.iceberg.pyiceberg_facts import facts_of

# First format version with row ids, and without position delete files.
_WITH_LINEAGE = 3


class LoadedIcebergTable(LoadedTable):
    """The :class:`.LoadedTable` of Iceberg.

    :param table: loaded now.
    """

    capabilities: ClassVar[FormatCapabilities] = ICEBERG

    def __init__(self, table: Table) -> None:
        self._table = table
        # As it is listed: a dot within a level is none between two.
        self._name = str(ListedTable(tuple(table.name())))

    @cached_property
    def facts(self) -> IcebergFacts:
        """Facts of the version that was loaded."""
        return facts_of(self._name, self._table.metadata)

    @property
    def warehouse(self) -> str | None:
        """Root that its catalog puts tables below; None where that is not known."""
        return self._table.catalog.properties.get("warehouse")

    def state(self) -> TableState:
        """Return the counts of main's head; its manifest list is opened."""
        return self.facts.state(lambda snapshot: len(self._manifests(snapshot)))

    def unfit_for(self, capability: str, keys: Sequence[str] = ()) -> str | None:
        """Return why the table rules a capability out."""
        return unfit_for(self.facts.shape, capability, keys)

    def check(self, keys: Sequence[str]) -> list[Verdict]:
        """Return what each operator can do with the table."""
        return check_table(self.facts, keys)

    def endangered_deletes(self) -> str | None:
        """Return the partition field whose loss would part deletes from their data files; None without any."""
        return endangered_deletes(self.facts.shape, lambda: self.head_manifests)

    def part_obstacle(self) -> str | None:
        """Return which deletes would be lost."""
        return None if (name := self.endangered_deletes()) is None else endangered_part(name)

    def columns_in(self, where: str) -> list[str]:
        """Return the columns that a predicate names."""
        return columns_in(where, self._name)

    def incomparable_since(self, snapshot: Snapshot) -> str | None:
        """Return which columns have got other types."""
        shape = self.facts.shape
        changed = changed_types(shape.schema(snapshot.schema_id), shape.schema())
        return other_types(self._name, snapshot.id, changed) if changed else None

    def plan_compaction(self, spec: CompactionSpec) -> CompactionReport:
        """Tell what a compaction would do."""
        return plan_compaction(self, spec)

    def plan_manifests(self, spec: RewriteManifestsSpec) -> RewriteManifestsReport:
        """Tell what a rewrite of manifests would do."""
        before = self.state()
        sizes = self.manifest_sizes(before.snapshot) if before.snapshot is not None else {}
        return plan_manifests(self.facts, before, sizes, spec)

    def plan_statistics(self, spec: StatisticsSpec) -> StatisticsReport:
        """Tell which statistics are missing."""
        metadata, head = self._table.metadata, self.state()
        of_head = (file for file in metadata.statistics if str(file.snapshot_id) == head.snapshot)
        blobs = (blob for file in of_head for blob in file.blob_metadata)
        counted = {id_ for blob in blobs if blob.type == SKETCH for id_ in blob.fields}
        of_partitions = {str(each.snapshot_id) for each in metadata.partition_statistics}
        return plan_statistics(self.facts, head, spec, counted, of_partitions)

    def statistics_at(self) -> datetime | None:
        """Return the moment of main's newest snapshot that has statistics."""
        return statistics_at(self.facts)

    def plan_row_expiry(self, spec: RowExpirySpec) -> RowExpiryReport:
        """Tell what an expiry of rows would do."""
        return plan_row_expiry(self, spec)

    def plan_expiry(self, spec: SnapshotExpirySpec) -> ExpiryReport:
        """Tell what an expiry would do."""
        return plan_expiry(self, spec)

    def locations(self, *, of_earlier_versions: bool = False) -> tuple[str, ...]:
        """Return its location, the paths that its properties declare, and where it was before.

        Files stay where they were written. The log of the metadata and the snapshots say where that may be, as far as
        they go back. What earlier metadata declared is read of the oldest version, and of all where that differs.
        """
        facts = self.facts
        own = _declared_locations(facts)
        if of_earlier_versions and facts.metadata_log:
            versions = self.versions_since(0)
            oldest = _declared_locations(next(versions))
            earlier_versions = [] if oldest == own else [oldest, *map(_declared_locations, versions)]
            own = tuple(dict.fromkeys((*own, *(path for each in earlier_versions for path in each))))
        metadata = [path for _, path in facts.metadata_log]
        metadata += [each.manifest_list for each in facts.snapshots.values() if each.manifest_list]
        # A table has thousands of these files, in one folder or two.
        metadata = [f"{folder}/_" for folder in dict.fromkeys(path.rpartition("/")[0] for path in metadata)]
        folders = (folder for path in metadata for folder in folders_of_metadata(path))
        roots = [normalised(each) for each in own]
        earlier = (each for each in folders if not any(is_below(normalised(each), root) for root in roots))
        return tuple(dict.fromkeys((*own, *earlier)))

    def harmed_by_rollback(self, lost: Sequence[Snapshot], left: Sequence[Snapshot]) -> list[str]:
        """Return a warning for each Flink job whose last commit main loses."""
        return jobs_that_lose_commits(lost, left, recent(FLINK_JOB_AGE))

    def harmed_by_dropping(self, branch: str, gained: Sequence[Snapshot]) -> list[str]:
        """Return a warning for the Flink jobs that write to the branch."""
        return jobs_of_dropped_branch(gained, branch, recent(FLINK_JOB_AGE))

    def harmed_by_upgrade(self, version: int) -> str | None:
        """Return which Flink jobs version 3 could strand."""
        if version != _WITH_LINEAGE:
            return None
        return without_upgrade_to_version_3(self.facts.branch_histories(), recent(FLINK_JOB_AGE))

    def changed_by_upgrade(self, version: int) -> list[str]:
        """Return what version 3 changes for a table with rows."""
        return list(_changed_by_version_3(self.facts)) if version == _WITH_LINEAGE else []

    def column(self, name: str) -> NestedField | None:
        """Return a top-level column; None where there is none."""
        return next((field for field in self._table.metadata.schema().fields if field.name == name), None)

    def live_files(self, where: str | BooleanExpression | None, column: NestedField | None = None) -> LiveFiles:
        """Read the live files of main's head.

        :param where: predicate on the rows that the data files may hold; None for all.
        :param column: whose bounds each file is given with.
        :raises UnreadPredicateError: it cannot be read, or names a column that the table lacks.
        """
        return read_files(self._table, self.head_manifests, where, column)

    def listed_files(self, snapshot: str) -> tuple[int, int] | None:
        """Return how many data and delete files the manifest list counts; None where a manifest has no counts."""
        listed = [0, 0]
        for manifest in self._manifests(snapshot):
            if manifest.added_files_count is None or manifest.existing_files_count is None:
                return None
            listed[manifest.content == ManifestContent.DELETES] += (
                manifest.added_files_count + manifest.existing_files_count
            )
        return listed[0], listed[1]

    def manifest_sizes(self, snapshot: str) -> dict[int, list[list[int]]]:
        """Return the bytes of manifests by the partition spec that they are of, those of data and of deletes apart."""
        sizes: dict[int, list[list[int]]] = {}
        for manifest in self._manifests(snapshot):
            kinds = sizes.setdefault(manifest.partition_spec_id, [[], []])
            kinds[manifest.content == ManifestContent.DELETES].append(manifest.manifest_length)
        return sizes

    def broken_setting(self, action: str) -> str | None:
        """Return which setting of the owner an action of maintenance cannot read."""
        return broken_setting(self.facts, action)

    def owner_policy(self) -> Iterator[NamedValue]:
        """Yield what the owner has set by Iceberg's own properties."""
        return owner_policy(self.facts.properties)

    def age_of_refs(self) -> tuple[str, int] | None:
        """Return the age of the table's property; an expiry refuses a value that is none."""
        age = number_or(self.facts.properties, MAX_REF_AGE, 0)
        return (f"the table's {MAX_REF_AGE}", age) if age else None

    @property
    def target_bytes(self) -> int:
        """Bytes that a data file should have."""
        return target_bytes(self.facts)

    def expirable(self, now: datetime, older_than: timedelta | None = None, retain_last: int | None = None) -> int:
        """Return how many snapshots an expiry would remove."""
        return expirable_snapshots(self.facts, now, older_than, retain_last)

    def rows_outside(self, partition: str) -> str | None:
        """Return a predicate on the rows that are not in a partition."""
        return rows_outside(self.facts.shape, partition)

    def partition_name(self, spec_id: int, values: Hashable) -> str:
        """Return a partition as Iceberg's paths have it."""
        return partition_path(self._table.metadata, spec_id, values)

    def head_files(self, recent: Collection[str], target: int | None = None, fewest: int = FEWEST_MERGED) -> HeadFiles:
        """Count the files of main's head from its manifests."""
        metadata = self._table.metadata
        types, column = partition_types(metadata), self._sort_column()
        manifests = [
            ManifestRecord(
                bytes=manifest.manifest_length,
                is_of_deletes=manifest.content == ManifestContent.DELETES,
                is_of_current_spec=manifest.partition_spec_id == metadata.default_spec_id,
                spec_id=manifest.partition_spec_id,
                files=(manifest.added_files_count or 0) + (manifest.existing_files_count or 0),
                ranges=partition_ranges(manifest, types.get(manifest.partition_spec_id, ())),
            )
            for manifest in self.head_manifests
        ]
        return count_head(
            manifests,
            lambda: self.live_files(None, column),
            self.partition_name,
            recent,
            target=target or self.target_bytes,
            manifest_target=manifest_target_bytes(metadata.properties),
            fewest=fewest,
            sorted_by=self._column_name(column),
        )

    def _sort_column(self) -> NestedField | None:
        """Return the first column of the table's own sort order; None where it has none, or the order is of terms."""
        first = next(iter(self.facts.shape.sort_order), None)
        schema = self._table.metadata.schema()
        if first is None or first["transform"] != "identity" or first["source-id"] not in schema.field_ids:
            return None
        return schema.find_field(first["source-id"])

    def _column_name(self, column: NestedField | None) -> str | None:
        return None if column is None else self._table.metadata.schema().find_column_name(column.field_id)

    def versions_since(self, at: int) -> Iterator[TableFacts]:
        """Yield the versions of the metadata since a moment, oldest first."""
        for written, location in self.facts.metadata_log:
            if written >= at:
                try:
                    yield facts_of(self._name, FromInputFile.table_metadata(self._table.io.new_input(location)))
                except (FileNotFoundError, ValueError):
                    # Removed by another tool.
                    continue
        yield self.facts

    def has_file(self, location: str) -> bool:
        """Tell whether a file exists."""
        return self._table.io.new_input(location).exists()

    def commit(self, change: MetadataChange) -> bool:
        """Make a change where PyIceberg can."""
        if not is_committed_without_spark(self._table, change):
            return False
        commit_metadata(self._table, change)
        return True

    @cached_property
    def head_manifests(self) -> list[ManifestFile]:
        """Manifests of main's head."""
        head = self._table.current_snapshot()
        return [] if head is None else self._manifests(str(head.snapshot_id))

    def _manifests(self, snapshot: str) -> list[ManifestFile]:
        loaded = self._table.snapshot_by_id(int(snapshot))
        if loaded is None:
            return []
        with whole_file(self._name, f"manifest list {loaded.manifest_list} of snapshot {snapshot}"):
            return loaded.manifests(self._table.io)


class UnparsedIcebergTable(LoadedIcebergTable):
    """A table whose facts were read from JSON; PyIceberg parses it when somebody asks for more.

    Parsing takes three times as long as reading the facts, and of a thousand tables few are asked for more.

    :param metadata_bytes: of the JSON.
    :param parse: loads the table from what was read.
    """

    def __init__(self, facts: IcebergFacts, metadata_bytes: int, parse: Callable[[], Table]) -> None:
        self.facts, self.metadata_bytes = facts, metadata_bytes
        self._parse, self._name = parse, facts.name

    @cached_property
    def _table(self) -> Table:  # type: ignore[override]  # an attribute of a parsed one
        table = self._parse()
        refuse_broken_metadata(self._name, table.metadata)
        return table


def _declared_locations(facts: TableFacts) -> tuple[str, ...]:
    return (facts.location, *declared_paths(facts.properties))


def _changed_by_version_3(facts: TableFacts) -> Iterator[str]:
    if facts.newest() is None:
        return
    yield (
        "rows get row ids with the next commit; an incremental run that starts at a snapshot from before it has to "
        "read everything once (on_gap='full')"
    )
    if facts.total("total-position-deletes"):
        yield (
            f"{facts.name} has position delete files of version 2; they stay valid, and are replaced by deletion "
            "vectors when their data files are changed or compacted"
        )


def refuse_broken_metadata(name: str, metadata: TableMetadata) -> None:
    """Refuse metadata whose snapshots or sort order no writer can have made, before anything walks along it.

    :param name: of the table.
    :raises BrokenMetadataError: naming what is wrong.
    """
    snapshots = ((s.snapshot_id, s.parent_snapshot_id, s.timestamp_ms) for s in metadata.snapshots)
    moved = (entry.timestamp_ms for entry in metadata.snapshot_log)
    written = (entry.timestamp_ms for entry in metadata.metadata_log)
    refs = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
    # PyIceberg looks the order up as if it were there, and ends in a StopIteration.
    orders = [order.order_id for order in metadata.sort_orders]
    if metadata.default_sort_order_id not in orders:
        raise BrokenMetadataError(
            f"{name}: default-sort-order-id is {metadata.default_sort_order_id}, expected one of the sort-orders "
            f"{orders}. {REMEDY}."
        )
    refuse_broken_history(name, snapshots, (*moved, *written), refs)
