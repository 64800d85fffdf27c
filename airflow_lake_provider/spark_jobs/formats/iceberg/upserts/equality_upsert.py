"""The strategy ``equality``: stage the rows, write the keys as deletes, commit once; no row of the table is looked for.

Equality deletes reach only rows of lower sequence numbers (table spec, "Scan Planning"), so not those of their own
commit. It can be rebased onto a later head as it is: whatever another writer put there under a key of the batch is
older.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from airflow_lake_provider.contracts.commit_retries import CommitRetries
from airflow_lake_provider.contracts.errors import BadInputError, CommitConflictError, UnsupportedError
from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.contracts.reports.commit_counts import counts_to_summary
from airflow_lake_provider.iceberg.owner_settings import DeleteFileSettings
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.commits import seen_after_commit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.new_head import (
    on_new_head,
    reading_base,
    refuse_expired_base,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import RowDelta, commit_row_delta
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import position_properties
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discarded_on_failure
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.write_deletes import delete_file, upload_delete_file
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal, internal
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import ResolvedRows
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.partition_values import keys_by_partition
from airflow_lake_provider.spark_jobs.formats.iceberg.table.strategy_requirements import lacking_internals, unfit_for
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import AppliedUpsert, PlannedUpsert
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.write_upserted_rows import write_upserted_rows
from airflow_lake_provider.spark_jobs.jvm.gateway import java_array
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import rebase_conflicts
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted
from airflow_lake_provider.spark_jobs.sql.older_pyspark import table_at

# Each costs one commit: nothing is read or written again.
_TRIES = 20


def upsert_by_equality(table: IcebergTable, commit: PlannedUpsert, progress: Progress) -> AppliedUpsert:
    """Apply the batch at a cost that does not depend on the table.

    :raises UnsupportedError: equality deletes cannot be written for this table or these keys.
    :raises BadInputError: readers could take a key for another.
    """
    refuse_expired_base(table, commit)
    with reading_base(table, commit):
        refuse_unfit(table, commit)
    written: list[Any] = []
    with discarded_on_failure(table, written), reading_base(table, commit), progress.phase("stage") as facts:
        # A table without rows has none to delete; should it get one meanwhile, the batch is decided on again.
        deletes = write_equality_deletes(table, commit) if commit.base is not None else []
        written += deletes
        rows = write_upserted_rows(table, commit, ResolvedRows())
        written += rows
        staged = sum(int(file.recordCount()) for file in rows)
        facts.update(rows=staged, files=len(written))
    # Rows that are replaced are not looked for.
    counts = {} if deletes else counts_to_summary(rows_inserted=staged, rows_updated=0, rows_deleted=0)
    commit = replace(commit, summary={**commit.summary, **counts})
    with progress.phase("commit") as facts:
        with discarded_on_failure(table, written):
            snapshot = _commit(table, commit, RowDelta(rows=rows, deletes=deletes), progress)
        facts["snapshot"] = str(snapshot)
    applied = AppliedUpsert(
        snapshot=str(snapshot), strategy="equality", strategy_reason="the table has no rows", rows_inserted=staged
    )
    return _indebted(table, snapshot, applied) if deletes else applied


def _commit(table: IcebergTable, commit: PlannedUpsert, delta: RowDelta, progress: Progress) -> int:
    def attempt(on_head: PlannedUpsert, position: dict[str, str]) -> int:
        refuse_expired_base(table, on_head)
        with reading_base(table, on_head):
            refuse_unreached(table, on_head, delta.deletes)
        return commit_row_delta(table, on_head, delta, position)

    with position_properties(table, commit) as position:
        return rebase_conflicts(
            lambda on_head: attempt(on_head, position),
            lambda behind: on_new_head(table, behind)[0],
            commit,
            CommitRetries.of(str(table.name), table.properties(), _TRIES),
            progress,
        )


def _indebted(table: IcebergTable, snapshot: int, applied: AppliedUpsert) -> AppliedUpsert:
    """Add what the table's readers carry from now on."""
    # Not before the commit: what other writers have left meanwhile counts, too.
    debt, unseen = seen_after_commit(
        "how many equality deletes the table carries", lambda: _equality_deletes(table, snapshot)
    )
    carried = "equality deletes" if debt is None else f"{debt[0]:,} equality deletes in {debt[1]:,} files"
    warning = (
        f"the table carries {carried}, and every read compares them with the rows "
        "that are older. PyIceberg, Snowflake and Databricks cannot read it until a compaction has removed them"
    )
    return replace(
        applied,
        strategy_reason="no row was looked for",
        rows_inserted=0,
        counted=False,
        equality_delete_files=None if debt is None else debt[1],
        warnings=(warning, *unseen),
    )


