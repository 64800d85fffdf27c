"""Commit a change of metadata that the worker decided on."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.reports.job import MetadataChangeReport
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChangeSpec
from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.progress import Progress


def change_metadata(spark: SparkSession, spec: MetadataChangeSpec, progress: Progress) -> MetadataChangeReport:
    """Make the change and return the report that was planned, with the state read back.

    :raises CommitConflictError: the table is not any more what it was decided on.
    :raises UnknownOutcomeError: the answer to the commit was lost.
    """
    table = table_of(spark, spec)
    with progress.phase("commit"):
        table.change_metadata(spec.change)
    return replace(spec.planned, after=table.state(), seconds=dict(progress.seconds))
