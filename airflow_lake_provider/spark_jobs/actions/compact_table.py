"""Compact one table."""

from __future__ import annotations

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import MissingTableError
from airflow_lake_provider.contracts.reports.job import CompactionReport
from airflow_lake_provider.contracts.specs.compaction import CompactionSpec
from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.progress import Progress


def compact_table(spark: SparkSession, spec: CompactionSpec, progress: Progress) -> CompactionReport:
    """Rewrite small files and files with deletes, and report what was done.

    :raises MissingTableError: the table is not in the catalog.
    """
    table = table_of(spark, spec)
    if not table.exists():
        raise MissingTableError(
            f"{spec.table}: no such table in catalog {spec.catalog}, so there is nothing to compact"
        )
    return table.compact(spec, progress)