def _equality_deletes(table: IcebergTable, snapshot: int) -> tuple[int, int]:
    """Return the number of keys and of files."""
    keys = count_of(table.summary(snapshot), "total-equality-deletes")
    files = table_at(table.spark, f"{table.sql_name}.delete_files", str(snapshot))
    return keys, int(files.filter("content = 2").count())


_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}
# What a reader makes of bytes that are no UTF-8: keys that differ would be equal.
_REPLACEMENT = "\ufffd"


def write_equality_deletes(table: IcebergTable, commit: PlannedUpsert) -> list[Any]:
    """Write ``DeleteFile`` objects with the keys of all rows, inserts included: nobody looked whether they are there.

    :raises BadInputError: a text key that readers could take for another.
    """
    schema = pa.schema([_arrow_field(field) for field in key_fields(table, commit)])
    parts = [(partition, keys.cast(schema)) for partition, keys in keys_by_partition(table, _keys(table, commit))]
    for _, keys in parts:
        for name in keys.column_names:
            _refuse_ambiguous(name, keys.column(name))
    settings = DeleteFileSettings.of(str(table.name), table.properties())
    written: list[Any] = []
    with discarded_on_failure(table, written):
        for partition, keys in parts:
            written.extend(_write(table, commit, partition, content) for content in _contents(keys, settings))
    return written


def _keys(table: IcebergTable, commit: PlannedUpsert) -> DataFrame:
    """Return the keys under the names, and of the types, that the table has for them; so are the staged rows."""
    of_table = {field.name.lower(): field for field in table.spark.table(table.sql_name).schema}
    fields = [(quoted(key), of_table[key.lower()]) for key in commit.keys]
    return commit.rows.select(*(value.cast(field.dataType).alias(field.name) for value, field in fields))


def _arrow_field(field: Any) -> pa.Field:
    kind = field.type()
    arrow = _TYPES.get(str(kind)) or pa.decimal128(int(kind.precision()), int(kind.scale()))
    return pa.field(str(field.name()), arrow, False, metadata={"PARQUET:field_id": str(field.fieldId())})


def _refuse_ambiguous(name: str, values: pa.ChunkedArray) -> None:
    if not pa.types.is_string(values.type):
        return
    try:
        values.validate(full=True)
        ambiguous = pc.any(pc.match_substring(values, _REPLACEMENT)).as_py()
    except pa.ArrowInvalid:
        ambiguous = True
    if ambiguous:
        raise BadInputError(
            f"key column {name} has text that is no UTF-8, or the character U+FFFD that stands for it: readers would "
            "take different keys for one. Use strategy='auto'"
        )


def _contents(keys: pa.Table, settings: DeleteFileSettings) -> Iterator[bytes]:
    """Yield files of about the size that they are to have."""
    content = delete_file(keys, settings)
    pieces = min(-(-len(content) // settings.target_bytes), len(keys))
    if pieces <= 1:
        yield content
        return
    rows = -(-len(keys) // pieces)
    for first in range(0, len(keys), rows):
        yield delete_file(keys.slice(first, rows), settings)


def _write(table: IcebergTable, commit: PlannedUpsert, partition: Any, content: bytes) -> Any:
    spec = table.java.spec()
    location = upload_delete_file(table, spec, partition, content)
    field_ids = [int(field.fieldId()) for field in key_fields(table, commit)]
    # Counts and bounds: by them readers leave the file alone where it cannot delete.
    metrics = internal(table.spark, Internal.PARQUET_METRICS).fileMetrics(
        table.java.io().newInputFile(location), table.iceberg.MetricsConfig.forTable(table.java)
    )
    builder = (
        table.iceberg.FileMetadata.deleteFileBuilder(spec)
        .ofEqualityDeletes(java_array(table.spark, "int", field_ids))
        .withFormat(table.iceberg.FileFormat.PARQUET)
        .withPath(location)
        .withFileSizeInBytes(len(content))
        .withMetrics(metrics)
    )
    return (builder.withPartition(partition) if spec.isPartitioned() else builder).build()


# The driver collects them, and every task of a reader holds those of the files that it reads.
MOST_DELETED_KEYS = 2_000_000


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
    if keys > MOST_DELETED_KEYS:
        yield f"{keys} keys are more than the {MOST_DELETED_KEYS} that each reader would have to hold"
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
