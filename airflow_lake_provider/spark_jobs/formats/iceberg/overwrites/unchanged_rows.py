"""Rows of a batch that the table has already: they keep their row ids, so that readers of changes do not see them.

A row with the key of another one keeps its id, and counts as updated. Rows of one key are taken in pairs, equal ones
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

from airflow_lake_provider.spark_jobs.batch.row_content import content_digest
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import FileScan
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import ROW_ID
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.write_data_files import LAST_UPDATED
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import texts_of
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted, quoted_name

_IS_NEW, _NUMBER, _IS_EQUAL, _LEFT_OVER = "_lake_is_new", "_lake_number", "_lake_is_equal", "_lake_left_over"
_DIGEST = "_lake_digest"


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
        rest = [(quoted_name(field.name), field.dataType) for field in rows.schema if field.name not in names]
        yield _paired(_with_digest(rows, rest), _with_digest(replaced, rest), names).select(
            *map(quoted, columns), ROW_ID, LAST_UPDATED
        )


def identities(table: IcebergTable, tasks: Any) -> frozenset[tuple[str, str]]:
    """Return what tells the rows of files from those of others: their locations, and their deletes.

    :param tasks: Java list of ``org.apache.iceberg.FileScanTask``.
    """
    java = java_functions(table.spark)
    parts = (texts_of(table.spark, tasks, function) for function in (java.location_of_task, java.deletes_of_task))
    return frozenset(zip(*parts, strict=True))


def _with_digest(rows: DataFrame, rest: Sequence[tuple[str, DataType]]) -> DataFrame:
    return rows.withColumn(_DIGEST, content_digest(rest))


def _paired(new: DataFrame, old: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return new rows with the row id of an old one of their key, and with its last change where both are equal.

    Equal rows are paired first, in whatever order they come; what is left of a key is paired by number.
    """
    by_key = [*map(quoted, keys)]
    old = old.select(*by_key, _DIGEST, ROW_ID, LAST_UPDATED, sf.lit(False).alias(_IS_NEW))
    both = new.withColumn(_IS_NEW, sf.lit(True)).unionByName(old, allowMissingColumns=True)
    both = both.withColumn(_NUMBER, _number(*by_key, _DIGEST, _IS_NEW))
    pair = Window.partitionBy(*by_key, _DIGEST, _NUMBER)
    both = both.withColumn(_IS_EQUAL, sf.count(sf.lit(1)).over(pair) > 1)
    left_over = _number(*by_key, _IS_EQUAL, _IS_NEW)
    both = both.withColumn(_LEFT_OVER, sf.when(~sf.col(_IS_EQUAL), left_over))
    of_pair = [sf.when(sf.col(_IS_EQUAL), sf.col(name)) for name in (_DIGEST, _NUMBER)]
    pair = Window.partitionBy(*by_key, _IS_EQUAL, _LEFT_OVER, *of_pair)
    return both.withColumns(
        {
            ROW_ID: sf.max(ROW_ID).over(pair),
            LAST_UPDATED: sf.when(sf.col(_IS_EQUAL), sf.max(LAST_UPDATED).over(pair)),
        }
    ).filter(_IS_NEW)


def _number(*columns: Any) -> Column:
    return sf.row_number().over(Window.partitionBy(*columns).orderBy(_DIGEST))
