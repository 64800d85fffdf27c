"""Predicates that no row with a key of the batch fails: by them Iceberg leaves files unread."""

from __future__ import annotations

from pyspark.sql.types import DataType, DateType, DecimalType, IntegralType, StringType

from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.sql_text import quoted_name, text_literal
from airflow_lake_provider.spark_jobs.key_ranges import KeyRanges, ranges_column, read_ranges
from airflow_lake_provider.spark_jobs.latest_changes import quoted

# Above this many literals Iceberg stops evaluating IN against file bounds (IN_PREDICATE_LIMIT).
_MAX_IN = 200


def key_pruning(commit: KeyedCommit, alias: str) -> tuple[list[str], str]:
    """Return SQL conditions, to be joined by AND, and a sentence on them.

    Few keys are listed; else each key column is bounded by the batch's own range.

    :param alias: of the table in the statement.
    """
    ranges = commit.key_ranges or _find_ranges(commit)
    types = {field.name.lower(): field.dataType for field in commit.rows.schema}
    prunable = [found for found in ranges.columns if _literal("0", types[found.column.lower()]) is not None]
    if len(commit.keys) == len(prunable) == 1 and ranges.keys <= _MAX_IN:
        listed = _keys_in(commit, types[prunable[0].column.lower()])
        return [f"{alias}.{quoted_name(commit.keys[0])} IN ({', '.join(listed)})"], f"pruned by {len(listed)} keys"
    predicates = []
    for found in prunable:
        low, high = (_literal(end, types[found.column.lower()]) for end in (found.least, found.greatest))
        predicates.append(f"{alias}.{quoted_name(found.column)} BETWEEN {low} AND {high}")
    return predicates, f"pruned by the range of {len(predicates)} of {len(commit.keys)} key columns"


def _keys_in(commit: KeyedCommit, kind: DataType) -> list[str]:
    found = commit.rows.select(quoted(commit.keys[0]).cast("string")).collect()
    return [str(_literal(text, kind)) for (text,) in found]


def _find_ranges(commit: KeyedCommit) -> KeyRanges:
    found = commit.rows.agg(ranges_column([quoted(key) for key in commit.keys])).collect()[0][0]
    return read_ranges(commit.keys, found)


def _literal(text: str, kind: DataType) -> str | None:
    """Return a SQL literal equal to the value, or None for a type that is not compared by literal."""
    match kind:
        case IntegralType():
            return f"{text}L"
        case DecimalType():
            return f"{text}BD"
        case StringType():
            return text_literal(text)
        case DateType():
            return f"DATE '{text}'"
    return None
