"""Iceberg's internal classes, reached through the JVM: the one place that names them.

They are no public API and have changed between releases, so :func:`missing_internals` asks for them before use.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession


class Internal(StrEnum):
    """Classes by full name."""

    TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"
    FILE_COORDINATOR = "org.apache.iceberg.spark.FileRewriteCoordinator"
    TASK_SETS = "org.apache.iceberg.spark.ScanTaskSetManager"
    REWRITE_CATALOG = "org.apache.iceberg.spark.SparkRewriteTableCatalog"
    VALUE_CONVERTER = "org.apache.iceberg.spark.SparkValueConverter"
    STATIC_OPERATIONS = "org.apache.iceberg.StaticTableOperations"
    FILE_SCAN_TASK = "org.apache.iceberg.BaseFileScanTask"
    VECTOR_WRITER = "org.apache.iceberg.deletes.BaseDVFileWriter"
    POSITION_INDEX = "org.apache.iceberg.deletes.PositionDeleteIndex"
    DELETE_LOADER = "org.apache.iceberg.data.BaseDeleteLoader"
    PARQUET_METRICS = "org.apache.iceberg.parquet.ParquetUtil"


# Columns of :func:`table_with_positions`.
FILE = "_lake_file"
POSITION = "_lake_pos"

_STAGING = (Internal.TABLE_CACHE, Internal.FILE_COORDINATOR)
FILE_SCAN = (Internal.TABLE_CACHE, Internal.TASK_SETS, Internal.REWRITE_CATALOG, Internal.STATIC_OPERATIONS)
POSITIONS = (
    *FILE_SCAN,
    Internal.FILE_COORDINATOR,
    Internal.FILE_SCAN_TASK,
    Internal.VECTOR_WRITER,
    Internal.POSITION_INDEX,
    Internal.DELETE_LOADER,
)
COPY_ON_WRITE = (*_STAGING, Internal.TASK_SETS, Internal.REWRITE_CATALOG)
EQUALITY = (*_STAGING, Internal.PARQUET_METRICS, Internal.VALUE_CONVERTER)
ROW_PROOF = (*FILE_SCAN, Internal.FILE_SCAN_TASK)


def missing_internals(spark: SparkSession, names: Iterable[str] = FILE_SCAN) -> list[str]:
    """Return the classes that the runtime jar of this session lacks.

    :param names: full class names.
    """
    return [name for name in names if not _has_class(spark, name)]


def internal(spark: SparkSession, name: Internal) -> Any:
    """Return a class as py4j has it, to be called for an object or asked for static methods."""
    jvm: Any = spark._jvm
    return attrgetter(name)(jvm)


@cache
def _has_class(spark: SparkSession, name: str) -> bool:
    try:
        load_class(spark, name)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() == "ClassNotFoundException":
            return False
        raise
    return True


def load_class(spark: SparkSession, name: str) -> Any:
    """Return the ``java.lang.Class`` of a full name, one of the jars given to the session included."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(name, True, loader)


def spark_table_cache(spark: SparkSession) -> Any:
    """Return Iceberg's ``SparkTableCache``.

    The class has a static ``get()`` beside an instance ``get(String)``; py4j picks one of them by the order in which
    reflection lists them, which is not stable, so the static one is called by reflection.
    """
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    cache_class = load_class(spark, Internal.TABLE_CACHE)
    no_types = gateway.new_array(jvm.java.lang.Class, 0)
    no_values = gateway.new_array(jvm.java.lang.Object, 0)
    return cache_class.getMethod("get", no_types).invoke(None, no_values)


@contextmanager
def closing(closeable: Any) -> Iterator[Iterator[Any]]:
    """Iterate a Java ``CloseableIterable``, which py4j does not take for an iterable, and close it."""

    def items() -> Iterator[Any]:
        iterator = closeable.iterator()
        while iterator.hasNext():
            yield iterator.next()

    try:
        yield items()
    finally:
        closeable.close()


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
