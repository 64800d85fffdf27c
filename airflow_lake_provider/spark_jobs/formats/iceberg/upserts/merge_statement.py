"""The text of a ``MERGE INTO`` that reads no more of the target than the batch's keys can touch."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_lake_provider.spark_jobs.batch.row_merge import RowMerge
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.iceberg_row_merge import row_merge
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_pruning import key_pruning
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import PlannedUpsert
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name

_SOURCE_VIEW = "lake_batch"
_HELD = "t._lake_held"


@dataclass(frozen=True, kw_only=True)
class MergeStatement:
    """A ``MERGE INTO``.

    :param counts: query for what it will do: ``inserted``, ``updated`` and ``deleted`` in one row.
    :param written: query for the rows that it will write.
    :param pruning: how the read is bounded, a sentence.
    """

    text: str
    counts: str
    written: str
    pruning: str


def merge_into(table: IcebergTable, branch: str, commit: PlannedUpsert) -> MergeStatement:
    """Return the statement.

    :param branch: written to, and read from.
    """
    commit = _readable(table, commit)
    commit.rows.createOrReplaceTempView(_SOURCE_VIEW)
    pruning, reason = key_pruning(table, commit.batch_keys, "t")
    on = " AND ".join([*(f"{_old(key)} = {_new(key)}" for key in commit.keys), *pruning])
    merge = row_merge(table, commit, _old, _new)
    and_wins = f" AND {merge.wins}" if merge.wins else ""
    removal = f"WHEN MATCHED AND {merge.removes}{and_wins} THEN DELETE" if merge.removes else ""
    values = ", ".join(f"{_old(name)} = {merge.value(name)}" for name in merge.table)
    target = f"{table.name.quoted(table.catalog)}.`branch_{branch}`"
    text = f"""
        MERGE INTO {target} AS t USING {_SOURCE_VIEW} AS s ON {on}
        {removal}
        WHEN MATCHED{and_wins} THEN UPDATE SET {values}
        WHEN NOT MATCHED AND {merge.adds} THEN
        INSERT ({", ".join(map(quoted_name, merge.table))}) VALUES ({", ".join(map(merge.added, merge.table))})
    """
    return MergeStatement(
        text=text, counts=_counts(merge, target, on), written=_written(merge, target, on), pruning=reason
    )


def _counts(merge: RowMerge, target: str, on: str) -> str:
    wins = f"{_HELD} AND coalesce({merge.wins or 'true'}, false)"
    removes = f"coalesce({merge.removes or 'false'}, false)"
    return f"""
        SELECT count_if({_HELD} IS NULL AND {merge.adds}) AS inserted,
        count_if({wins} AND NOT {removes}) AS updated, count_if({wins} AND {removes}) AS deleted
        {_joined(target, on)}
    """


def _written(merge: RowMerge, target: str, on: str) -> str:
    values = (
        f"CASE WHEN {_HELD} THEN {merge.value(name)} ELSE {merge.added(name)} END AS {quoted_name(name)}"
        for name in merge.table
    )
    is_updated = f"coalesce({_HELD} AND {merge.wins or 'true'} AND NOT {merge.removes or 'false'}, false)"
    return f"""
        SELECT {", ".join(values)} {_joined(target, on)}
        WHERE {is_updated} OR ({_HELD} IS NULL AND {merge.adds})
    """


def _joined(target: str, on: str) -> str:
    return f"FROM {_SOURCE_VIEW} AS s LEFT JOIN (SELECT *, true AS _lake_held FROM {target}) AS t ON {on}"


def _readable(table: IcebergTable, commit: PlannedUpsert) -> PlannedUpsert:
    if table.format_version > 1 and table.properties().get("write.merge.mode") == "merge-on-read":
        return commit
    # Copy-on-write puts the source into a subquery, where Spark refuses a plan that numbers rows, cached or not.
    return commit.with_rows(commit.rows.localCheckpoint())


def _old(name: str) -> str:
    return f"t.{quoted_name(name)}"


def _new(name: str) -> str:
    return f"s.{quoted_name(name)}"
