"""The text of a ``MERGE INTO`` that reads no more of the target than the batch's keys can touch."""

from __future__ import annotations

from dataclasses import replace

from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.iceberg_row_merge import row_merge
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_pruning import key_pruning
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name

_SOURCE_VIEW = "lake_batch"


def merge_into(table: IcebergTable, branch: str, commit: KeyedCommit) -> tuple[str, str]:
    """Return the statement and a sentence on how it prunes.

    :param branch: written to, and read from.
    """
    commit = _readable(table, commit)
    commit.rows.createOrReplaceTempView(_SOURCE_VIEW)
    pruning, reason = key_pruning(table, commit, "t")
    on = " AND ".join([*(f"{_old(key)} = {_new(key)}" for key in commit.keys), *pruning])
    merge = row_merge(table, commit, _old, _new)
    and_wins = f" AND {merge.wins}" if merge.wins else ""
    removal = f"WHEN MATCHED AND {merge.removes}{and_wins} THEN DELETE" if merge.removes else ""
    values = ", ".join(f"{_old(name)} = {merge.value(name)}" for name in merge.table)
    statement = f"""
        MERGE INTO {table.name.quoted(table.catalog)}.`branch_{branch}` AS t USING {_SOURCE_VIEW} AS s ON {on}
        {removal}
        WHEN MATCHED{and_wins} THEN UPDATE SET {values}
        WHEN NOT MATCHED AND {merge.adds} THEN
        INSERT ({", ".join(map(quoted_name, merge.given))}) VALUES ({", ".join(map(merge.added, merge.given))})
    """
    return statement, reason


def _readable(table: IcebergTable, commit: KeyedCommit) -> KeyedCommit:
    if table.format_version > 1 and table.properties().get("write.merge.mode") == "merge-on-read":
        return commit
    # Copy-on-write puts the source into a subquery, where Spark refuses a plan that numbers rows, cached or not.
    return replace(commit, rows=commit.rows.localCheckpoint())


def _old(name: str) -> str:
    return f"t.{quoted_name(name)}"


def _new(name: str) -> str:
    return f"s.{quoted_name(name)}"
