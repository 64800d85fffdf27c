"""An Iceberg table whose changes are read."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from airflow_lake_provider.spark_jobs.formats.base import ChangeFilter
from airflow_lake_provider.spark_jobs.formats.iceberg.incremental import consumer_tags
from airflow_lake_provider.spark_jobs.formats.iceberg.incremental.net_changes import net_changes
from airflow_lake_provider.spark_jobs.formats.iceberg.table.filter_pushdown import rows_for_queries
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


@dataclass
class IcebergSourceTable:
    """Implements ``formats.base.SourceTable``."""

    table: IcebergTable

    def exists(self) -> bool:
        """Tell whether the catalog has it now."""
        return self.table.exists()

    def identity(self) -> str:
        """The table's UUID."""
        return self.table.uuid

    def rows(self, snapshot: str) -> DataFrame:
        """Live rows at a snapshot."""
        self.table.refresh_readable()
        return rows_for_queries(self.table, self.table.rows_at(int(snapshot)), int(snapshot))

    def has_passed(self, position: str, snapshot: str) -> bool:
        """Tell whether ``snapshot`` is an ancestor of ``position`` and ``position`` still one of the head."""
        lineage = [str(ancestor.id) for ancestor in self.table.refresh().ancestors()]
        return position in lineage and snapshot in lineage[lineage.index(position) + 1 :]

    def changes(self, start: str | None, end: str | None, wanted: ChangeFilter) -> DataFrame:
        """Rows that differ between two snapshots, with ``_change_type``."""
        self.table.refresh_readable()
        first, last = (None if snapshot is None else int(snapshot) for snapshot in (start, end))
        return net_changes(self.table, first, last, wanted).dataframe

    def pin(self, consumer: str, snapshot: str) -> None:
        """Keep a snapshot from expiry while it is read."""
        consumer_tags.pin(self.table, consumer, int(snapshot))

    def advance(self, consumer: str, snapshot: str, *, owner: str, target: str, mode: str) -> None:
        """Note that a consumer has reached a snapshot, and keep that one from expiry."""
        consumer_tags.advance(self.table, consumer, int(snapshot), owner=owner, target=target, mode=mode)
