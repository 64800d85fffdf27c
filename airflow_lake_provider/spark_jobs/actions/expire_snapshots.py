"""Expire old snapshots of one table."""

from __future__ import annotations

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import MissingTableError
from airflow_lake_provider.contracts.reports.job import ExpiryReport
from airflow_lake_provider.contracts.specs.snapshot_expiry import SnapshotExpirySpec
from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.progress import Progress


# [START action]
def expire_snapshots(spark: SparkSession, spec: SnapshotExpirySpec, progress: Progress) -> ExpiryReport:
    """Forget old snapshots, delete the files only they reach, and report what was done.

    :raises MissingTableError: the table is not in the catalog.
    """
    table = table_of(spark, spec)
    if not table.exists():
        raise MissingTableError(f"{spec.table}: no such table in catalog {spec.catalog}, so it has no snapshots")
    return table.expire(spec, progress)


# [END action]
