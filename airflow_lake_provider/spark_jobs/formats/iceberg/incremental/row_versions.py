"""The rows that can differ between two snapshots, with the lineage that says whether they do."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.incremental.live_files import LiveFile, changed_files, live_files
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import FileScan, table_with_schema
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import missing_internals
from airflow_lake_provider.spark_jobs.formats.iceberg.table.filter_pushdown import unpruned
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable

logger = logging.getLogger(__name__)

ROW_ID = "_row_id"
LAST_UPDATED = "_last_updated_sequence_number"


@dataclass(frozen=True, kw_only=True)
class RowVersions:
    """Rows with all columns of the later snapshot's schema, ``_row_id`` and ``_last_updated_sequence_number``.

    :param before: rows live at the first snapshot, without those of files that are the same at both; None for none.
    :param after: likewise at the second snapshot.
    :param added: of ``after``, the rows of files that were not live at the first snapshot and may have been written to
        after ``from_sequence_number``.
    :param scans: to be closed when the DataFrames are no longer needed.
    """

    before: DataFrame | None
    after: DataFrame | None
    added: DataFrame | None
    scans: tuple[FileScan, ...] = ()


def snapshot_schema(table: IcebergTable, snapshot: Any) -> Any:
    """Return the ``org.apache.iceberg.Schema`` that a snapshot was written with."""
    jvm: Any = table.spark._jvm
    return jvm.org.apache.iceberg.util.SnapshotUtil.schemaFor(table.java, snapshot.snapshotId())


def row_versions(table: IcebergTable, before: Any, after: Any, *, from_sequence_number: int | None) -> RowVersions:
    """Read the files that differ between two snapshots.

    :param before: ``org.apache.iceberg.Snapshot``; likewise ``after``.
    :param from_sequence_number: drop files without a later write from ``added``; None keeps them.
    :raises UnsupportedError: when the files cannot be chosen and the schemas differ.
    """
    missing = missing_internals(table.spark)
    if missing:
        logger.warning(
            "%s: this Iceberg runtime has no %s; both snapshots are read whole instead of the files that differ",
            table.name,
            ", ".join(missing),
        )
        return _whole_snapshots(table, before, after)
    return _differing_files(table, before, after, from_sequence_number)


def _differing_files(table: IcebergTable, before: Any, after: Any, from_sequence_number: int | None) -> RowVersions:
    changed = changed_files(live_files(table, before.snapshotId()), live_files(table, after.snapshotId()))
    floor = -1 if from_sequence_number is None else from_sequence_number
    added = tuple(file for file in changed.added if file.data_sequence_number > floor)
    java_table = _java_table_as_of(table, after)
    scans: list[FileScan] = []

    def rows(files: tuple[LiveFile, ...]) -> DataFrame | None:
        if not files:
            return None
        scans.append(FileScan(table.spark, java_table, [file.task for file in files]))
        return scans[-1].dataframe

    return RowVersions(before=rows(changed.before), after=rows(changed.after), added=rows(added), scans=tuple(scans))


def _java_table_as_of(table: IcebergTable, snapshot: Any) -> Any:
    schema_id = snapshot_schema(table, snapshot).schemaId()
    if schema_id == table.java.schema().schemaId():
        return table.java
    return table_with_schema(table.spark, table.java, schema_id)


def _whole_snapshots(table: IcebergTable, before: Any, after: Any) -> RowVersions:
    if not snapshot_schema(table, before).sameSchema(snapshot_schema(table, after)):
        raise UnsupportedError(
            f"{table.name}: the schema changed between snapshots {before.snapshotId()} and {after.snapshotId()}, and "
            "this Iceberg runtime cannot read the first with the schema of the second; use "
            "iceberg-spark-runtime-4.1_2.13 1.12.0, or read from None"
        )

    def rows(snapshot: Any) -> DataFrame:
        return unpruned(table.rows_at(snapshot.snapshotId()).select("*", ROW_ID, LAST_UPDATED))

    return RowVersions(before=rows(before), after=rows(after), added=rows(after))
