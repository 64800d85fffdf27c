"""What an equality delete can be written for: which key columns, which tables, which partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from airflow_lake_provider.contracts.errors import CommitConflictError, UnsupportedError
from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.internals import EQUALITY, missing_internals
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.equality_partitions import is_supported
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_pruning import known_ranges

# The spec bans floating-point delete columns; Spark has no fixed, time or nanosecond columns, and writes uuid as text.
KEY_TYPES = ("boolean", "int", "long", "date", "timestamp", "timestamptz", "string", "binary", "decimal")
# The driver collects them, and every task of a reader holds those of the files that it reads.
MAX_KEYS = 2_000_000


def refuse_unfit(table: IcebergTable, commit: KeyedCommit) -> None:
    """Refuse what equality deletes cannot be written for, before anything is.

    :raises UnsupportedError: naming what is in the way and what to use instead.
    """
    obstacle = next(_obstacles(table, commit), None)
    if obstacle is not None:
        raise UnsupportedError(f"{table.name}: strategy='equality' is not possible, {obstacle}; use 'auto'")


def refuse_unreached(table: IcebergTable, commit: KeyedCommit, deletes: Sequence[Any]) -> None:
    """Refuse a commit on a base with files of a partition spec that is not that of its deletes.

    A spec changes without a snapshot, and so past every guard of the head.

    :param deletes: ``org.apache.iceberg.DeleteFile`` objects, all of one spec.
    :raises CommitConflictError: so that the batch is decided on again.
    """
    obstacle = _other_specs(table, commit, int(deletes[0].specId())) if deletes else None
    if obstacle is not None:
        raise CommitConflictError(f"{table.name}: {obstacle}")


def key_fields(table: IcebergTable, commit: KeyedCommit) -> list[Any]:
    """Return the ``org.apache.iceberg.types.Types.NestedField`` of each key."""
    schema = table.java.schema()
    return [schema.caseInsensitiveFindField(key) for key in commit.keys]


def _obstacles(table: IcebergTable, commit: KeyedCommit) -> Iterator[str]:
    """Yield what is in the way; each test may lean on those before it."""
    if table.format_version < 2:
        yield "format version 1 has no deletes"
    missing = missing_internals(table.spark, EQUALITY)
    if missing:
        yield f"this Iceberg runtime lacks {', '.join(missing)}"
    if table.properties().get("write.merge.mode") == "copy-on-write":
        yield "the table's write.merge.mode asks for copy-on-write"
    if "encryption.key-id" in table.properties():
        yield "delete files of an encrypted table would be written in plain"
    for field in key_fields(table, commit):
        if str(field.type()).partition("(")[0] not in KEY_TYPES:
            yield f"key column {field.name()} is of type {field.type()}, and keys may be {', '.join(KEY_TYPES)}"
    keys = known_ranges(commit).keys
    if keys > MAX_KEYS:
        yield f"{keys} keys are more than the {MAX_KEYS} that each reader would have to hold"
    partitions = _foreign_partitions(table, commit) or _other_specs(table, commit, int(table.java.spec().specId()))
    if partitions:
        yield partitions


def _foreign_partitions(table: IcebergTable, commit: KeyedCommit) -> str | None:
    """Tell partition fields that a key alone does not decide: the old row may be in any of their partitions."""
    spec = table.java.spec()
    ids = {int(field.fieldId()) for field in key_fields(table, commit)}
    foreign = [field for field in spec.fields() if int(field.sourceId()) not in ids and not field.transform().isVoid()]
    if not foreign:
        return _unknown_transforms(spec)
    names = ", ".join(f"{field.name()} ({table.java.schema().findColumnName(field.sourceId())})" for field in foreign)
    return f"the table is partitioned by {names}, which is not among the keys, and such a delete stays in its partition"


def _unknown_transforms(spec: Any) -> str | None:
    results = spec.partitionType()
    unknown = [f for f in spec.fields() if not is_supported(f, results.field(f.fieldId()).type())]
    return f"partition fields {', '.join(str(f) for f in unknown)} cannot be computed here" if unknown else None


def _other_specs(table: IcebergTable, commit: KeyedCommit, reached: int) -> str | None:
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
