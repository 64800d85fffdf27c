"""A snapshot, the source's position and run keys in one commit, made only on the snapshot that it was made for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from airflow_lake_provider.contracts.errors import UnknownOutcomeError
from airflow_lake_provider.contracts.table_facts import MAIN
from airflow_lake_provider.spark_jobs.formats.commits import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_properties import (
    properties_of,
    summary_of,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.conflict_detection import (
    conflict_error,
    refuse_concurrent_commit,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.metadata_swap import swap_metadata
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import delete_locations
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import is_unsent
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


def commit_snapshot(
    table: IcebergTable, commit: DataCommit, position: dict[str, str], update: Callable[[Any], Any]
) -> int:
    """Commit and return the snapshot's id.

    :param position: of ``position_properties``.
    :param update: from the ``org.apache.iceberg.Transaction`` to its ``RowDelta`` or ``OverwriteFiles`` with all files
        and validations; branch, base and summary are added here.
    :raises CommitConflictError: the branch is no longer at ``commit.base``, or the metadata changed; surely nothing of
        this commit is part of the table.
    :raises UnknownOutcomeError: the answer was lost and the snapshot is not on the table, or the table has the snapshot
        but not on the branch; its files are kept.
    """
    transaction = table.refresh().java.newTransaction()
    refuse_concurrent_commit(table, commit)
    try:
        _identified(update(transaction), commit).commit()
        _set_properties(transaction, properties_of(table, commit, position))
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


def _identified(update: Any, commit: DataCommit) -> Any:
    update.toBranch(commit.branch or MAIN)
    if commit.base is not None:
        update.validateFromSnapshot(int(commit.base))
    for name, value in summary_of(commit).items():
        update.set(name, value)
    return update


def _set_properties(transaction: Any, properties: Mapping[str, str]) -> None:
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
