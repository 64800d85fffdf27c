"""Read chosen files of a table as a DataFrame, through Iceberg's internal classes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal, internal, spark_table_cache

# Columns of :func:`table_with_positions`.
FILE = "_lake_file"
POSITION = "_lake_pos"


def table_with_schema(spark: SparkSession, java_table: Any, schema_id: int) -> Any:
    """Return a read-only ``org.apache.iceberg.Table`` whose current schema is one of its earlier ones.

    :param java_table: the table; its metadata at this moment is what the result keeps.
    """
    jvm: Any = spark._jvm
    metadata = java_table.operations().current()
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(metadata)
    return _pinned(spark, java_table, builder.setCurrentSchema(schema_id))


def table_with_positions(spark: SparkSession, java_table: Any) -> Any:
    """Return a read-only table whose rows have :data:`FILE` and :data:`POSITION` as columns, for a :class:`FileScan`.

    Such a scan does not offer Iceberg's metadata columns, and a schema may not use their names. Parquet and Avro are
    read by field id, so that these are filled under other names; ORC's reader compares the whole field.
    """
    jvm: Any = spark._jvm
    metadata = java_table.operations().current()
    reserved = jvm.org.apache.iceberg.MetadataColumns
    places = jvm.java.util.ArrayList()
    for name, column in ((FILE, reserved.FILE_PATH), (POSITION, reserved.ROW_POSITION)):
        places.add(jvm.org.apache.iceberg.types.Types.NestedField.optional(column.fieldId(), name, column.type()))
    schema = jvm.org.apache.iceberg.types.TypeUtil.join(metadata.schema(), jvm.org.apache.iceberg.Schema(places))
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(metadata)
    return _pinned(spark, java_table, builder.setCurrentSchema(schema, metadata.lastColumnId()))


def _pinned(spark: SparkSession, java_table: Any, builder: Any) -> Any:
    jvm: Any = spark._jvm
    operations = internal(spark, Internal.STATIC_OPERATIONS)(builder.build(), java_table.io())
    return jvm.org.apache.iceberg.BaseTable(operations, java_table.name())


class FileScan:
    """A DataFrame over chosen files of a table, with ``_row_id`` and ``_last_updated_sequence_number`` as columns.

    The DataFrame is planned each time it runs, so the choice stays registered in the driver until :meth:`close`.

    :param java_table: its current schema is the one the files are read with, by field id.
    :param tasks: ``org.apache.iceberg.FileScanTask`` objects, at least one; their delete files are applied. A Java list
        is not brought over one by one.
    """

    def __init__(self, spark: SparkSession, java_table: Any, tasks: Iterable[Any]) -> None:
        self._java_table = java_table
        self._id = f"lake_files_{uuid.uuid4().hex}"
        self._cache = spark_table_cache(spark)
        jvm: Any = spark._jvm
        self._task_sets = internal(spark, Internal.TASK_SETS).get()
        chosen = jvm.java.util.ArrayList()
        if isinstance(tasks, JavaObject):
            chosen.addAll(tasks)
        else:
            for task in tasks:
                chosen.add(task)
        self._task_sets.stageTasks(java_table, self._id, chosen)
        self._cache.add(self._id, java_table)
        self.dataframe: DataFrame = spark.read.format("iceberg").load(self._id)

    def close(self) -> None:
        """Forget the choice; the DataFrame can no longer run."""
        self._task_sets.removeTasks(self._java_table, self._id)
        self._cache.remove(self._id)
