"""An Iceberg table whose refs, properties and format version are changed."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_lake_provider.contracts.job_report import TableState
from airflow_lake_provider.contracts.metadata_change import MetadataChange
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.metadata_change import change_metadata
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


@dataclass
class IcebergVersionedTable:
    """Implements ``formats.base.VersionedTable``."""

    table: IcebergTable

    def state(self) -> TableState:
        """Counts of the newest metadata."""
        return self.table.refresh().state()

    def change_metadata(self, change: MetadataChange) -> None:
        """Make a change in one commit."""
        change_metadata(self.table, change)
