"""Publish a stage branch: main moves to its snapshot, with position and run keys, in one compare-and-swap."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_lake_provider.contracts.applied.run_key import WHO_DIGITS
from airflow_lake_provider.contracts.commit_retries import CommitRetries
from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.table_facts import MAIN
from airflow_lake_provider.contracts.table_properties import AUDIT_BRANCH_PREFIX, STAGE_BRANCH_PREFIX
from airflow_lake_provider.spark_jobs.formats.commits import LoadCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.metadata_swap import (
    refuse_concurrent_commit,
    swap_metadata,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import properties_of
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import is_conflict
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import say

# Property-only commits of others (a consumer's tag, a policy) make the swap fail without being a conflict.
_SWAP_TRIES = 20
_DAY = 24 * 60 * 60 * 1000
KEPT_AUDIT_DAYS = 7


def stage_branch_name(run_key: str) -> str:
    """Return a name that no other attempt, of this run or another, has."""
    return f"{STAGE_BRANCH_PREFIX}{run_key}_{secrets.token_hex(4)}"


def publish(table: IcebergTable, commit: LoadCommit, stage: str, staged: int, position: dict[str, str]) -> None:
    """Move the branch of ``commit`` to the staged snapshot while it still is at the base.

    :param position: of ``position_properties``.
    :raises CommitConflictError: the branch moved past the base, or the staged snapshot was expired; nothing changed.
    :raises UnknownOutcomeError: the swap's answer was lost and the branch has not got the snapshot.
    """

    def published(builder: Any) -> None:
        refuse_concurrent_commit(table, commit)
        builder.setBranchSnapshot(staged, commit.branch or MAIN)
        for name in _superseded(table, commit, stage):
            builder.removeRef(name)
        properties = properties_of(table, commit, position)
        if properties:
            builder.setProperties(properties)

    _swap(table, commit, staged, published)


def retain_for_inspection(table: IcebergTable, commit: LoadCommit, stage: str, staged: int) -> str:
    """Put the staged snapshot on the branch of the run's failed audits in place of an older one, and return its name.

    The branch has an age at which an expiry of any Iceberg engine removes it.
    """
    kept = AUDIT_BRANCH_PREFIX + commit.run_key

    def moved(builder: Any) -> None:
        for name in {stage, *_superseded(table, commit, stage)} - {kept}:
            builder.removeRef(name)
        reference = table.iceberg.SnapshotRef
        builder.setRef(kept, reference.branchBuilder(staged).maxRefAgeMs(KEPT_AUDIT_DAYS * _DAY).build())

    _swap(table, replace(commit, branch=kept), staged, moved)
    return kept


def drop_branch(table: IcebergTable, name: str) -> None:
    """Remove a branch that is of no use; its snapshots go with the next expiry, a broken one at once."""
    # Only a branch whose commit was refused is dropped; one of unknown fate stays for expiry.
    head = table.refresh().head(name)
    try:
        table.java.manageSnapshots().removeBranch(name).commit()
    except Exception as error:
        if not (is_conflict(error) or "Branch does not exist" in str(error)):
            raise
    if head is not None:
        _forget_broken(table, head)


def _forget_broken(table: IcebergTable, snapshot: int) -> None:
    """Forget a snapshot without a ref whose manifest list is gone, as no expiry can read it.

    A MERGE leaves one where the answer to its commit was lost, see ``with_commit_status_check``: its table is
    Spark's own.
    """
    for _ in CommitRetries.of(str(table.name), table.properties(), _SWAP_TRIES).attempts(say):
        operations = table.refresh().java.operations()
        current = operations.current()
        there = current.snapshot(snapshot)
        is_named = any(table.head(ref) == snapshot for ref in table.facts.references)
        if there is None or is_named or table.java.io().newInputFile(there.manifestListLocation()).exists():
            return
        try:
            # As a set: a list would be taken for snapshots.
            builder = table.iceberg.TableMetadata.buildFrom(current).removeSnapshots({snapshot})
            operations.commit(current, builder.build())
        except Exception as error:
            if not is_conflict(error):
                raise


def _swap(table: IcebergTable, commit: LoadCommit, staged: int, change: Callable[[Any], None]) -> None:
    metadata = table.iceberg.TableMetadata
    retries = CommitRetries.of(str(table.name), table.properties(), _SWAP_TRIES)
    for _ in retries.attempts(say):
        current = table.refresh().java.operations().current()
        if current.snapshot(staged) is None:
            raise CommitConflictError(f"{table.name}: snapshot {staged} was expired before it was published")
        builder = metadata.buildFrom(current)
        change(builder)
        try:
            swap_metadata(table, commit, staged, current, builder.build())
            return
        except CommitConflictError:
            continue
    raise CommitConflictError(f"{table.name}: the metadata changed {retries.tries} times while it was being committed")


def _superseded(table: IcebergTable, commit: LoadCommit, stage: str) -> list[str]:
    """Return the branches that are of no use once the staged snapshot is published."""
    stages = stage_branches(table, commit.run_key)
    return [*stages, *_failed_audits(table, commit)] if commit.branch is None else list({stage, *stages})


def stage_branches(table: IcebergTable, run_key: str) -> list[str]:
    """Return the stage branches of a run: also those that tries before this one could not remove."""
    return [name for name in table.facts.references if name.startswith(f"{STAGE_BRANCH_PREFIX}{run_key}_")]


def _failed_audits(table: IcebergTable, commit: LoadCommit) -> list[str]:
    """Return the branches that failed audits of the same run have left, whatever its input was."""
    run = AUDIT_BRANCH_PREFIX + commit.run_key[:WHO_DIGITS]
    return [name for name in table.facts.references if name.startswith(run)]
