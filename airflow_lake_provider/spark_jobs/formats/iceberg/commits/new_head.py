"""Put a pending commit onto a head that another writer moved, or refuse it: the batch is then decided on again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from airflow_lake_provider.contracts.applied.run_key import WHO_DIGITS, RecentRunKeys
from airflow_lake_provider.contracts.applied.source_position import SourcePosition, moved_sources
from airflow_lake_provider.contracts.errors import CommitConflictError, LakeProviderError
from airflow_lake_provider.contracts.table_facts import MAIN, Snapshot
from airflow_lake_provider.contracts.table_properties import RUN_KEY
from airflow_lake_provider.spark_jobs.formats.commits import LoadCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.metadata_swap import refuse_other_shape
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import refuse_other_names
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import read_position
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import texts_of

C = TypeVar("C", bound=LoadCommit)


def on_new_head(table: IcebergTable, commit: C) -> tuple[C, list[str]]:
    """Return the commit on the branch's head, and the operations of the snapshots in between, newest first.

    :return: the same object where the head has not moved.
    :raises CommitConflictError: the batch has to be decided on, or read, again. Another driver has applied it or
        something of the same source, or the table was rolled back. Or the batch depends on what the table held.
    """
    head = table.refresh().base_of(commit.branch)
    refuse_other_shape(table, commit)
    if head == commit.base:
        return commit, []
    # Main also where the branch is not there: the commit that makes it starts there.
    branch = table.origin_of(commit.branch)
    if head is None or commit.base is None:
        raise CommitConflictError(f"{table.name}: {branch} was at {commit.base} and is at {head} now")
    committed = _committed_since(table, commit, branch)
    _refuse_decided_anew(table, commit, branch, [snapshot.summary for snapshot in committed])
    _refuse_read_anew(table, commit)
    return replace(commit, base=head), [_operation_of(table, snapshot) for snapshot in committed]


def _operation_of(table: IcebergTable, snapshot: Snapshot) -> str:
    """Return what a snapshot says that it is, but ``overwrite`` for an append that deletes rows.

    RisingWave commits its delete files as appends, and its summaries do not count them. So the manifests are asked.
    """
    if snapshot.operation != "append":
        return snapshot.operation or ""
    deletes = table.java.snapshot(int(snapshot.id)).deleteManifests(table.java.io())
    added_by = texts_of(table.spark, deletes, java_functions(table.spark).of_manifest("snapshotId", "Long"))
    return "overwrite" if snapshot.id in added_by else "append"


def _refuse_read_anew(table: IcebergTable, commit: LoadCommit) -> None:
    if commit.reads_table:
        raise CommitConflictError(
            f"{table.name}: the batch's rows are, or may be, made of rows that have changed since"
        )
    refuse_other_names(table, commit)


def refuse_expired_base(table: IcebergTable, commit: LoadCommit) -> None:
    """Refuse a commit whose base was expired while the batch was read.

    :raises CommitConflictError: so that the batch is decided on again.
    """
    if commit.base is not None and table.refresh().java.snapshot(int(commit.base)) is None:
        raise CommitConflictError(f"{table.name}: snapshot {commit.base} was expired while the batch was read")


@contextmanager
def reading_base(table: IcebergTable, commit: LoadCommit) -> Iterator[None]:
    """Tell an error of what reads the base from that of an expiry which has removed it meanwhile.

    Never around a commit: its files may be part of the table, and a conflict deletes them.

    :raises CommitConflictError: the base is gone, so that the batch is decided on again.
    """
    try:
        yield
    except LakeProviderError:
        raise
    except Exception:
        refuse_expired_base(table, commit)
        raise


def _refuse_decided_anew(
    table: IcebergTable, commit: LoadCommit, branch: str, committed: list[Mapping[str, str]]
) -> None:
    properties = table.properties()
    is_applied = commit.run_key in table.history().run_keys(RecentRunKeys.read(properties))
    if branch != MAIN:
        is_applied = any(summary.get(RUN_KEY) == commit.run_key for summary in table.summaries(branch))
    for name, position in commit.positions.items() if branch == MAIN else ():
        if not is_applied and SourcePosition.read(properties, name).generation >= position.generation:
            raise CommitConflictError(
                f"{table.name}: another batch of source {name} was applied meanwhile; what is left of this one is "
                "decided on again"
            )
        if commit.counts_rows and _is_counted_elsewhere(table, commit, position, committed):
            raise CommitConflictError(
                f"{table.name}: another source got in between, and may have consumed files of {name}"
            )
    if is_applied:
        raise CommitConflictError(f"{table.name}: another driver of this run has applied this batch")
    if any(summary.get(RUN_KEY, "").startswith(commit.run_key[:WHO_DIGITS]) for summary in committed):
        raise CommitConflictError(f"{table.name}: another driver of this run has applied newer input")


def _is_counted_elsewhere(
    table: IcebergTable, commit: LoadCommit, position: SourcePosition, committed: list[Mapping[str, str]]
) -> bool:
    """Tell whether another name may have consumed, in what was committed, what this commit would count once more."""
    names = {name for summary in committed for name in moved_sources(summary)} - commit.positions.keys()
    if position.generation == 1:
        return bool(names)
    return any(position.shares_files(read_position(table, name)) for name in names)


def _committed_since(table: IcebergTable, commit: LoadCommit, branch: str) -> list[Snapshot]:
    """Return the snapshots after the base, newest first."""
    committed: list[Snapshot] = []
    for snapshot in table.ancestors(branch):
        if snapshot.id == commit.base:
            return committed
        committed.append(snapshot)
    raise CommitConflictError(f"{table.name}: snapshot {commit.base} is no ancestor of {branch} any more")
