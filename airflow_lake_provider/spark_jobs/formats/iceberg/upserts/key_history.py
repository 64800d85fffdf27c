"""Memory of an Iceberg table about keys: rows in its snapshots, and deleted keys in a table beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from pyspark.sql import DataFrame

from airflow_lake_provider.spark_jobs.formats.base import AppliedCommit, KeyedCommit, KeyHistory
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.publish_stage_branch import (
    drop_branch,
    stage_branch_name,
    stage_branches,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts import deleted_keys_table
from airflow_lake_provider.spark_jobs.progress import Progress


@dataclass(frozen=True, kw_only=True)
class IcebergKeyHistory(KeyHistory):
    """Implements ``formats.base.KeyHistory``.

    :param apply: commits to the table once.
    """

    table: IcebergTable
    apply: Callable[[KeyedCommit, Progress], AppliedCommit]

    def rows_then(self, snapshot: str) -> DataFrame | None:
        """Live rows at a snapshot of any age; None where it has expired."""
        return self.table.refresh().rows_then(int(snapshot)) if self.table.exists() else None

    def deleted_keys(self) -> DataFrame | None:
        """Keys that were deleted, from the side table; None without one."""
        return deleted_keys_table.read_deleted_keys(self.table)

    def keep_deleted_keys(self, rows: DataFrame, retention: timedelta) -> None:
        """Add deleted keys to the side table, which is made where it is missing, and remove those that are older."""
        if self.table.exists():
            deleted_keys_table.keep_deleted_keys(self.table, rows, retention)

    def keep_rows(self, commit: KeyedCommit, progress: Progress) -> str:
        """Apply a commit to a snapshot that no branch leads to."""
        branch = stage_branch_name(commit.run_key)
        kept = self.apply(replace(commit, branch=branch), progress).snapshot
        for name in {branch, *stage_branches(self.table.refresh(), commit.run_key)}:
            drop_branch(self.table, name)
        return kept
