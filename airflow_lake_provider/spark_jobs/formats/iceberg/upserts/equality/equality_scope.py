"""Limits of equality deletes: the key columns, tables and partitions that they can be written for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from airflow_lake_provider.contracts.errors import CommitConflictError, UnsupportedError
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.strategy_requirements import (
    lacking_internals,
    unfit_for,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import PlannedUpsert

# The driver collects them, and every task of a reader holds those of the files that it reads.
MAX_KEYS = 2_000_000


def refuse_unfit(table: IcebergTable, commit: PlannedUpsert) -> None:
    """Refuse what equality deletes cannot be written for, before anything is.

    :raises UnsupportedError: naming what is in the way and what to use instead.
    """
    obstacle = next(_obstacles(table, commit), None)
    if obstacle is not None:
        raise UnsupportedError(f"{table.name}: strategy='equality' is not possible, {obstacle}; use 'auto'")


def refuse_unreached(table: IcebergTable, commit: PlannedUpsert, deletes: Sequence[Any]) -> None:
    """Refuse a commit on a base with files of a partition spec that is not that of its deletes.

    A spec changes without a snapshot, and so past every guard of the head.

    :param deletes: ``org.apache.iceberg.DeleteFile`` objects, all of one spec.
    :raises CommitConflictError: so that the batch is decided on again.
    """
    obstacle = _other_specs(table, commit, int(deletes[0].specId())) if deletes else None
    if obstacle is not None:
        raise CommitConflictError(f"{table.name}: {obstacle}")


def key_fields(table: IcebergTable, commit: PlannedUpsert) -> list[Any]:
    """Return the ``org.apache.iceberg.types.Types.NestedField`` of each key."""
    schema = table.java.schema()
    return [schema.caseInsensitiveFindField(name) for name in commit.keys]


def _obstacles(table: IcebergTable, commit: PlannedUpsert) -> Iterator[str]:
    """Yield what is in the way; each test may lean on those before it."""
    lacking = lacking_internals(table.spark, UpsertStrategy.EQUALITY)
    unfit = lacking or unfit_for(table, UpsertStrategy.EQUALITY, commit.keys)
    if unfit:
        yield unfit
    keys = commit.batch_keys.count
    if keys > MAX_KEYS:
        yield f"{keys} keys are more than the {MAX_KEYS} that each reader would have to hold"
    others = _other_specs(table, commit, table.facts.shape.spec_id)
    if others:
        yield others


def _other_specs(table: IcebergTable, commit: PlannedUpsert, reached: int) -> str | None:
    # A delete of an unpartitioned spec reaches all partitions, but Iceberg's removal of dangling deletes takes it away
    # as soon as its own spec has no data files, rows of other specs or not.
    if commit.base is None:
        return None
    manifests = table.java.snapshot(int(commit.base)).dataManifests(table.java.io())
    live = {int(m.partitionSpecId()) for m in manifests if m.hasAddedFiles() or m.hasExistingFiles()}
    others = sorted(live - {reached})
    if not others:
        return None
    return (
        f"it has data files of partition specs {others} beside the current {reached}, and such a delete stays in its "
        "own; a compaction with level='full' rewrites them"
    )
