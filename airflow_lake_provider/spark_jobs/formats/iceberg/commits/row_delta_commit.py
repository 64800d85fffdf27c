"""Rows and the deletes of those that they replace in one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_lake_provider.spark_jobs.formats.commits import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import commit_snapshot
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, list_of_texts


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
    if delta.referenced:
        row_delta.validateDataFilesExist(list_of_texts(table.spark, delta.referenced))
    row_delta.validateDeletedFiles()
    row_delta.validateNoConflictingDataFiles().validateNoConflictingDeleteFiles()
    for file in delta.rows:
        row_delta.addRows(file)
    java = java_functions(table.spark)
    _call_with_each(delta.deletes, row_delta, row_delta.addDeletes, java.add_deletes)
    _call_with_each(delta.replaced, row_delta, row_delta.removeDeletes, java.remove_deletes)
    return row_delta


def _call_with_each(files: Sequence[Any], row_delta: Any, call: Callable[[Any], Any], handle: Any) -> None:
    """Call a method of the row delta with each file; with files that Java has listed, in one command.

    :param handle: of the same method, not bound.
    """
    if isinstance(files, JavaItems) and files:
        files.give_each(handle.bindTo(row_delta))
        return
    for file in files:
        call(file)
