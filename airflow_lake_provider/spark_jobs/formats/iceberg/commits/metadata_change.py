"""Commit a change of refs, properties and format version in one compare-and-swap."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from airflow_lake_provider.contracts.commit_retries import CommitRetries
from airflow_lake_provider.contracts.errors import CommitConflictError, UnknownOutcomeError
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange, RefMove
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import conflict_message, is_unknown
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import say

# Commits of others that move none of the expected refs make the swap fail without being a conflict.
_SWAP_TRIES = 20


def change_metadata(table: IcebergTable, change: MetadataChange) -> None:
    """Make a change while its refs are where they are expected.

    :raises CommitConflictError: one of them moved; nothing changed.
    :raises UnknownOutcomeError: the answer to the commit was lost, and the table is not as the change leaves it.
    """
    retries = CommitRetries.of(str(table.name), table.properties(), _SWAP_TRIES)
    for _ in retries.attempts(say):
        current = table.refresh().java.operations().current()
        if _was_made(table, change):
            return
        change.refuse_other_state(str(table.name), table.uuid, table.facts.heads())
        try:
            table.java.operations().commit(current, _changed(table, current, change))
        except Exception as error:
            message = conflict_message(error)
            if message is None and not is_unknown(error):
                raise
            # What was sent twice is refused the second time because the first went through.
            if _is_made(table, change):
                return
            if message is None:
                raise UnknownOutcomeError(
                    f"{table.name}: the catalog's answer to the commit was lost. A retry is safe: it looks at the "
                    "table first."
                ) from error
        else:
            # It was made; what is read next asks the catalog again.
            with suppress(Exception):
                table.refresh()
            return
    raise CommitConflictError(f"{table.name}: the metadata changed {retries.tries} times while it was being committed")


def _was_made(table: IcebergTable, change: MetadataChange) -> bool:
    """Tell whether an earlier try has made the change: a cluster starts a driver that died with what it was sent."""
    heads = table.facts.heads()
    is_elsewhere = any(heads.get(name) != expected for name, expected in change.expected_refs.items())
    return is_elsewhere and change.is_made(table.facts) and table.uuid == change.table_uuid


def _is_made(table: IcebergTable, change: MetadataChange) -> bool:
    table.refresh()
    return change.is_made(table.facts)


def _changed(table: IcebergTable, current: Any, change: MetadataChange) -> Any:
    """Return the ``org.apache.iceberg.TableMetadata`` to commit."""
    builder = table.iceberg.TableMetadata.buildFrom(current)
    if change.format_version is not None:
        builder.upgradeFormatVersion(change.format_version)
    for move in change.moved_refs:
        builder.setRef(move.name, _reference(table, current.refs().get(move.name), move))
    for name in change.removed_refs:
        builder.removeRef(name)
    if change.set_properties:
        builder.setProperties(change.set_properties)
    if change.removed_properties:
        builder.removeProperties(set(change.removed_properties))
    return builder.build()


def _reference(table: IcebergTable, there: Any, move: RefMove) -> Any:
    """Return a ref at its new snapshot; one that is there keeps its retention."""
    reference, snapshot = table.iceberg.SnapshotRef, int(move.snapshot)
    if there is not None:
        builder = reference.builderFrom(there, snapshot)
    else:
        builder = reference.tagBuilder(snapshot) if move.kind == "tag" else reference.branchBuilder(snapshot)
    if move.max_age_ms is not None:
        builder.maxRefAgeMs(move.max_age_ms)
    return builder.build()
