"""The text of a ``MERGE INTO`` that reads no more of the target than the batch's keys can touch."""

from __future__ import annotations

from dataclasses import replace

from airflow_lake_provider.contracts.table_layout import MissingColumns
from airflow_lake_provider.spark_jobs.change_batch import DELETED
from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.key_pruning import key_pruning
from airflow_lake_provider.spark_jobs.formats.iceberg.sql_text import quoted_name
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable

_SOURCE_VIEW = "lake_batch"


def merge_into(table: IcebergTable, branch: str, commit: KeyedCommit) -> tuple[str, str]:
    """Return the statement and a sentence on how it prunes.

    :param branch: written to, and read from.
    """
    commit = _readable(table, commit)
    commit.rows.createOrReplaceTempView(_SOURCE_VIEW)
    pruning, reason = key_pruning(table, commit, "t")
    on = " AND ".join([*(_equal(key) for key in commit.keys), *pruning])
    columns = [name for name in commit.rows.columns if name != DELETED]
    target = table.name.quoted(table.catalog) + f".`branch_{branch}`"
    statement = f"""
        MERGE INTO {target} AS t USING {_SOURCE_VIEW} AS s ON {on}
        WHEN MATCHED AND s.`{DELETED}` THEN DELETE
        WHEN MATCHED THEN UPDATE SET {_assignments(table, columns, commit.missing_columns)}
        WHEN NOT MATCHED AND NOT s.`{DELETED}` THEN
        INSERT ({_names(columns)}) VALUES ({_names(columns, "s.")})
    """
    return statement, reason


def _readable(table: IcebergTable, commit: KeyedCommit) -> KeyedCommit:
    if table.format_version > 1 and table.properties().get("write.merge.mode") == "merge-on-read":
        return commit
    # Copy-on-write puts the source into a subquery, where Spark refuses a plan that numbers rows, cached or not.
    return replace(commit, rows=commit.rows.localCheckpoint())


def _assignments(table: IcebergTable, columns: list[str], missing: MissingColumns) -> str:
    set_columns = [_equal(name) for name in columns]
    if missing is not MissingColumns.KEEP:
        given = {name.lower() for name in columns}
        present = [field.name for field in table.spark.table(table.sql_name).schema]
        set_columns += [f"t.{quoted_name(name)} = NULL" for name in present if name.lower() not in given]
    return ", ".join(set_columns)


def _equal(name: str) -> str:
    return f"t.{quoted_name(name)} = s.{quoted_name(name)}"


def _names(columns: list[str], side: str = "") -> str:
    return ", ".join(side + quoted_name(name) for name in columns)
