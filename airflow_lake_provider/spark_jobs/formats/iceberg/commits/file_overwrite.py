"""Data files in the place of others, in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_lake_provider.spark_jobs.formats.commits import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import commit_snapshot
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


@dataclass(frozen=True, kw_only=True)
class FileOverwrite:
    """Files that a commit adds and removes.

    :param replaced: ``org.apache.iceberg.FileScanTask`` of each data file that goes, at the commit's base.
    :param added: ``org.apache.iceberg.DataFile`` objects.
    """

    replaced: Sequence[Any] = ()
    added: Sequence[Any] = ()


def commit_overwrite(
    table: IcebergTable, commit: DataCommit, overwrite: FileOverwrite, position: dict[str, str]
) -> int:
    """Commit and return the snapshot's id; delete files that are on a replaced file alone go with it.

    :param position: of ``position_properties``.
    :raises CommitConflictError: the branch is no longer at ``commit.base``, or the metadata changed; surely nothing of
        this commit is part of the table.
    :raises UnknownOutcomeError: the answer was lost and the snapshot is not on the table.
    """
    return commit_snapshot(
        table, commit, position, lambda transaction: _replace(transaction.newOverwrite(), table, overwrite)
    )


def _replace(update: Any, table: IcebergTable, overwrite: FileOverwrite) -> Any:
    util = table.iceberg.util
    data_files, delete_files = util.DataFileSet.create(), util.DeleteFileSet.create()
    for task in overwrite.replaced:
        data_files.add(task.file())
        for delete in task.deletes():
            # Iceberg itself removes vectors of removed files, but not version 2's position deletes.
            if util.ContentFileUtil.isFileScoped(delete):
                delete_files.add(delete)
    update.deleteFiles(data_files, delete_files)
    for file in overwrite.added:
        update.addFile(file)
    return update.validateNoConflictingData().validateNoConflictingDeletes()
