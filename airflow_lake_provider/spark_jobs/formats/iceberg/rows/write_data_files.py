"""Write data files of a table by Iceberg's own Spark writer, without a commit; NULL in a required column is refused."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal, internal, spark_table_cache
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.fit_rows import refusing_misfits
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, java_causes
from airflow_lake_provider.spark_jobs.sql.identifiers import field_of, quoted_name

LAST_UPDATED = "_last_updated_sequence_number"


def write_staged(table: IcebergTable, rows: DataFrame, options: Mapping[str, str] | None = None) -> list[Any]:
    """Write rows as data files of the table, without a commit.

    :param rows: columns of the table and, in format version 3, of its row lineage.
    :param options: of Iceberg's Spark writer.
    :return: ``org.apache.iceberg.DataFile`` objects.
    :raises BadInputError: a required column, or a required field inside one, is NULL, or a value is none of its column.
    """
    name = f"lake_stage_{uuid.uuid4().hex}"
    cache = spark_table_cache(table.spark)
    coordinator = internal(table.spark, Internal.FILE_COORDINATOR).get()
    cache.add(name, table.java)
    try:
        # The writer of Iceberg's rewrites: distribution, sort order, file size and format are the table's.
        with refusing_misfits(table), refusing_nulls(table, lambda: rows):
            writer = rows.write.format("iceberg").mode("append").options(**options or {})
            writer.option("rewritten-file-scan-task-set-id", name).save(name)
        return list(JavaItems(table.spark, coordinator.fetchNewFiles(table.java, name)))
    finally:
        coordinator.clearRewrite(table.java, name)
        cache.remove(name)


# The second is that of Spark 3.5.
_ABOUT_NULL = ("NOT_NULL_ASSERT_VIOLATION", "Null value appeared in non-nullable field")


@contextmanager
def refusing_nulls(table: IcebergTable, written: Callable[[], DataFrame]) -> Iterator[None]:
    """Turn Spark's error about NULL in a required column into one that counts the rows, which is one job more.

    :param written: the rows that were to be written, in the table's columns.
    :raises BadInputError: naming each column or nested field, and in how many rows it is NULL.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        if not _is_about_null(error):
            raise
        conditions = dict(_null_conditions(table.schema()))
        counts = [sf.count_if(sf.expr(condition)).alias(str(i)) for i, condition in enumerate(conditions.values())]
        row = written().agg(*counts).collect()[0] if counts else ()
        nulls = {name: count for name, count in zip(conditions, row, strict=True) if count}
        raise BadInputError(
            f"{table.name}: required columns would become NULL, in so many rows: {nulls}. Fill them in the source, "
            "leave these rows out in a Query, or let the table take NULL with ALTER TABLE ... ALTER COLUMN ... DROP "
            "NOT NULL"
        ) from error


def _is_about_null(error: Exception) -> bool:
    messages = [str(error), *(message for _, message in java_causes(error))]
    return any(sign in message for message in messages for sign in _ABOUT_NULL)


def _null_conditions(columns: StructType) -> Iterator[tuple[str, str]]:
    """Yield the path of each value that is required, and SQL that is true where it is NULL."""
    for field in columns:
        value = quoted_name(field.name)
        if not field.nullable:
            yield field.name, f"{value} IS NULL"
        yield from _inside(value, field.dataType, field.name)


def _inside(value: str, kind: DataType, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    match kind:
        case StructType():
            for field in kind:
                name, inner = f"{path}.{field.name}", field_of(value, field.name)
                if not field.nullable:
                    yield name, f"({value} IS NOT NULL AND {inner} IS NULL)"
                yield from _inside(inner, field.dataType, name, depth)
        case ArrayType():
            yield from _among(value, kind.elementType, kind.containsNull, f"{path}.element", depth)
        case MapType():
            yield from _among(f"map_values({value})", kind.valueType, kind.valueContainsNull, f"{path}.value", depth)
            yield from _among(f"map_keys({value})", kind.keyType, True, f"{path}.key", depth)


def _among(values: str, kind: DataType, may_be_null: bool, path: str, depth: int) -> Iterator[tuple[str, str]]:
    item = f"lake_item{depth}"
    if not may_be_null:
        yield path, f"exists({values}, {item} -> {item} IS NULL)"
    for name, condition in _inside(item, kind, path, depth + 1):
        yield name, f"exists({values}, {item} -> {condition})"
