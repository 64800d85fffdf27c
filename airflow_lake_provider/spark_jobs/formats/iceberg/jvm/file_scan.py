"""Read chosen files of a table as a DataFrame, through Iceberg's internal classes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.property_values import number_property
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal, internal, spark_table_cache
from airflow_lake_provider.spark_jobs.jvm.gateway import is_java, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_collections import list_of

# Columns of :func:`table_with_positions`.
FILE = "_lake_file"
POSITION = "_lake_pos"
# Column of :func:`table_with_deleted_rows`.
IS_DELETED = "_lake_is_deleted"
# Bytes that Iceberg gives a Spark task at least where it spreads a scan over the cores, and at most by default.
_LEAST_SPLIT = 16 << 20
_DEFAULT_SPLIT = 128 << 20


def table_with_schema(spark: SparkSession, java_table: Any, schema_id: int) -> Any:
    """Return a read-only ``org.apache.iceberg.Table`` whose current schema is one of its earlier ones.

    :param java_table: the table; its metadata at this moment is what the result keeps.
    """
    jvm = jvm_of(spark)
    metadata = java_table.operations().current()
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(metadata)
    return _pinned(spark, java_table, _without_spec(jvm, builder.setCurrentSchema(schema_id)))


def table_at_snapshot(spark: SparkSession, java_table: Any, snapshot_id: int) -> Any:
    """Return a read-only table whose main is at a snapshot.

    A scan of it takes names for what they mean in the current schema. One that names the snapshot takes the schema of
    that time, whose names may have meant other columns (``SnapshotUtil.schemaFor``).
    """
    jvm = jvm_of(spark)
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(java_table.operations().current())
    return _pinned(spark, java_table, builder.setBranchSnapshot(snapshot_id, "main"))


def table_with_positions(spark: SparkSession, java_table: Any) -> Any:
    """Return a read-only table whose rows have :data:`FILE` and :data:`POSITION` as columns, for a :class:`FileScan`.

    Such a scan does not offer Iceberg's metadata columns, and a schema may not use their names. Parquet and Avro are
    read by field id, so that these are filled under other names; ORC's reader compares the whole field.
    """
    return _with_columns(spark, java_table, java_table.operations().current().schema(), _places(spark))


def table_with_deleted_rows(spark: SparkSession, java_table: Any, schema_id: int) -> Any:
    """Return a table with positions that keeps the deleted rows of its files, and marks them in :data:`IS_DELETED`.

    Only Iceberg's vectorised Parquet reader fills the mark by field id. The others look for the whole definition.

    :param schema_id: of the schema that the files are read with.
    """
    schema = java_table.operations().current().schemasById().get(schema_id)
    return _with_columns(spark, java_table, schema, {**_places(spark), IS_DELETED: _metadata_columns(spark).IS_DELETED})


def _places(spark: SparkSession) -> dict[str, Any]:
    reserved = _metadata_columns(spark)
    return {FILE: reserved.FILE_PATH, POSITION: reserved.ROW_POSITION}


def _metadata_columns(spark: SparkSession) -> Any:
    jvm = jvm_of(spark)
    return jvm.org.apache.iceberg.MetadataColumns


def _with_columns(spark: SparkSession, java_table: Any, schema: Any, columns: Mapping[str, Any]) -> Any:
    jvm = jvm_of(spark)
    metadata = java_table.operations().current()
    fields = jvm.java.util.ArrayList()
    for name, column in columns.items():
        fields.add(jvm.org.apache.iceberg.types.Types.NestedField.optional(column.fieldId(), name, column.type()))
    joined = jvm.org.apache.iceberg.types.TypeUtil.join(schema, jvm.org.apache.iceberg.Schema(fields))
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(metadata)
    builder = builder.setCurrentSchema(joined, metadata.lastColumnId())
    is_earlier = schema.schemaId() != metadata.currentSchemaId()
    return _pinned(spark, java_table, _without_spec(jvm, builder) if is_earlier else builder)


def _without_spec(jvm: Any, builder: Any) -> Any:
    """Let metadata have neither partitions nor an order: an earlier schema may lack the columns of those of now.

    Each file is read by the spec that its task brings along.
    """
    iceberg = jvm.org.apache.iceberg
    unsorted = builder.setDefaultPartitionSpec(iceberg.PartitionSpec.unpartitioned())
    return unsorted.setDefaultSortOrder(iceberg.SortOrder.unsorted())


def _pinned(spark: SparkSession, java_table: Any, builder: Any) -> Any:
    jvm = jvm_of(spark)
    operations = internal(spark, Internal.STATIC_OPERATIONS)(builder.build(), java_table.io())
    return jvm.org.apache.iceberg.BaseTable(operations, java_table.name())


def _spread_size(spark: SparkSession, java_table: Any, tasks: Any) -> int:
    """Return the bytes of a split that keep all cores busy, as Iceberg does for the scan of a table.

    Source: ``SparkScan`` and ``SparkReadConf.parallelism`` of Iceberg 1.12, which leave chosen files out.
    """
    properties = java_table.properties()
    target = number_property(str(java_table.name()), properties, "read.split.target-size") or _DEFAULT_SPLIT
    if str(properties.get("read.split.adaptive-size.enabled")).lower() == "false":
        return target
    size = int(internal(spark, Internal.SCAN_TASK_GROUP)(tasks).sizeBytes())
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return min(max(size // max(spark.sparkContext.defaultParallelism, partitions), _LEAST_SPLIT), target)


class FileScan:
    """A DataFrame over chosen files of a table, with ``_row_id`` and ``_last_updated_sequence_number`` as columns.

    The DataFrame is planned each time it runs, so the choice stays registered in the driver until :meth:`close`.

    :param java_table: its current schema is the one the files are read with, by field id.
    :param tasks: ``org.apache.iceberg.FileScanTask`` objects, at least one; their delete files are applied. A Java list
        is not brought over one by one.
    :param options: of Iceberg's Spark reader.
    :param spread: over all cores. Where the rows are written again, each Spark task makes a file, so few are better.
    """

    def __init__(
        self,
        spark: SparkSession,
        java_table: Any,
        tasks: Iterable[Any],
        options: Mapping[str, str] | None = None,
        *,
        spread: bool = True,
    ) -> None:
        self._java_table = java_table
        self._id = f"lake_files_{uuid.uuid4().hex}"
        self._cache = spark_table_cache(spark)
        self._task_sets = internal(spark, Internal.TASK_SETS).get()
        chosen = jvm_of(spark).java.util.ArrayList(tasks) if is_java(tasks) else list_of(spark, tasks)
        self._task_sets.stageTasks(java_table, self._id, chosen)
        self._cache.add(self._id, java_table)
        # The runtime for Spark 3.5 asks for the option, too.
        reader = spark.read.format("iceberg").options(**options or {}).option("scan-task-set-id", self._id)
        if spread:
            reader = reader.option("split-size", _spread_size(spark, java_table, chosen))
        self.dataframe: DataFrame = reader.load(self._id)

    def close(self) -> None:
        """Forget the choice; the DataFrame can no longer run."""
        self._task_sets.removeTasks(self._java_table, self._id)
        self._cache.remove(self._id)
