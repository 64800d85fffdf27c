"""Predicates that no row with a key of the batch fails: by them Iceberg leaves files unread.

A predicate that a matching row fails would make the row be inserted a second time, so what is not sure is left out.
"""

from __future__ import annotations

from pyspark.sql.types import DataType

from airflow_lake_provider.spark_jobs.batch.key_ranges import (
    KeyRange,
    KeyRanges,
    as_text,
    ranges_column,
    read_ranges,
    without_gaps,
)
from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.pushdown_literals import (
    greatest_literal,
    has_literals,
    least_literal,
    sure_literal,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.truncate_overflow import may_wrap, wrapped_columns
from airflow_lake_provider.spark_jobs.formats.iceberg.table.uuid_keys import is_uuid
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.bucket_pruning import bucket_pruning
from airflow_lake_provider.spark_jobs.sql.columns import quoted
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name

# Above this many literals Iceberg stops evaluating IN against file bounds (IN_PREDICATE_LIMIT).
_MAX_IN = 200


def key_pruning(
    table: IcebergTable, commit: KeyedCommit, alias: str, *, by_bucket: bool = True
) -> tuple[list[str], str]:
    """Return SQL conditions, to be joined by AND, and a sentence on them.

    Few keys are listed, and few values of a column that the table is partitioned by; else each key column is bounded
    by the ranges that the batch has keys in, and by the buckets of the table's partitions.

    :param alias: of the table in the statement.
    :param by_bucket: False spares the job that tells buckets, for a read of few files.
    """
    ranges = known_ranges(commit)
    # UUIDs, which are text to Spark, are compared with the bounds of files as signed numbers by Iceberg (#14216).
    types = {name.lower(): kind for name, kind in key_types(commit).items() if not is_uuid(table, name)}
    if types and _are_listed(commit, ranges):
        listed = _listed(commit, commit.keys[0], *types.values())
        if listed:
            return [_in(alias, commit.keys[0], listed)], f"pruned by {len(listed)} keys"
    partitioning = _partitioning(table) if len(commit.keys) > 1 else set()
    wrapped = wrapped_columns(table)
    predicates, words = [], []
    for found in ranges.columns:
        kind = types.get(found.column.lower())
        listed = _listed(commit, found.column, kind) if kind and found.column.lower() in partitioning else []
        between = None if may_wrap(wrapped, found.column, found.parts[0][0]) else _between(alias, found, kind)
        if listed:
            predicates.append(_in(alias, found.column, listed))
            words.append(f"{len(listed)} values of {found.column}")
        elif between:
            predicates.append(between)
            ranges_of = "the range" if len(found.parts) == 1 else f"{len(found.parts)} ranges"
            words.append(f"{ranges_of} of {found.column}")
            # Of several key columns each that is a partition's has more values than are listed.
            values = ranges.keys if len(commit.keys) == 1 else _MAX_IN + 1
            buckets = bucket_pruning(table, commit, found.column, alias, values) if by_bucket else None
            if buckets:
                predicates.append(buckets[0])
                words.append(buckets[1])
    return predicates, f"pruned by {' and '.join(words)}" if words else "not pruned, no key column has bounds"


def _in(alias: str, column: str, listed: list[str]) -> str:
    return f"{alias}.{quoted_name(column)} IN ({', '.join(listed)})"


def _between(alias: str, found: KeyRange, kind: DataType | None) -> str | None:
    column = f"{alias}.{quoted_name(found.column)}"
    parts = [_part(column, least_literal(low, kind), greatest_literal(high, kind)) for low, high in found.parts]
    if any(part is None for part in parts):
        return None
    return str(parts[0]) if len(parts) == 1 else f"({' OR '.join(map(str, parts))})"


def _part(column: str, low: str | None, high: str | None) -> str | None:
    if low is None or high is None:
        return f"{column} >= {low}" if low is not None else f"{column} <= {high}" if high is not None else None
    return f"{column} BETWEEN {low} AND {high}"


def _partitioning(table: IcebergTable) -> set[str]:
    """Return the columns that the table is partitioned by, however transformed."""
    schema = table.java.schema()
    return {str(schema.findColumnName(field.source_id)).lower() for field in table.facts.shape.partition_fields()}


def key_types(commit: KeyedCommit) -> dict[str, DataType]:
    """Return the type of each key column, which the batch may spell in another case."""
    types = {field.name.lower(): field.dataType for field in commit.rows.schema}
    return {key: types[key.lower()] for key in commit.keys}


def _listed(commit: KeyedCommit, column: str, kind: DataType) -> list[str]:
    """Return the column's values as literals; none when there are too many, or when one of them has no literal."""
    if not has_literals(kind):
        return []
    texts = commit.rows.select(as_text(quoted(column), kind))
    if len(commit.keys) > 1:
        texts = texts.distinct().limit(_MAX_IN + 1)
    found = texts.collect()
    literals = [sure_literal(text, kind) for (text,) in found]
    return [lit for lit in literals if lit is not None] if None not in literals and len(found) <= _MAX_IN else []


def known_ranges(commit: KeyedCommit) -> KeyRanges:
    """Return the ranges of the batch's keys, without large gaps; asks for them in a job where nobody has."""
    ranges = commit.key_ranges
    if ranges is None:
        keys = [(quoted(key), kind) for key, kind in key_types(commit).items()]
        ranges = read_ranges(commit.keys, commit.rows.agg(ranges_column(keys)).collect()[0][0])
    return ranges if _are_listed(commit, ranges) else without_gaps(ranges, commit.rows)


def _are_listed(commit: KeyedCommit, ranges: KeyRanges) -> bool:
    """Tell whether the keys themselves prune, so that nothing is gained by the gaps between them."""
    return len(commit.keys) == 1 and 0 < ranges.keys <= _MAX_IN
