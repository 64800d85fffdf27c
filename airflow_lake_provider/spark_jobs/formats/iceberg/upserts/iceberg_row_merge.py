"""Merge rows of an Iceberg table with rows of a batch where both are columns of one DataFrame."""

from __future__ import annotations

from airflow_lake_provider.spark_jobs.batch.change_batch import MARKERS, RESET
from airflow_lake_provider.spark_jobs.batch.row_merge import Name, RowMerge
from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name

# What the columns of the table's row are called beside those of the batch.
OLD = "_lake_old_"


def _of_table(name: str) -> str:
    # In lower case, as Spark compares names.
    return quoted_name(OLD + name.lower())


def row_merge(table: IcebergTable, commit: KeyedCommit, old: Name = _of_table, new: Name = quoted_name) -> RowMerge:
    """Return the expressions of a commit.

    :param old: name of a column of the table to its SQL; ``new``: of the batch.
    """
    return RowMerge(
        merge_engine=commit.merge_engine,
        keys=commit.keys,
        order_by=commit.order_by,
        missing=commit.missing_columns,
        given=[name for name in commit.rows.columns if name not in MARKERS],
        table=table.schema().names,
        old=old,
        new=new,
        resets=RESET in commit.rows.columns,
    )
