"""Merge rows of an Iceberg table with rows of a batch where both are columns of one DataFrame."""

from __future__ import annotations

from functools import partial

from pyspark.sql.types import StructType

from airflow_lake_provider.spark_jobs.batch.change_batch import MARKERS, RESET
from airflow_lake_provider.spark_jobs.batch.row_merge import Merged, Name, RowMerge
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.fit_nested_columns import write_defaults
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import PlannedUpsert
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name
from airflow_lake_provider.spark_jobs.sql.nested_types import with_kept_fields

# What the columns of the table's row are called beside those of the batch.
OLD = "_lake_old_"


def _of_table(name: str) -> str:
    # In lower case, as Spark compares names.
    return quoted_name(OLD + name.lower())


def row_merge(table: IcebergTable, commit: PlannedUpsert, old: Name = _of_table, new: Name = quoted_name) -> RowMerge:
    """Return the expressions of a commit.

    :param old: name of a column of the table to its SQL; ``new``: of the batch.
    """
    schema = table.schema()
    return RowMerge(
        merge_engine=commit.merge_engine,
        keys=commit.keys,
        order_by=commit.order_by,
        missing=commit.missing_columns,
        given=[name for name in commit.rows.columns if name not in MARKERS],
        table=schema.names,
        defaults=write_defaults(schema),
        completed=_completions(schema, commit),
        old=old,
        new=new,
        resets=RESET in commit.rows.columns,
    )


def _completions(schema: StructType, commit: PlannedUpsert) -> dict[str, Merged]:
    wanted = {field.name.lower(): field.dataType for field in schema}
    return {
        name: partial(with_kept_fields, given=given, wanted=wanted[name])
        for name, given in commit.partial_structs.items()
    }
