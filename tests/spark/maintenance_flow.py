"""Maintenance of the tables of ``maintained_table``, run as the driver runs it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_lake_provider.contracts.reports.job import (
    CompactionReport,
    ExpiryReport,
    OrphanFilesReport,
    RewriteManifestsReport,
)
from airflow_lake_provider.contracts.specs.maintenance import (
    OrphanFilesSpec,
    RewriteManifestsSpec,
    SnapshotExpirySpec,
    StatisticsSpec,
)
from airflow_lake_provider.spark_jobs.actions.maintain_table import (
    compact_table,
    expire_snapshots,
    remove_orphan_files,
    rewrite_file_lists,
)
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.maintained_table import CATALOG, RUN, MaintainedTable

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
REGIONS = ("north", "south", "east", "west")


def compact(table: MaintainedTable, progress: Progress | None = None, **arguments: object) -> CompactionReport:
    return compact_table(table.spark, table.compaction(**arguments), progress or Progress())


def expiry(table: MaintainedTable, **arguments: object) -> SnapshotExpirySpec:
    everything = {"expire_before": datetime.now(UTC) + timedelta(minutes=1), "expire_stage_branches_before": LONG_AGO}
    return SnapshotExpirySpec(catalog=CATALOG, table=table.name, run=RUN, **{**everything, **arguments})  # type: ignore[arg-type]  # as kwargs


def expire(table: MaintainedTable, **arguments: object) -> ExpiryReport:
    return expire_snapshots(table.spark, expiry(table, **arguments), Progress())


def rewrite_of_manifests(table: MaintainedTable, **arguments: Any) -> RewriteManifestsSpec:
    return RewriteManifestsSpec(catalog=CATALOG, table=table.name, run=RUN, **arguments)


def rewrite_manifests(
    table: MaintainedTable, progress: Progress | None = None, **arguments: Any
) -> RewriteManifestsReport:
    report = rewrite_file_lists(table.spark, rewrite_of_manifests(table, **arguments), progress or Progress())
    assert isinstance(report, RewriteManifestsReport)
    return report


def statistics(table: MaintainedTable, **arguments: Any) -> StatisticsSpec:
    spec = StatisticsSpec.from_mapping({"table": table.name, **arguments})
    return spec.framed({"catalog": CATALOG, "table_format": "iceberg", "run": RUN})


def remove_orphans(table: MaintainedTable, progress: Progress | None = None, **arguments: object) -> OrphanFilesReport:
    """Delete orphan files however many they are, unless the arguments say otherwise."""
    given = {"mode": "delete", "max_share": 1.0, "tables_checked": 1, "asked_at": datetime.now(UTC), **arguments}
    spec = OrphanFilesSpec(catalog=CATALOG, table=table.name, run=RUN, **given)  # type: ignore[arg-type]  # as kwargs
    return remove_orphan_files(table.spark, spec, progress or Progress())


def snapshots(table: MaintainedTable) -> list[str]:
    """Ids by PyIceberg, oldest first."""
    found = sorted(table.outside().metadata.snapshots, key=lambda s: s.sequence_number or 0)
    return [str(s.snapshot_id) for s in found]


def with_six_files_and_deletes(table: MaintainedTable) -> MaintainedTable:
    for place in range(6):
        table.append(place * 100, 100, region="north" if place % 2 else "south")
    table.delete([1, 2, 3, 101, 102])
    table.merge({10: -1, 110: -2, 510: -3})
    return table


def with_four_regions(table: MaintainedTable) -> MaintainedTable:
    for place, region in enumerate(REGIONS):
        table.append(place * 100, 50, region)
        table.append(place * 100 + 50, 50, region)
    return table


def with_three_appends(table: MaintainedTable) -> MaintainedTable:
    for place in range(3):
        table.append(place * 10, 10)
    return table
