"""The rows of chosen data files with their positions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame

from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import (
    FILE,
    POSITION,
    FileScan,
    table_with_positions,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import guava


@contextmanager
def rows_of_files(table: IcebergTable, tasks: Any) -> Iterator[DataFrame | None]:
    """Lend the live rows, with ``_file`` and ``_pos``; None where one of the files is ORC.

    :param tasks: Java list of ``org.apache.iceberg.FileScanTask``, not empty.
    """
    if guava(table.spark).collect.Iterables.any(tasks, java_functions(table.spark).is_task_of_orc):
        yield None
        return
    scan = FileScan(table.spark, table_with_positions(table.spark, table.java), tasks)
    try:
        yield scan.dataframe.withColumnsRenamed({FILE: "_file", POSITION: "_pos"})
    finally:
        scan.close()
