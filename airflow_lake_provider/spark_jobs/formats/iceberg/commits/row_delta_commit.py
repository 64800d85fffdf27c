"""Rows and the deletes of those that they replace in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_lake_provider.spark_jobs.formats.base import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import commit_snapshot
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


@dataclass(frozen=True, kw_only=True)
class RowDelta:
    """Files that a commit adds and removes: ``org.apache.iceberg`` DataFile and DeleteFile objects.

    :param replaced: delete files that those of ``deletes`` hold everything of.
    :param referenced: paths of the data files of the table that ``deletes`` are on; they may also be on ``rows``.
    """

    rows: Sequence[Any] = ()
    deletes: Sequence[Any] = ()
    replaced: Sequence[Any] = ()
    referenced: Sequence[str] = field(default=(), repr=False)


def commit_row_delta(table: IcebergTable, commit: DataCommit, delta: RowDelta, position: dict[str, str]) -> int:
    """Commit and return the snapshot's id.

    :param position: of ``position_properties``.
    :raises CommitConflictError: the branch is no longer at ``commit.base``, or the metadata changed; surely nothing of
        this commit is part of the table.
    :raises UnknownOutcomeError: the answer was lost and the snapshot is not on the table.
    """
    return commit_snapshot(table, commit, position, lambda transaction: _add(transaction.newRowDelta(), table, delta))


def _add(row_delta: Any, table: IcebergTable, delta: RowDelta) -> Any:
    jvm: Any = table.spark._jvm
    referenced = jvm.java.util.ArrayList()
    for path in delta.referenced:
        referenced.add(path)
    row_delta.validateDataFilesExist(referenced).validateDeletedFiles()
    row_delta.validateNoConflictingDataFiles().validateNoConflictingDeleteFiles()
    for file in delta.rows:
        row_delta.addRows(file)
    for file in delta.deletes:
        row_delta.addDeletes(file)
    for file in delta.replaced:
        row_delta.removeDeletes(file)
    return row_delta
