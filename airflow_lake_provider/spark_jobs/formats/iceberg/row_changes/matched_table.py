"""An Iceberg table whose rows are deleted or updated where they match."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.job_report import TableState
from airflow_lake_provider.contracts.run_key import RecentRunKeys
from airflow_lake_provider.contracts.table_obstacles import without_row_changes
from airflow_lake_provider.spark_jobs.formats.base import (
    AppliedCommit,
    AppliedState,
    MatchedCommit,
    RetainedRows,
    RowMatch,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import (
    POSITIONS,
    ROW_PROOF,
    missing_internals,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.row_changes.change_rows import change_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.row_changes.retained_rows import retained_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import Progress


@dataclass
class IcebergMatchedTable:
    """Implements ``formats.base.MatchedTable``."""

    table: IcebergTable

    def state(self) -> TableState:
        """Counts of the newest metadata."""
        return self.table.refresh().state()

    def applied_state(self) -> AppliedState:
        """Read the newest metadata: head and run keys."""
        table = self.table.refresh_readable()
        _refuse(table)
        recent, history = RecentRunKeys.read(table.properties()), table.history()
        return AppliedState(base=table.base_of(None), run_keys=history.run_keys(recent), commits=history.line)

    def schema(self) -> StructType:
        """Columns and types."""
        return self.table.spark.table(self.table.sql_name).schema

    def change(self, commit: MatchedCommit, progress: Progress) -> AppliedCommit | None:
        """Commit once; None when no row matches."""
        return change_rows(self.table, commit, progress)

    def retained(self, match: RowMatch, without: str | None) -> RetainedRows:
        """Look for the rows in every file that a snapshot of the table reaches."""
        return retained_rows(self.table, match, without)


def _refuse(table: IcebergTable) -> None:
    missing = missing_internals(table.spark, {*POSITIONS, *ROW_PROOF})
    lacking = f"this Iceberg runtime lacks {', '.join(missing)}" if missing else None
    why = lacking or without_row_changes(table.format_version, table.properties())
    if why is not None:
        raise UnsupportedError(f"{table.name}: rows cannot be changed by position: {why}")
