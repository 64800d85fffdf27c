"""Run the action that a spec asks for."""

from __future__ import annotations

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.capabilities import declared_format
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.specs.compaction import CompactionSpec
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChangeSpec
from airflow_lake_provider.contracts.specs.rewrite_manifests import RewriteManifestsSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.snapshot_expiry import SnapshotExpirySpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.failures.broken_tables import lake_errors
from airflow_lake_provider.spark_jobs.progress import Progress


def dispatch_action(spark: SparkSession, spec: JobSpec, progress: Progress) -> JobReport:
    """Carry out a spec.

    :raises UnsupportedError: the table's format is not known, or cannot do what the spec asks.
    :raises LakeProviderError: what the action refuses, and errors of Java.
    """
    spec.refuse_for(declared_format(spec.table_format))
    # Before the first phase, tables and plans are looked at, which takes a cold JVM its time.
    progress.say(f"{spec.action} of {spec.table} ...")
    with lake_errors(f"table {spec.table} in {spec.catalog}", lambda: _properties(spark, spec)):
        return _carry_out(spark, spec, progress)


def _properties(spark: SparkSession, spec: JobSpec) -> dict[str, str]:
    from airflow_lake_provider.spark_jobs.formats.choose_format import table_of

    return table_of(spark, spec).properties()


def _carry_out(spark: SparkSession, spec: JobSpec, progress: Progress) -> JobReport:
    # Each action is imported alone: a driver pays only for what it runs.
    match spec:
        case UpsertSpec():
            from airflow_lake_provider.spark_jobs.actions.upsert_batch import upsert_batch

            return upsert_batch(spark, spec, progress)
        case IncrementalSpec():
            from airflow_lake_provider.spark_jobs.actions.incremental_run import run_incremental

            return run_incremental(spark, spec, progress)
        case CompactionSpec():
            from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table

            return compact_table(spark, spec, progress)
        case RewriteManifestsSpec():
            from airflow_lake_provider.spark_jobs.actions.maintain_table import rewrite_file_lists

            return rewrite_file_lists(spark, spec, progress)
        case SnapshotExpirySpec():
            from airflow_lake_provider.spark_jobs.actions.maintain_table import expire_snapshots

            return expire_snapshots(spark, spec, progress)
        case DeleteRowsSpec():
            from airflow_lake_provider.spark_jobs.actions.delete_rows import delete_rows

            return delete_rows(spark, spec, progress)
        case UpdateRowsSpec():
            from airflow_lake_provider.spark_jobs.actions.update_rows import update_rows

            return update_rows(spark, spec, progress)
        case MetadataChangeSpec():
            from airflow_lake_provider.spark_jobs.actions.maintain_table import change_metadata

            return change_metadata(spark, spec, progress)
    raise UnsupportedError(f"no action of this driver carries out {type(spec).__name__}")
