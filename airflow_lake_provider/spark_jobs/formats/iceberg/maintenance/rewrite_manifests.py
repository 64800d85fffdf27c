"""Merge small manifests, where fewer would be left."""

from __future__ import annotations

from airflow_lake_provider.iceberg.compaction_rules import would_be_fewer
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_status_check import (
    run_action,
    with_commit_status_check,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


def manifests_are_due(table: IcebergTable) -> bool:
    """Tell whether merging would leave fewer manifests."""
    head = table.head()
    return head is not None and would_be_fewer(table.facts, manifest_sizes(table, head))


def rewrite_manifests(table: IcebergTable, summary: dict[str, str]) -> str | None:
    """Merge manifests up to their target size, sorted by partition."""
    return run_action(table, table.java_actions.rewriteManifests(with_commit_status_check(table)), summary)


def manifest_sizes(table: IcebergTable, snapshot_id: int) -> list[list[int]]:
    """Return the sizes of manifests of data files, and of those of delete files, of the partition spec in use."""
    snapshot, io, spec_id = table.java.snapshot(snapshot_id), table.java.io(), table.facts.shape.spec_id
    by_content = (snapshot.dataManifests(io), snapshot.deleteManifests(io))
    return [[each.length() for each in manifests if each.partitionSpecId() == spec_id] for manifests in by_content]
