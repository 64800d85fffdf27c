"""Write the data files with rows that match anew, without them or with new values, for owners that want no deletes."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.held_settings import COPY_ON_WRITE, DELETE_MODE, UPDATE_MODE
from airflow_lake_provider.spark_jobs.formats.commits import MatchedCommit, RowMatch
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.file_overwrite import FileOverwrite
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import FileScan
from airflow_lake_provider.spark_jobs.formats.iceberg.row_changes.find_rows import withheld
from airflow_lake_provider.spark_jobs.formats.iceberg.row_changes.stage_updates import updated_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.found_rows import ROW_ID, ResolvedRows
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import scan_tasks
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.staged_files import LAST_UPDATED, write_staged
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import java_rows
from airflow_lake_provider.spark_jobs.sql.columns import quoted


def mode_of(commit: MatchedCommit) -> str:
    """Return the table property that says how its owner wants such a change to be made."""
    return DELETE_MODE if commit.assignments is None else UPDATE_MODE


def is_copied(table: IcebergTable, commit: MatchedCommit) -> bool:
    """Tell whether the owner wants files to be written anew, and the match can be asked a second time."""
    if table.properties().get(mode_of(commit)) != COPY_ON_WRITE:
        return False
    return not commit.match.allow_sql or _is_deterministic(table, commit.match)


def copied_files(table: IcebergTable, commit: MatchedCommit, matched: ResolvedRows) -> FileOverwrite:
    """Write the files that take the place of those with rows that match.

    :raises CommitConflictError: a data file is not in the base.
    :raises InvalidSpecError: an assignment cannot be taken.
    """
    replaced = list(scan_tasks(table, int(commit.base or 0), list(matched.positions)).values())
    scan = FileScan(table.spark, table.java, replaced, spread=False)
    try:
        with withheld(table, commit.match):
            names = [field.name for field in table.schema()]
            names += [ROW_ID, LAST_UPDATED] if table.format_version >= 3 else []
            rows = _others(scan.dataframe, commit.match).select(*map(quoted, names))
            if commit.assignments is not None and matched.rows is not None:
                rows = rows.unionByName(updated_rows(table, matched.rows, commit.assignments))
            return FileOverwrite(replaced=replaced, added=write_staged(table, rows))
    finally:
        scan.close()


def _others(held: DataFrame, match: RowMatch) -> DataFrame:
    """Return the rows that do not match; a predicate that is NULL matches no row."""
    if match.keys is not None:
        return held.join(sf.broadcast(match.keys), on=match.keys.columns, how="left_anti")
    return held.filter(~sf.coalesce(sf.expr(match.where or "false"), sf.lit(False)))


def _is_deterministic(table: IcebergTable, match: RowMatch) -> bool:
    """Tell whether a predicate gives the same answer again, as ``rand() < 0.5`` does not."""
    if match.where is None:
        return True
    found: Any = table.spark.table(table.sql_name).filter(sf.expr(match.where))
    return bool(java_rows(found).queryExecution().analyzed().deterministic())
