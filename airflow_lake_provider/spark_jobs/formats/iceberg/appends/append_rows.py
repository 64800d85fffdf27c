"""Add the rows of a batch, but for those that the table has of late.

Only where rows were compared with those of the table does a commit that adds rows make the batch start over.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from pyspark.sql import DataFrame

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.spark_jobs.formats.commits import AppendCommit, AppliedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.appends.pending_rows import PendingRows
from airflow_lake_provider.spark_jobs.formats.iceberg.appends.recent_files import without_recent_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.new_head import on_new_head
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import Progress

# Of snapshots that add no row.
_ADD_NOTHING = {"replace", "delete"}


def append_rows(table: IcebergTable, commit: AppendCommit, progress: Progress) -> AppliedCommit | None:
    """Commit once; None where there is nothing to commit.

    :raises BadInputError: a required column is NULL, or the input cannot be read.
    :raises InvalidSpecError: an assertion is no query that can be resolved.
    :raises AuditFailedError: rows offend an assertion; main is as it was.
    :raises CommitConflictError: the batch has to be decided on again, or other writers won; main has nothing of it.
    :raises UnknownOutcomeError: the catalog's answer was lost and the run key is not on the table.
    """
    return _PendingAppend(table, commit, progress).apply()


class _PendingAppend(PendingRows[AppendCommit]):
    """Files that add rows."""

    def new_rows(self, stored: DataFrame) -> AbstractContextManager[DataFrame]:
        return without_recent_rows(self.table, self.commit, stored)

    def on_new_head(self, commit: AppendCommit) -> AppendCommit:
        pending, operations = on_new_head(self.table, commit, self.schema_id)
        if commit.unless_among is not None and set(operations) - _ADD_NOTHING:
            raise CommitConflictError(f"{self.table.name}: rows were added since the batch was compared with the table")
        return pending
