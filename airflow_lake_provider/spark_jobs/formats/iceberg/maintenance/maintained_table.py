"""An Iceberg table that is kept small."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_lake_provider.contracts.compaction_spec import CompactionSpec
from airflow_lake_provider.contracts.job_report import CompactionReport, ExpiryReport
from airflow_lake_provider.contracts.snapshot_expiry_spec import SnapshotExpirySpec
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.compaction import compact
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.snapshot_expiry import expire
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import Progress


@dataclass
class IcebergMaintainedTable:
    """Implements ``formats.base.MaintainedTable``."""

    table: IcebergTable

    def exists(self) -> bool:
        """Tell whether the catalog has it now."""
        return self.table.exists()

    def compact(self, spec: CompactionSpec, progress: Progress) -> CompactionReport:
        """Rewrite small files and files with deletes."""
        return compact(self.table.refresh_readable(), spec, progress)

    def expire(self, spec: SnapshotExpirySpec, progress: Progress) -> ExpiryReport:
        """Forget old snapshots and delete the files that only they reach."""
        return expire(self.table, spec, progress)
