"""Rows of a batch that the table has already: they keep their row ids, so that readers of changes do not see them.

A row with the key of another one keeps its id, and counts as updated. Rows of one key are taken in pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField

from airflow_lake_provider.spark_jobs.batch.row_content import content_digest
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import FileScan
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import ROW_ID
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.write_data_files import LAST_UPDATED
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import texts_of
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted, quoted_name

_NUMBER, _NEW, _OLD = "_lake_number", "_lake_new", "_lake_old"
_DIGEST = ("_lake_digest1", "_lake_digest2")


@contextmanager
def with_row_ids(
    table: IcebergTable, rows: DataFrame, keys: Sequence[str], tasks: Any, where: str | None
) -> Iterator[DataFrame]:
    """Lend the rows with the columns of row lineage, filled where the replaced rows have such a row.

    :param rows: in the columns of the table.
    :param tasks: Java list of the ``org.apache.iceberg.FileScanTask`` of files with rows that are replaced.
    :param where: SQL predicate of these rows; None where all of them are.
    """
    if tasks.isEmpty():
        yield rows
        return
    with closing(FileScan(table.spark, table.java, tasks)) as scan:
        columns = [field.name for field in rows.schema]
        names = [name for name in columns if name.lower() in {key.lower() for key in keys}]
        replaced = scan.dataframe.select(*map(quoted, columns), ROW_ID, LAST_UPDATED)
        replaced = replaced if where is None else replaced.filter(sf.expr(where))
        rest = [field for field in rows.schema if field.name not in names]
        old, new = _numbered(replaced, names, rest).alias(_OLD), _numbered(rows, names, rest).alias(_NEW)
        pairs = new.join(old, _all(_same(name) for name in (*names, _NUMBER)), "left")
        unchanged = _all(_same(name) for name in _DIGEST)
        yield pairs.select(
            *(_of(_NEW, name).alias(name) for name in columns),
            _of(_OLD, ROW_ID).alias(ROW_ID),
            sf.when(unchanged, _of(_OLD, LAST_UPDATED)).alias(LAST_UPDATED),
        )


def identities(table: IcebergTable, tasks: Any) -> frozenset[tuple[str, str]]:
    """Return what tells the rows of files from those of others: their locations, and their deletes.

    :param tasks: Java list of ``org.apache.iceberg.FileScanTask``.
    """
    java = java_functions(table.spark)
    parts = (texts_of(table.spark, tasks, function) for function in (java.location_of_task, java.deletes_of_task))
    return frozenset(zip(*parts, strict=True))


def _numbered(rows: DataFrame, keys: Sequence[str], rest: Sequence[StructField]) -> DataFrame:
    """Number the rows of each key by what else they have, so that equal ones pair in whatever order they come."""
    digest = content_digest([(quoted_name(field.name), field.dataType) for field in rest])
    rows = rows.withColumns(dict(zip(_DIGEST, digest, strict=True)))
    return rows.withColumn(_NUMBER, sf.row_number().over(Window.partitionBy(*map(quoted, keys)).orderBy(*_DIGEST)))


def _same(name: str) -> Column:
    return _of(_NEW, name).eqNullSafe(_of(_OLD, name))


def _of(side: str, name: str) -> Column:
    return sf.col(f"{side}.`{name.replace('`', '``')}`")


def _all(conditions: Iterator[Column]) -> Column:
    return reduce(Column.__and__, conditions, sf.lit(True))
