"""Iceberg behind the seam of formats: each method leads to the file that has the subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.argument_validation import choice
from airflow_lake_provider.contracts.as_of import snapshot_as_of
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns, SchemaContract
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.capabilities import ICEBERG, FormatCapabilities
from airflow_lake_provider.contracts.reports.batch_plan import SchemaChange
from airflow_lake_provider.contracts.reports.job import (
    CompactionReport,
    ExpiryReport,
    OrphanFilesReport,
    RewriteManifestsReport,
    StatisticsReport,
)
from airflow_lake_provider.contracts.specs.maintenance import (
    CompactionSpec,
    OrphanFilesSpec,
    RewriteManifestsSpec,
    SnapshotExpirySpec,
    StatisticsSpec,
)
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange
from airflow_lake_provider.contracts.table_facts import MAIN, TableState
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.sides import ArrowRows, ParquetBatch
from airflow_lake_provider.spark_jobs.batch.key_ranges import KeyRanges
from airflow_lake_provider.spark_jobs.formats.base import AppliedState, FormatTable
from airflow_lake_provider.spark_jobs.formats.commits import (
    AppendCommit,
    AppliedCommit,
    ChangeFilter,
    KeyedCommit,
    MatchedCommit,
    OverwriteCommit,
    RetainedRows,
    RowMatch,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.appends import append_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.compared_rows import compared_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.dropped_sources import refuse_endangered_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.metadata_change import change_metadata
from airflow_lake_provider.spark_jobs.formats.iceberg.incremental import consumer_tags
from airflow_lake_provider.spark_jobs.formats.iceberg.incremental.net_changes import net_changes
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.compaction import compact
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.compute_statistics import compute_statistics
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.orphan_files import remove_orphans
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.rewrite_manifests import merge_manifests
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.snapshot_expiry import expire
from airflow_lake_provider.spark_jobs.formats.iceberg.overwrites.overwrite_partitions import overwrite_partitions
from airflow_lake_provider.spark_jobs.formats.iceberg.row_changes.change_rows import change_rows, refuse_unchangeable
from airflow_lake_provider.spark_jobs.formats.iceberg.row_changes.retained_rows import retained_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.fit_rows import as_stored
from airflow_lake_provider.spark_jobs.formats.iceberg.table import apply_schema_contract, create_table
from airflow_lake_provider.spark_jobs.formats.iceberg.table.filter_pushdown import rows_for_queries, rows_where
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.pushdown_literals import refuse_capitals
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts import applied_state
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.apply_upsert import apply_upsert
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_pruning import rows_of_keys
from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, jvm_of
from airflow_lake_provider.spark_jobs.progress import Progress


class IcebergFormat:
    """Implements ``formats.base.TableFormat``."""

    capabilities: ClassVar[FormatCapabilities] = ICEBERG

    def open_catalog(self, spark: SparkSession, catalog: str) -> Any:
        """``org.apache.iceberg.catalog.Catalog``."""
        return jvm_of(spark).org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(java_session(spark), catalog)

    def table(
        self, spark: SparkSession, catalog: str, name: TableName, write_options: Mapping[str, str]
    ) -> IcebergFormatTable:
        """Return a table of a catalog, whose batches are applied by the strategy of ``write_options``."""
        asked = choice(UpsertStrategy, write_options.get("strategy", UpsertStrategy.AUTO), "strategy")
        return IcebergFormatTable(IcebergTable(spark, catalog, name), asked)


@dataclass
class IcebergFormatTable(FormatTable):
    """Implements ``formats.base.FormatTable``, which says what each method does."""

    capabilities: ClassVar[FormatCapabilities] = ICEBERG
    table: IcebergTable
    strategy: UpsertStrategy = UpsertStrategy.AUTO

    def exists(self) -> bool:
        return self.table.exists()

    def is_created(self) -> bool:
        return self.table.exists() and not create_table.is_unfinished(self.table)

    def identity(self) -> str:
        return self.table.uuid

    def state(self, branch: str | None = None) -> TableState:
        return self.table.refresh().state(branch or MAIN)

    def properties(self) -> dict[str, str]:
        return self.table.properties() if self.exists() else {}

    def schema(self) -> StructType | None:
        return self.table.schema() if self.exists() else None

    def applied_state(self, source_name: str, branch: str | None = None) -> AppliedState:
        return applied_state.applied_state(self.table, source_name, branch)

    def other_positions(self, source_name: str) -> Mapping[str, SourcePosition]:
        return applied_state.other_positions(self.table, source_name) if self.exists() else {}

    def current_rows(self, base: str | None) -> DataFrame | None:
        return None if base is None else self.table.rows_of_base(int(base))

    def compared_rows(self, base: str, batch: ParquetBatch) -> ArrowRows:
        return compared_rows(self.table, int(base), batch)

    def as_stored(self, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
        return as_stored(self.table, rows, keys)

    def rows_of_keys(self, base: str | None, keys: DataFrame, ranges: KeyRanges | None) -> DataFrame | None:
        return None if base is None else rows_of_keys(self.table, base, keys, ranges)

    def create(self, columns: StructType, keys: tuple[str, ...], layout: TableLayout) -> None:
        create_table.create_table(self.table, columns, keys, layout, self.strategy)

    def fit_schema(self, columns: StructType, contract: SchemaContract, missing: MissingColumns) -> tuple[str, ...]:
        return apply_schema_contract.fit_schema(self.table, columns, contract, missing)

    def schema_changes(
        self, columns: StructType, contract: SchemaContract, missing: MissingColumns
    ) -> tuple[SchemaChange, ...]:
        return apply_schema_contract.schema_changes(self.table, columns, contract, missing)

    def apply(self, commit: KeyedCommit, progress: Progress) -> AppliedCommit:
        refuse_endangered_deletes(self.table)
        return apply_upsert(self.table, commit, progress, self.strategy)

    def append(self, commit: AppendCommit, progress: Progress) -> AppliedCommit | None:
        refuse_endangered_deletes(self.table)
        return append_rows(self.table, commit, progress)

    def overwrite_partitions(self, commit: OverwriteCommit, progress: Progress) -> AppliedCommit | None:
        refuse_endangered_deletes(self.table)
        return overwrite_partitions(self.table, commit, progress)

    def changeable_state(self) -> AppliedState:
        refuse_unchangeable(self.table.refresh_readable())
        return applied_state.changeable_state(self.table)

    def change(self, commit: MatchedCommit, progress: Progress) -> AppliedCommit | None:
        refuse_endangered_deletes(self.table)
        return change_rows(self.table, commit, progress)

    def retained(self, match: RowMatch, without: str | None) -> RetainedRows:
        return retained_rows(self.table, match, without)

    def snapshot_as_of(self, moment: str) -> str:
        return snapshot_as_of(self.table.refresh().facts, moment)

    def rows_at(
        self, snapshot: str | None, where: str | None = None, *, is_head: bool = False, allow_sql: bool = False
    ) -> DataFrame:
        self.table.refresh_readable()
        if where is not None and not allow_sql:
            # An earlier snapshot has the names of its time.
            schema = None if is_head or snapshot is None else self.table.schema_at(int(snapshot))
            refuse_capitals(self.table, where, schema)
        if snapshot is None:
            # Its first commit may have come since: that is none of what was asked for.
            return self.table.spark.table(self.table.sql_name).limit(0)
        rows = self.table.rows_by_newest_schema(int(snapshot)) if is_head else self.table.rows_at(int(snapshot))
        if where is not None:
            rows = rows_where(self.table, rows, where, int(snapshot))
        return rows_for_queries(self.table, rows, int(snapshot))

    def has_passed(self, position: str, snapshot: str) -> bool:
        lineage = [ancestor.id for ancestor in self.table.refresh().ancestors()]
        return position in lineage and snapshot in lineage[lineage.index(position) + 1 :]

    def changes(self, start: str | None, end: str | None, wanted: ChangeFilter) -> DataFrame:
        self.table.refresh_readable()
        first, last = (None if snapshot is None else int(snapshot) for snapshot in (start, end))
        return net_changes(self.table, first, last, wanted).dataframe

    def pin(self, consumer: str, snapshot: str) -> None:
        consumer_tags.pin(self.table, consumer, int(snapshot))

    def advance(self, consumer: str, snapshot: str, *, owner: str, target: str, mode: str) -> None:
        consumer_tags.advance(self.table, consumer, int(snapshot), owner=owner, target=target, mode=mode)

    def compact(self, spec: CompactionSpec, progress: Progress) -> CompactionReport:
        return compact(self.table.refresh_readable(), spec, progress)

    def rewrite_file_lists(self, spec: RewriteManifestsSpec, progress: Progress) -> RewriteManifestsReport:  # type: ignore[override]  # the action is Iceberg's
        return merge_manifests(self.table.refresh_readable(), spec, progress)

    def compute_statistics(self, spec: StatisticsSpec, progress: Progress) -> StatisticsReport:
        return compute_statistics(self.table.refresh_readable(), spec, progress)

    def expire(self, spec: SnapshotExpirySpec, progress: Progress) -> ExpiryReport:
        return expire(self.table, spec, progress)

    def remove_orphans(self, spec: OrphanFilesSpec, progress: Progress) -> OrphanFilesReport:
        return remove_orphans(self.table, spec, progress)

    def change_metadata(self, change: MetadataChange) -> None:
        change_metadata(self.table, change)
