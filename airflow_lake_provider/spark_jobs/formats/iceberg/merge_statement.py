"""The text of a ``MERGE INTO`` that reads no more of the target than the batch's keys can touch."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.table_layout import MissingColumns
from airflow_lake_provider.spark_jobs.change_batch import DELETED
from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.sql_text import quoted_name, text_literal
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable
from airflow_lake_provider.spark_jobs.latest_changes import quoted

_SOURCE_VIEW = "lake_batch"
# Above this many literals Iceberg stops evaluating IN against file bounds (IN_PREDICATE_LIMIT).
_MAX_IN = 200


def merge_into(table: IcebergTable, branch: str, commit: KeyedCommit) -> tuple[str, str]:
    """Return the statement and a sentence on how it prunes.

    :param branch: written to, and read from.
    """
    commit.rows.createOrReplaceTempView(_SOURCE_VIEW)
    pruning, reason = _pruning(commit)
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


def _pruning(commit: KeyedCommit) -> tuple[list[str], str]:
    """Bound each key by the batch's own range; a range never excludes a row that a key of the batch equals."""
    aggregates = [sf.count(sf.lit(1))]
    for key in commit.keys:
        aggregates += [sf.min(quoted(key)), sf.max(quoted(key))]
    first = commit.keys[0]
    if len(commit.keys) == 1:
        aggregates.append(sf.slice(sf.collect_set(quoted(first)), 1, _MAX_IN + 1))
    row = commit.rows.agg(*aggregates).head()
    if row is None or row[0] == 0:
        return [], "no pruning: the batch is empty"
    if len(commit.keys) == 1 and row[0] <= _MAX_IN:
        literals = [_literal(value) for value in row[-1]]
        if None not in literals:
            return [f"t.{quoted_name(first)} IN ({', '.join(map(str, literals))})"], f"pruned by {row[0]} keys"
    predicates = []
    for index, key in enumerate(commit.keys):
        low, high = _literal(row[1 + 2 * index]), _literal(row[2 + 2 * index])
        if low is not None and high is not None:
            predicates.append(f"t.{quoted_name(key)} BETWEEN {low} AND {high}")
    return predicates, f"pruned by the range of {len(predicates)} of {len(commit.keys)} key columns"


def _literal(value: Any) -> str | None:
    """Return a SQL literal equal to the value, or None for a type that is not compared by literal."""
    match value:
        case bool():
            return None
        case int():
            return f"{value}L"
        case Decimal():
            return f"{value:f}BD"
        case str():
            return text_literal(value)
        # A session in UTC reads a timestamp's wall clock back as the same instant only when it is written in UTC.
        case datetime():
            return None
        case date():
            return f"DATE '{value.isoformat()}'"
    return None
