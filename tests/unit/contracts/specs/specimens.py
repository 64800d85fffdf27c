"""A specimen of every spec, in which no field is left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionStrategy
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import Evolution, MissingColumns, SchemaContract
from airflow_lake_provider.contracts.author.sources import Debezium, Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.reports.job import MetadataChangeReport, Outcome
from airflow_lake_provider.contracts.specs.append import AppendSpec, OnChangedInput
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.contracts.specs.maintenance import (
    CompactionSpec,
    OrphanFilesSpec,
    PrefixMismatchMode,
    RemovalMode,
    RewriteManifestsSpec,
    RowExpirySpec,
    SnapshotExpirySpec,
    StatisticsSpec,
)
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange, MetadataChangeSpec, RefMove
from airflow_lake_provider.contracts.specs.overwrite_partitions import OnEmptyBatch, OverwritePartitionsSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.contracts.table_facts import TableState

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
RUN = RunIdentity.of("dag", "run", "task", "-1", run_after=NOW)
BASE: dict[str, Any] = {"catalog": "lake", "table": "shop.orders", "run": RUN}
AUDITS = Audits(queries={"a": "SELECT * FROM audited"})
FILES = Files(path="s3://in/*.parquet", format="parquet", name="s")
EVENTS = Debezium(path="in/*.json", table="public.orders", name="shop.orders")
MAXIMAL: dict[str, JobSpec] = {
    "upsert": UpsertSpec(
        **BASE,
        source=Query(
            "SELECT 1",
            over=Files(path="in/*.csv", format="csv", options={"header": "true"}, schema="id BIGINT"),
            name="s",
        ),
        keys=("id", "line"),
        order_by=("at",),
        delete_when="op = 'D'",
        create=TableLayout(
            partition_by=("days(at)",),
            sort_by=("at",),
            bloom_filter_columns=("id",),
            partition_summary_limit=20,
            properties={"a": "b"},
        ),
        schema_contract=SchemaContract(missing_columns=MissingColumns.KEEP, exclude_columns=("op",)),
        branch="audit",
        on_repeat=OnRepeat.FAIL,
        max_attempts=7,
    ),
    "append": AppendSpec(
        **BASE,
        source=FILES,
        deduplicate_by=("id",),
        deduplicate_against="P3D",
        on_changed_input=OnChangedInput.SKIP,
        create=TableLayout(partition_by=("days(at)",)),
        schema_contract=SchemaContract(missing_columns=MissingColumns.KEEP, exclude_columns=("op",)),
        branch="audit",
        on_repeat=OnRepeat.FAIL,
        max_attempts=7,
    ),
    "overwrite-partitions": OverwritePartitionsSpec(
        **BASE,
        source=FILES,
        where="day = '2026-11-01'",
        allow_rows=True,
        empty=OnEmptyBatch.DELETE,
        keys=("id",),
        deduplicate_by=("id",),
        create=TableLayout(partition_by=("day",)),
        schema_contract=SchemaContract(missing_columns=MissingColumns.KEEP, exclude_columns=("op",)),
        branch="audit",
        on_repeat=OnRepeat.SKIP,
        max_attempts=7,
    ),
    "compaction": CompactionSpec(
        **BASE,
        level=CompactionLevel.MAJOR,
        strategy=CompactionStrategy.ZORDER,
        sort_by=("a", "b"),
        where="id > 3",
        target_file_size=2**30,
        partial_progress=False,
        delete_ratio_threshold=0.5,
    ),
    "expire-rows": RowExpirySpec(**BASE, column="day", keep=timedelta(days=30), before=NOW, asked_at=NOW),
    "compute-statistics": StatisticsSpec(**BASE, of_columns=("id",)),
    "rewrite-manifests": RewriteManifestsSpec(**BASE, sort=True),
    "snapshot-expiry": SnapshotExpirySpec(**BASE, expire_before=NOW, expire_stage_branches_before=NOW, retain_last=3),
    "remove-orphans": OrphanFilesSpec(
        **BASE,
        mode=RemovalMode.RESTORE,
        max_share=0.5,
        prefix_mismatch_mode=PrefixMismatchMode.IGNORE,
        inventory="s3://b/inventory/*.parquet",
        asked_at=NOW,
        tables_checked=7,
    ),
    "incremental": IncrementalSpec(
        **BASE,
        source="shop.lines",
        consumer="revenue",
        keys=("id",),
        to_snapshot="8245678901234567890",
        transform="marts.revenue:rows",
        transform_code="def rows(changes): return changes\n",
        from_snapshot="1",
        create=None,
        schema_contract=SchemaContract(new_columns=Evolution.FREEZE),
    ),
    "delete-rows": DeleteRowsSpec(**BASE, keys_from=FILES, keys=("id",), allow_sql=True, proof=False, max_attempts=2),
    "update-rows": UpdateRowsSpec(**BASE, assignments={"n": "n + 1"}, where="id = 3", allow_sql=True, max_attempts=2),
    "change-metadata": MetadataChangeSpec(
        **BASE,
        change=MetadataChange(
            table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
            expected_refs={"main": "8245678901234567890", "month end": None},
            moved_refs=(RefMove(name="month end", kind="tag", snapshot="8245678901234567890", max_age_ms=1),),
            removed_refs=("load",),
            set_properties={"a": "b"},
            removed_properties=("c",),
            format_version=3,
        ),
        planned=MetadataChangeReport(
            table="shop.orders", outcome=Outcome.DONE, reason="r", source_positions={"s": 1}, after=TableState(rows=1)
        ),
    ),
}
