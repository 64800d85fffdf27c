"""Equality deletes: Parquet files with keys, which delete every older row that has one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from airflow_lake_provider.contracts.delete_file_settings import DeleteFileSettings
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discarded_on_failure
from airflow_lake_provider.spark_jobs.formats.iceberg.deletes.delete_file_upload import delete_file, upload_delete_file
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal, internal
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.partition_values import keys_by_partition
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.equality.equality_scope import key_fields
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import PlannedUpsert
from airflow_lake_provider.spark_jobs.jvm.gateway import java_array
from airflow_lake_provider.spark_jobs.sql.columns import quoted

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
    """Write the keys of all rows of the batch, inserts included: nobody looked whether they are there.

    :return: ``org.apache.iceberg.DeleteFile`` objects.
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
    builder = (
        table.iceberg.FileMetadata.deleteFileBuilder(spec)
        .ofEqualityDeletes(_field_ids(table, commit))
        .withFormat(table.iceberg.FileFormat.PARQUET)
        .withPath(location)
        .withFileSizeInBytes(len(content))
        .withMetrics(_metrics(table, location))
    )
    return (builder.withPartition(partition) if spec.isPartitioned() else builder).build()


def _metrics(table: IcebergTable, location: str) -> Any:
    """Return counts and bounds: by them readers leave the file alone where it cannot delete."""
    return internal(table.spark, Internal.PARQUET_METRICS).fileMetrics(
        table.java.io().newInputFile(location), table.iceberg.MetricsConfig.forTable(table.java)
    )


def _field_ids(table: IcebergTable, commit: PlannedUpsert) -> Any:
    return java_array(table.spark, "int", [int(field.fieldId()) for field in key_fields(table, commit)])
