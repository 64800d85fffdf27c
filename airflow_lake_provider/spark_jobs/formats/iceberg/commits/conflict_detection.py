"""Detect that another writer committed first: by the head before a commit, by Iceberg's refusal of it."""

from __future__ import annotations

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.table_facts import MAIN
from airflow_lake_provider.spark_jobs.formats.commits import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import conflict_message
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


def refuse_concurrent_commit(table: IcebergTable, commit: DataCommit) -> None:
    """Refuse a commit whose branch is no longer where it was decided on.

    :raises CommitConflictError: with both snapshots.
    """
    head = table.base_of(commit.branch)
    if head != commit.base:
        raise CommitConflictError(
            f"{table.name}: commit refused, {commit.branch or MAIN} was at snapshot {commit.base} and is at {head} "
            "now. No data changed."
        )


def conflict_error(table: IcebergTable, commit: DataCommit, error: Exception) -> Exception:
    """Return the conflict that an error of Iceberg means, or the error itself when it means none."""
    message = conflict_message(error)
    if message is None:
        return error
    return CommitConflictError(f"{table.name}: commit on snapshot {commit.base} refused: {message}. No data changed.")
