"""A snapshot, the source's position and run keys in one commit: rows deleted and added by file or by position."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.applied.source_position import positions_in_summary
from airflow_lake_provider.contracts.errors import CommitConflictError, UnknownOutcomeError
from airflow_lake_provider.contracts.table_facts import MAIN
from airflow_lake_provider.contracts.table_properties import ACTION, RUN_KEY, SOURCE_POSITION
from airflow_lake_provider.spark_jobs.formats.commits import DataCommit, LoadCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.metadata_swap import (
    conflict_error,
    refuse_concurrent_commit,
    swap_metadata,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import delete_locations, discard_files
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import is_unsent
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, list_of_texts


def commit_snapshot(
    table: IcebergTable, commit: DataCommit, position: dict[str, str], update: Callable[[Any], Any]
) -> int:
    """Commit and return the snapshot's id.

    :param position: of ``position_properties``.
    :param update: from the ``org.apache.iceberg.Transaction`` to its ``AppendFiles``, ``RowDelta`` or
        ``OverwriteFiles`` with all files and validations; branch and summary are added here.
    :raises CommitConflictError: the branch is no longer at ``commit.base``, or the metadata changed; surely nothing of
        this commit is part of the table.
    :raises UnsupportedError: an overwrite selects rows of a file, and not all of them.
    :raises UnknownOutcomeError: the answer was lost and the snapshot is not on the table, or the table has the snapshot
        but not on the branch. Its files are kept.
    """
    transaction = table.refresh().java.newTransaction()
    refuse_concurrent_commit(table, commit)
    try:
        _make_branch(table, transaction, commit)
        _identified(update(transaction), commit).commit()
        set_properties(transaction, properties_of(table, commit, position))
    except Exception as error:
        raise conflict_error(table, commit, error) from error
    updated = transaction.currentMetadata()
    staged = int(updated.ref(commit.branch or MAIN).snapshotId())
    try:
        swap_metadata(table, commit, staged, transaction.startMetadata(), updated)
    except UnknownOutcomeError:
        raise
    except Exception as refused:
        if not is_unsent(refused) and _may_hold(table, staged):
            # Sent twice: the first went through, and the branch was moved back before the second was refused.
            raise UnknownOutcomeError(
                f"{table.name}: the commit of run key {commit.run_key} was refused, but the table has its snapshot "
                f"{staged}, which {commit.branch or MAIN} was moved away from, or the catalog does not answer. Nothing "
                "was deleted. A retry is safe: it looks for the run key first."
            ) from refused
        with suppress(Exception):
            _delete_manifests(table, updated.snapshot(staged))
        raise
    return staged


def _may_hold(table: IcebergTable, snapshot: int) -> bool:
    """Tell whether the table has a snapshot, or does not answer."""
    try:
        return table.refresh().java.snapshot(snapshot) is not None
    except Exception:  # noqa: BLE001
        return True


def _make_branch(table: IcebergTable, transaction: Any, commit: DataCommit) -> None:
    """Make a branch that is not there yet, at the commit's base.

    Iceberg would make it with the snapshot, whose parent is main's head, and count its totals from 0.
    """
    if commit.branch is not None and commit.base is not None and table.head(commit.branch) is None:
        transaction.manageSnapshots().createBranch(commit.branch, int(commit.base)).commit()


def _identified(update: Any, commit: DataCommit) -> Any:
    update.toBranch(commit.branch or MAIN)
    for name, value in commit_summary(commit).items():
        update.set(name, value)
    return update


def set_properties(transaction: Any, properties: Mapping[str, str]) -> None:
    """Set table properties within an ``org.apache.iceberg.Transaction``."""
    if not properties:
        return
    update = transaction.updateProperties()
    for name, value in properties.items():
        update.set(name, value)
    update.commit()


def _delete_manifests(table: IcebergTable, snapshot: Any) -> None:
    """Delete the manifests and the manifest list that a refused commit has written."""
    written = [str(m.path()) for m in snapshot.allManifests(table.java.io()) if m.snapshotId() == snapshot.snapshotId()]
    delete_locations(table, [*written, str(snapshot.manifestListLocation())])


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
    """Commit as :func:`commit_snapshot` does; delete files that are on a replaced file alone go with it."""
    return commit_snapshot(
        table,
        commit,
        position,
        lambda transaction: _replace(_from_base(transaction.newOverwrite(), commit), table, overwrite),
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


@dataclass(frozen=True, kw_only=True)
class RowDelta:
    """Files that a commit adds and removes: ``org.apache.iceberg`` DataFile and DeleteFile objects.

    :param replaced: delete files that those of ``deletes`` hold everything of.
    :param referenced: paths of the data files of the table that ``deletes`` are on; they may also be on ``rows``.
    :param removed: ``org.apache.iceberg.FileScanTask`` of each data file that goes.
    """

    rows: Sequence[Any] = ()
    deletes: Sequence[Any] = ()
    replaced: Sequence[Any] = ()
    referenced: Sequence[str] = field(default=(), repr=False)
    removed: Sequence[Any] = ()

    @property
    def only_adds(self) -> bool:
        """Tell whether it takes nothing away."""
        return not (self.deletes or self.replaced or self.removed)


@dataclass(frozen=True, kw_only=True)
class PartitionOverwrite(RowDelta):
    """Files that a commit adds in place of whole partitions, and of the deletes in these.

    :param spec_id: of the partition spec of the added files.
    :param where: ``org.apache.iceberg.expressions.Expression`` of the partitions; None for those of the added files.
    """

    spec_id: int
    where: Any = None

    @property
    def only_adds(self) -> bool:
        """False: Iceberg looks for what it takes away."""
        return False

    def update(self, transaction: Any) -> Any:
        """Return the ``ReplacePartitions`` or ``OverwriteFiles`` of a transaction, with all files.

        :raises CommitConflictError: the table has another partition spec by now.
        """
        if int(transaction.startMetadata().defaultSpecId()) != self.spec_id:
            name = transaction.table().name()
            raise CommitConflictError(f"{name}: the partition spec has changed since the files were written")
        if self.where is None:
            update = transaction.newReplacePartitions()
        else:
            update = transaction.newOverwrite().caseSensitive(False).overwriteByRowFilter(self.where)
        for file in self.rows:
            update.addFile(file)
        return update


def commit_row_delta(table: IcebergTable, commit: DataCommit, delta: RowDelta, position: dict[str, str]) -> int:
    """Commit as :func:`commit_snapshot` does."""

    def update(transaction: Any) -> Any:
        if isinstance(delta, PartitionOverwrite):
            refuse_other_names(table, commit)
            overwrite = _from_base(delta.update(transaction), commit)
            return overwrite.validateNoConflictingData().validateNoConflictingDeletes()
        if delta.only_adds:
            return _append(transaction.newAppend(), delta)
        return _add(_from_base(transaction.newRowDelta(), commit), table, delta)

    return commit_snapshot(table, commit, position, update)


def refuse_other_names(table: IcebergTable, commit: DataCommit) -> None:
    """Refuse a commit whose predicate may mean other columns by now.

    :raises CommitConflictError: so that the batch is decided on again.
    """
    if commit.made_for not in (None, table.shape_id):
        raise CommitConflictError(f"{table.name}: the schema has changed since the batch was written")


def _append(append: Any, delta: RowDelta) -> Any:
    for file in delta.rows:
        append.appendFile(file)
    return append


def _from_base(update: Any, commit: DataCommit) -> Any:
    return update if commit.base is None else update.validateFromSnapshot(int(commit.base))


def _add(row_delta: Any, table: IcebergTable, delta: RowDelta) -> Any:
    if delta.referenced:
        row_delta.validateDataFilesExist(list_of_texts(table.spark, delta.referenced))
    row_delta.validateDeletedFiles()
    row_delta.validateNoConflictingDataFiles().validateNoConflictingDeleteFiles()
    for file in delta.rows:
        row_delta.addRows(file)
    for task in delta.removed:
        row_delta.removeRows(task.file())
        for delete in task.deletes():
            if table.iceberg.util.ContentFileUtil.isFileScoped(delete):
                row_delta.removeDeletes(delete)
    java = java_functions(table.spark)
    _call_with_each(delta.deletes, row_delta, row_delta.addDeletes, java.add_deletes)
    _call_with_each(delta.replaced, row_delta, row_delta.removeDeletes, java.remove_deletes)
    return row_delta


def _call_with_each(files: Sequence[Any], row_delta: Any, call: Callable[[Any], Any], handle: Any) -> None:
    """Call a method of the row delta with each file; with files that Java has listed, in one command."""
    if isinstance(files, JavaItems) and files:
        files.give_each(handle.bindTo(row_delta))
        return
    for file in files:
        call(file)


def commit_summary(commit: DataCommit) -> dict[str, str]:
    """Return what goes into the snapshot's summary."""
    identity = {ACTION: commit.action, RUN_KEY: commit.run_key}
    if commit.positions:
        identity[SOURCE_POSITION] = positions_in_summary(commit.positions)
    return {**commit.summary, **identity}


def properties_of(table: IcebergTable, commit: DataCommit, position: dict[str, str]) -> dict[str, str]:
    """Return the properties that appear with a commit to main; run keys go on from those that the table holds now."""
    if commit.branch is not None:
        return {}
    recent = RecentRunKeys.read(table.properties()).add(commit.run_key, datetime.now(UTC))
    return {**commit.properties, **position, **recent.to_properties()}


class CommitRoute:
    """By one commit on the branch itself."""

    @property
    def tries(self) -> int:
        """Number of tries; each costs about as much as what the other commit added."""
        return 20

    def commit_delta(self, table: IcebergTable, commit: LoadCommit, delta: RowDelta, position: dict[str, str]) -> int:
        """Commit and return the snapshot's id.

        :param position: of ``position_properties``.
        :raises CommitConflictError: the branch is no longer at the base; nothing of this is part of it.
        :raises UnknownOutcomeError: the answer was lost and the snapshot is not on the branch.
        """
        return commit_row_delta(table, commit, delta, position)

    def may_go_on(self) -> bool:
        """Tell whether files of a commit that was refused may be committed again."""
        return True

    def discard(self, table: IcebergTable, files: Collection[Any]) -> None:
        """Delete files of a commit that was surely refused."""
        discard_files(table, files)
