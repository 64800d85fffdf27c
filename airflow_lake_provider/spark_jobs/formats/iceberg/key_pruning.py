"""Predicates that no row with a key of the batch fails: by them Iceberg leaves files unread.

A predicate that a matching row fails would make the row be inserted a second time, so what is not sure is left out.
"""

from __future__ import annotations

from pyspark.sql.types import DataType, DateType, DecimalType, IntegralType, StringType

from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.sql_text import quoted_name, text_literal
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable
from airflow_lake_provider.spark_jobs.key_ranges import KeyRanges, as_text, ranges_column, read_ranges
from airflow_lake_provider.spark_jobs.latest_changes import quoted

# Above this many literals Iceberg stops evaluating IN against file bounds (IN_PREDICATE_LIMIT).
_MAX_IN = 200
# What a byte that is no UTF-8 becomes on its way to Python; Spark compares the bytes.
_REPLACEMENT = "\ufffd"


def key_pruning(table: IcebergTable, commit: KeyedCommit, alias: str) -> tuple[list[str], str]:
    """Return SQL conditions, to be joined by AND, and a sentence on them.

    Few keys are listed; else each key column is bounded by the batch's own range.

    :param alias: of the table in the statement.
    """
    ranges = known_ranges(commit)
    types = {name: kind for name, kind in _key_types(commit).items() if not _is_uuid(table, name)}
    if len(commit.keys) == len(types) == 1 and 0 < ranges.keys <= _MAX_IN:
        listed = _listed(commit, *types.values())
        if listed:
            return [f"{alias}.{quoted_name(commit.keys[0])} IN ({', '.join(listed)})"], f"pruned by {len(listed)} keys"
    predicates = []
    for found in ranges.columns:
        low, high = (_literal(end, types.get(found.column)) for end in (found.least, found.greatest))
        if low is not None and high is not None:
            predicates.append(f"{alias}.{quoted_name(found.column)} BETWEEN {low} AND {high}")
    return predicates, f"pruned by the range of {len(predicates)} of {len(commit.keys)} key columns"


def _key_types(commit: KeyedCommit) -> dict[str, DataType]:
    return {key: commit.rows.select(quoted(key)).schema[0].dataType for key in commit.keys}


def _is_uuid(table: IcebergTable, name: str) -> bool:
    """Tell a UUID, which is text to Spark: Iceberg compares it with the bounds of files as signed numbers (#14216)."""
    field = table.java.schema().caseInsensitiveFindField(name)
    return field is not None and str(field.type()) == "uuid"


def _listed(commit: KeyedCommit, kind: DataType) -> list[str]:
    """Return all keys as literals; none when one of them has no literal."""
    if _literal("0", kind) is None:
        return []
    found = commit.rows.select(as_text(quoted(commit.keys[0]), kind)).collect()
    literals = [_literal(text, kind) for (text,) in found]
    return [literal for literal in literals if literal is not None] if None not in literals else []


def known_ranges(commit: KeyedCommit) -> KeyRanges:
    """Return the ranges of the batch's keys; asks for them in a job where nobody has."""
    if commit.key_ranges is not None:
        return commit.key_ranges
    keys = [(quoted(key), kind) for key, kind in _key_types(commit).items()]
    return read_ranges(commit.keys, commit.rows.agg(ranges_column(keys)).collect()[0][0])


def _literal(text: str, kind: DataType | None) -> str | None:
    """Return a SQL literal equal to the value, or None for one that is not compared by literal.

    :param text: of ``as_text``.
    """
    match kind:
        case IntegralType():
            return f"{text}L"
        case DecimalType():
            return f"{text}BD"
        case DateType():
            return f"date_from_unix_date({text})"
    # A collation has an order of its own.
    if kind == StringType() and _REPLACEMENT not in text:
        return text_literal(text)
    return None
