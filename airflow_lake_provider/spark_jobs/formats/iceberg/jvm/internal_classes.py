"""Iceberg's internal classes, reached through the JVM: the one place that names them.

They are no public API and have changed between releases, so :func:`missing_internals` asks for them before use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm.gateway import class_named, has_class, once_a_driver
from airflow_lake_provider.spark_jobs.jvm.method_handles import method_handles


class Internal(StrEnum):
    """Classes by full name."""

    TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"
    FILE_COORDINATOR = "org.apache.iceberg.spark.FileRewriteCoordinator"
    TASK_SETS = "org.apache.iceberg.spark.ScanTaskSetManager"
    REWRITE_CATALOG = "org.apache.iceberg.spark.SparkRewriteTableCatalog"
    CACHED_TABLE_CATALOG = "org.apache.iceberg.spark.SparkCachedTableCatalog"
    VALUE_CONVERTER = "org.apache.iceberg.spark.SparkValueConverter"
    STATIC_OPERATIONS = "org.apache.iceberg.StaticTableOperations"
    SCAN_TASK_GROUP = "org.apache.iceberg.BaseScanTaskGroup"
    FILE_SCAN_TASK = "org.apache.iceberg.BaseFileScanTask"
    VECTOR_WRITER = "org.apache.iceberg.deletes.BaseDVFileWriter"
    POSITION_INDEX = "org.apache.iceberg.deletes.PositionDeleteIndex"
    DELETE_LOADER = "org.apache.iceberg.data.BaseDeleteLoader"
    COMMIT_METADATA = "org.apache.iceberg.spark.CommitMetadata"
    CONTENT_FILES = "org.apache.iceberg.ContentFileParser"
    REWRITE_RUNNER = "org.apache.iceberg.actions.FileRewriteRunner"
    PARQUET_METRICS = "org.apache.iceberg.parquet.ParquetUtil"


# The runtime for Spark 3.5 has an older class for the same.
_OLDER: dict[str, tuple[str, ...]] = {Internal.REWRITE_CATALOG: (Internal.CACHED_TABLE_CATALOG,)}
_STAGING = (Internal.TABLE_CACHE, Internal.FILE_COORDINATOR)
FILE_SCAN = (
    Internal.TABLE_CACHE,
    Internal.TASK_SETS,
    Internal.REWRITE_CATALOG,
    Internal.STATIC_OPERATIONS,
    Internal.SCAN_TASK_GROUP,
)
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
ARROW_REWRITE = (Internal.PARQUET_METRICS, Internal.CONTENT_FILES, Internal.REWRITE_RUNNER)
ROW_PROOF = (*FILE_SCAN, Internal.FILE_SCAN_TASK)


def missing_internals(spark: SparkSession, names: Iterable[str] = FILE_SCAN) -> list[str]:
    """Return the classes that the runtime jar of this session lacks."""
    return [name for name in names if not any(has_class(spark, each) for each in (name, *_OLDER.get(name, ())))]


def internal(spark: SparkSession, name: Internal) -> Any:
    """Return a class as py4j has it, to be called for an object or asked for static methods."""
    return class_named(spark, name)


@once_a_driver
def spark_table_cache(spark: SparkSession) -> Any:
    """Return Iceberg's ``SparkTableCache``.

    The class has a static ``get()`` beside an instance ``get(String)``. Of these, py4j picks one by the order in which
    reflection lists them, which is not stable.
    """
    handles = method_handles(spark)
    return handles.call(handles.static(Internal.TABLE_CACHE, "get", Internal.TABLE_CACHE))


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
