"""Rows, deletes, position and run keys in one commit that lands only on the snapshot that it was made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.spark_jobs.formats.base import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commit_identity import properties_of, refuse_moved, summary_of
from airflow_lake_provider.spark_jobs.formats.iceberg.metadata_swap import conflict_error, swap_metadata
from airflow_lake_provider.spark_jobs.formats.iceberg.table import MAIN, IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.touched_files import delete_locations


@dataclass(frozen=True, kw_only=True)
class RowDelta:
    """What a commit changes: ``org.apache.iceberg`` DataFile and DeleteFile objects.

    :param replaced: delete files that those of ``deletes`` hold everything of.
    :param touched: paths of the data files that ``deletes`` are on.
    """

    rows: Sequence[Any] = ()
    deletes: Sequence[Any] = ()
    replaced: Sequence[Any] = ()
    touched: Sequence[str] = field(default=(), repr=False)


def commit_row_delta(table: IcebergTable, commit: DataCommit, delta: RowDelta, position: dict[str, str]) -> int:
    """Commit and return the snapshot's id.

    :param position: of ``position_property``.
    :raises CommitConflictError: the branch is no longer at ``commit.base``, or the metadata changed; surely nothing of
        this commit is part of the table.
    :raises UnknownOutcomeError: the answer was lost and the snapshot is not on the table.
    """
    transaction = table.refresh().java.newTransaction()
    refuse_moved(table, commit)
    try:
        _add(transaction.newRowDelta(), table, commit, delta).commit()
        _set_properties(transaction, properties_of(table, commit, position))
    except Exception as error:
        raise conflict_error(table, commit, error) from error
    updated = transaction.currentMetadata()
    staged = int(updated.ref(commit.branch or MAIN).snapshotId())
    try:
        swap_metadata(table, commit, staged, transaction.startMetadata(), updated)
    except CommitConflictError:
        if table.refresh().java.snapshot(staged) is None:
            _delete_manifests(table, updated.snapshot(staged))
        raise
    return staged


def _set_properties(transaction: Any, properties: Mapping[str, str]) -> None:
    if not properties:
        return
    update = transaction.updateProperties()
    for name, value in properties.items():
        update.set(name, value)
    update.commit()


def _add(row_delta: Any, table: IcebergTable, commit: DataCommit, delta: RowDelta) -> Any:
    jvm: Any = table.spark._jvm
    row_delta.toBranch(commit.branch or MAIN)
    if commit.base is not None:
        row_delta.validateFromSnapshot(int(commit.base))
    touched = jvm.java.util.ArrayList()
    for path in delta.touched:
        touched.add(path)
    row_delta.validateDataFilesExist(touched).validateDeletedFiles()
    row_delta.validateNoConflictingDataFiles().validateNoConflictingDeleteFiles()
    for file in delta.rows:
        row_delta.addRows(file)
    for file in delta.deletes:
        row_delta.addDeletes(file)
    for file in delta.replaced:
        row_delta.removeDeletes(file)
    for name, value in summary_of(commit).items():
        row_delta.set(name, value)
    return row_delta


def _delete_manifests(table: IcebergTable, snapshot: Any) -> None:
    """Delete the manifests and the manifest list that a refused commit has written."""
    written = [str(m.path()) for m in snapshot.allManifests(table.java.io()) if m.snapshotId() == snapshot.snapshotId()]
    delete_locations(table, [*written, str(snapshot.manifestListLocation())])
