"""Run the action that a spec asks for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.capabilities import declared_format
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.specs.compaction import CompactionSpec
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChangeSpec
from airflow_lake_provider.contracts.specs.orphan_files import OrphanFilesSpec
from airflow_lake_provider.contracts.specs.rewrite_manifests import RewriteManifestsSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.row_expiry import RowExpirySpec
from airflow_lake_provider.contracts.specs.snapshot_expiry import SnapshotExpirySpec
from airflow_lake_provider.contracts.specs.statistics import StatisticsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.failures.broken_tables import lake_errors
from airflow_lake_provider.spark_jobs.progress import Progress

_FOLDER = "airflow_lake_provider.spark_jobs.actions"
# Module and function of each.
_ACTIONS: Mapping[type[JobSpec], str] = {
    UpsertSpec: "upsert_batch:upsert_batch",
    IncrementalSpec: "incremental_run:run_incremental",
    DeleteRowsSpec: "delete_rows:delete_rows",
    UpdateRowsSpec: "update_rows:update_rows",
    RowExpirySpec: "expire_rows:expire_rows",
    CompactionSpec: "maintain_table:compact_table",
    RewriteManifestsSpec: "maintain_table:rewrite_file_lists",
    StatisticsSpec: "maintain_table:compute_statistics",
    SnapshotExpirySpec: "maintain_table:expire_snapshots",
    OrphanFilesSpec: "maintain_table:remove_orphan_files",
    MetadataChangeSpec: "maintain_table:change_metadata",
}


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
    place = _ACTIONS.get(type(spec))
    if place is None:
        raise UnsupportedError(f"no action of this driver carries out {type(spec).__name__}")
    # Each action is imported alone: a driver pays only for what it runs.
    module, _, name = place.partition(":")
    report: JobReport = getattr(import_module(f"{_FOLDER}.{module}"), name)(spark, spec, progress)
    return report
