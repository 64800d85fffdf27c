"""Rows, deletes, position and run keys in one commit that lands only on the metadata that it was made for.

Iceberg's transaction builds the snapshot; its own ``commitTransaction`` would rebase over any foreign commit that its
validations allow, and would delete its manifests when a catalog reports as refused what has landed. So the metadata it
built is swapped in here, by one compare-and-swap. A REST catalog gets the same guard as a requirement on the branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commit_errors import conflict_message, is_unknown
from airflow_lake_provider.spark_jobs.formats.iceberg.commit_identity import properties_of, settle, summary_of
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


def commit_row_delta(table: IcebergTable, commit: KeyedCommit, delta: RowDelta, position: dict[str, str]) -> int:
    """Commit and return the snapshot's id.

    :param position: property of the source's position, set on main.
    :raises CommitConflictError: the branch is no longer at ``commit.base``, or the metadata changed; surely nothing of
        this commit is part of the table.
    :raises UnknownOutcomeError: the answer was lost and the snapshot is not on the table.
    """
    branch = commit.branch or MAIN
    transaction = table.refresh().java.newTransaction()
    _refuse_moved(table, branch, commit)
    try:
        _add(transaction.newRowDelta(), table, commit, delta).commit()
        _set_properties(transaction, table, commit, branch, position)
    except Exception as error:
        raise _conflict(table, commit, error) from error
    staged = int(transaction.currentMetadata().ref(branch).snapshotId())
    try:
        _swap(table, transaction)
    except Exception as error:
        if is_unknown(error):
            settle(table, branch, staged, commit, error)
            return staged
        conflict = _conflict(table, commit, error)
        # A driver of a database, or a proxy, may have sent it twice: the second is refused because the first landed.
        if table.refresh().java.snapshot(staged) is not None:
            return staged
        _delete_manifests(table, transaction, staged)
        raise conflict from error
    table.refresh()
    return staged


def _swap(table: IcebergTable, transaction: Any) -> None:
    table.java.operations().commit(transaction.startMetadata(), transaction.currentMetadata())


def _refuse_moved(table: IcebergTable, branch: str, commit: KeyedCommit) -> None:
    head = table.head(branch)
    if head is None and branch != MAIN:
        head = table.head()
    if (str(head) if head is not None else None) != commit.base:
        raise CommitConflictError(
            f"{table.name}: commit refused, {branch} was at snapshot {commit.base} and is at {head} now. "
            "No data changed; the task can be retried."
        )


def _conflict(table: IcebergTable, commit: KeyedCommit, error: Exception) -> Exception:
    message = conflict_message(error)
    if message is None:
        return error
    return CommitConflictError(
        f"{table.name}: commit on snapshot {commit.base} refused: {message}. No data changed; the task can be retried."
    )


def _set_properties(
    transaction: Any, table: IcebergTable, commit: KeyedCommit, branch: str, position: dict[str, str]
) -> None:
    if branch != MAIN:
        return
    update = transaction.updateProperties()
    for name, value in properties_of(table, commit, position).items():
        update.set(name, value)
    update.commit()


def _add(row_delta: Any, table: IcebergTable, commit: KeyedCommit, delta: RowDelta) -> Any:
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


def _delete_manifests(table: IcebergTable, transaction: Any, staged: int) -> None:
    """Delete the manifests and the manifest list that a refused commit has written."""
    io = table.java.io()
    snapshot = transaction.currentMetadata().snapshot(staged)
    written = [str(m.path()) for m in snapshot.allManifests(io) if int(m.snapshotId()) == staged]
    delete_locations(table, [*written, str(snapshot.manifestListLocation())])
