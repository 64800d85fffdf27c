"""Maintain a table by what its format does itself: compaction, merged lists of files, expiry, changes of metadata."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import MissingTableError
from airflow_lake_provider.contracts.reports.job import (
    CompactionReport,
    ExpiryReport,
    JobReport,
    MetadataChangeReport,
    OrphanFilesReport,
    StatisticsReport,
)
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import (
    CompactionSpec,
    OrphanFilesSpec,
    SnapshotExpirySpec,
    StatisticsSpec,
)
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChangeSpec
from airflow_lake_provider.spark_jobs.formats.base import FormatTable
from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.formats.commits import state_after_commit
from airflow_lake_provider.spark_jobs.progress import Progress


def compact_table(spark: SparkSession, spec: CompactionSpec, progress: Progress) -> CompactionReport:
    """Rewrite small files and files with deletes, and report what was done.

    :raises MissingTableError: the table is not in the catalog.
    """
    return _existing(spark, spec, "there is nothing to compact").compact(spec, progress)


def rewrite_file_lists(spark: SparkSession, spec: JobSpec, progress: Progress) -> JobReport:
    """Merge the lists that name a table's files, and report what was done.

    :raises MissingTableError: the table is not in the catalog.
    """
    return _existing(spark, spec, "it has no lists of files").rewrite_file_lists(spec, progress)


def compute_statistics(spark: SparkSession, spec: StatisticsSpec, progress: Progress) -> StatisticsReport:
    """Compute statistics that main's head lacks, and report what was done.

    :raises MissingTableError: the table is not in the catalog.
    """
    return _existing(spark, spec, "it has no statistics").compute_statistics(spec, progress)


# [START action]
def expire_snapshots(spark: SparkSession, spec: SnapshotExpirySpec, progress: Progress) -> ExpiryReport:
    """Forget old snapshots, delete the files only they reach, and report what was done.

    :raises MissingTableError: the table is not in the catalog.
    """
    return _existing(spark, spec, "it has no snapshots").expire(spec, progress)


# [END action]


def remove_orphan_files(spark: SparkSession, spec: OrphanFilesSpec, progress: Progress) -> OrphanFilesReport:
    """Find the files of a table that no metadata names, and remove or restore them as asked.

    :raises MissingTableError: the table is not in the catalog.
    """
    return _existing(spark, spec, "no file of it is an orphan").remove_orphans(spec, progress)


def change_metadata(spark: SparkSession, spec: MetadataChangeSpec, progress: Progress) -> MetadataChangeReport:
    """Make the change and return the report that was planned, with the state read back.

    :raises CommitConflictError: the table is not any more what it was decided on.
    :raises UnknownOutcomeError: the answer to the commit was lost.
    """
    table = table_of(spark, spec)
    with progress.phase("commit"):
        table.change_metadata(spec.change)
    after, unseen = state_after_commit(table.state)
    warnings = (*spec.planned.warnings, *unseen)
    return replace(spec.planned, after=after, warnings=warnings, seconds=dict(progress.seconds))


def _existing(spark: SparkSession, spec: JobSpec, so: str) -> FormatTable:
    table = table_of(spark, spec)
    if not table.exists():
        raise MissingTableError(f"{spec.table}: no such table in catalog {spec.catalog}, so {so}")
    return table
