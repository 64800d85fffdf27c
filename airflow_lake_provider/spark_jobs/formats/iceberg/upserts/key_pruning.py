"""Predicates that no row with a key of the batch fails: by them Iceberg leaves files unread.

A predicate that a matching row fails would make the row be inserted a second time, so what is not sure is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, IntegralType, StringType

from airflow_lake_provider.spark_jobs.batch.key_ranges import (
    KeyRange,
    KeyRanges,
    as_text,
    ranges_column,
    read_ranges,
    without_gaps,
)
from airflow_lake_provider.spark_jobs.formats.commits import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import place_columns
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.pushdown_literals import (
    greatest_literal,
    has_literals,
    has_sure_bounds,
    least_literal,
    may_wrap,
    sure_literal,
    wrapped_columns,
)
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted, quoted_name
from airflow_lake_provider.spark_jobs.sql.older_pyspark import valid_utf8

# Above this many literals Iceberg stops evaluating IN against file bounds (IN_PREDICATE_LIMIT).
_MAX_IN = 200
_BUCKET = re.compile(r"bucket\[(\d+)\]")
# With more of the buckets than this share, the job that tells them costs more than the files that they spare.
_MOST_HIT = 0.8
# Values per bucket from which on nearly all buckets are hit.
_MOST_VALUES = 2


@dataclass(frozen=True, kw_only=True)
class BatchKeys:
    """The keys of a batch: how many there are, and between what, without large gaps."""

    rows: DataFrame
    names: tuple[str, ...]
    ranges: KeyRanges
    _literals: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, commit: KeyedCommit) -> BatchKeys:
        """Return the keys of a commit."""
        return cls.of_rows(commit.rows, commit.keys, commit.key_ranges)

    @classmethod
    def of_rows(cls, rows: DataFrame, names: tuple[str, ...], ranges: KeyRanges | None) -> BatchKeys:
        """Return the keys of rows; a job counts them where nobody has, and one looks for gaps."""
        if ranges is None:
            values = [(quoted(key), kind) for key, kind in key_types(rows, names).items()]
            ranges = read_ranges(names, rows.agg(ranges_column(values)).collect()[0][0])
        keys = cls(rows=rows, names=names, ranges=ranges)
        return keys if keys.are_listed else cls(rows=rows, names=names, ranges=without_gaps(ranges, rows))

    @property
    def count(self) -> int:
        """Number of keys."""
        return self.ranges.keys

    @property
    def types(self) -> dict[str, DataType]:
        """Type of each key column."""
        return key_types(self.rows, self.names)

    @property
    def are_listed(self) -> bool:
        """True where the keys themselves prune, so that nothing is gained by the gaps between them."""
        return len(self.names) == 1 and 0 < self.count <= _MAX_IN

    def literals(self, column: str, kind: DataType) -> list[str]:
        """Return the values of a column as literals; none when there are too many, or when one of them has no literal.

        The job that lists them is run once.
        """
        if column not in self._literals:
            self._literals[column] = self._listed(column, kind)
        return self._literals[column]

    def _listed(self, column: str, kind: DataType) -> list[str]:
        if not has_literals(kind):
            return []
        texts = self.rows.select(as_text(quoted(column), kind))
        if len(self.names) > 1:
            texts = texts.distinct().limit(_MAX_IN + 1)
        rows = texts.collect()
        literals = [sure_literal(text, kind) for (text,) in rows]
        return [lit for lit in literals if lit is not None] if None not in literals and len(rows) <= _MAX_IN else []


def key_types(rows: DataFrame, keys: tuple[str, ...]) -> dict[str, DataType]:
    """Return the type of each key column, which the batch may spell in another case."""
    types = {field.name.lower(): field.dataType for field in rows.schema}
    return {key: types[key.lower()] for key in keys}


def key_pruning(table: IcebergTable, keys: BatchKeys, alias: str, *, by_bucket: bool = True) -> tuple[list[str], str]:
    """Return SQL conditions, to be joined by AND, and a sentence on them.

    Few keys are listed, and few values of a column that the table is partitioned by. Else each key column is bounded by
    the ranges that the batch has keys in, and by the buckets of the table's partitions.

    :param alias: of the table in the statement.
    :param by_bucket: False spares the job that tells buckets, for a read of few files.
    """
    types = {name.lower(): kind for name, kind in keys.types.items() if has_sure_bounds(table, name, kind)}
    # Nor do ranges and lists prune that begin where partitions have overflowed.
    low = [each for each in keys.ranges.columns if _is_below_zero(each, types.get(each.column.lower()))]
    wrapped = wrapped_columns(table) if low else {}
    for each in low:
        if may_wrap(wrapped, each.column, each.parts[0][0]):
            types.pop(each.column.lower(), None)
    if types and keys.are_listed:
        listed = keys.literals(keys.names[0], *types.values())
        if listed:
            return [_in(alias, keys.names[0], listed)], f"pruned by {len(listed)} keys"
    partitioning = _partitioning(table) if len(keys.names) > 1 else set()
    predicates, words = [], []
    for each in keys.ranges.columns:
        kind = types.get(each.column.lower())
        listed = keys.literals(each.column, kind) if kind and each.column.lower() in partitioning else []
        between = _between(alias, each, kind)
        if listed:
            predicates.append(_in(alias, each.column, listed))
            words.append(f"{len(listed)} values of {each.column}")
        elif between:
            predicates.append(between)
            ranges_of = "the range" if len(each.parts) == 1 else f"{len(each.parts)} ranges"
            words.append(f"{ranges_of} of {each.column}")
            buckets = _bucket_pruning(table, keys, each.column, alias) if by_bucket else None
            if buckets:
                predicates.append(buckets[0])
                words.append(buckets[1])
    return predicates, f"pruned by {' and '.join(words)}" if words else "not pruned, no key column has bounds"


def _is_below_zero(each: KeyRange, kind: DataType | None) -> bool:
    return isinstance(kind, IntegralType) and int(each.parts[0][0]) < 0


def rows_of_keys(table: IcebergTable, base: str, keys: DataFrame, ranges: KeyRanges | None) -> DataFrame:
    """Return the rows of a branch's head that satisfy the conditions on some keys, with their places.

    :param keys: the key columns, and nothing else.
    :raises CommitConflictError: the branch has moved on, and its columns are others.
    """
    alias = table.name.table
    batch_keys = BatchKeys.of_rows(keys, tuple(keys.columns), ranges)
    predicates, _ = key_pruning(table, batch_keys, quoted_name(alias))
    rows = table.rows_of_base(int(base)).alias(alias)
    for predicate in predicates:
        rows = rows.filter(sf.expr(predicate))
    return rows.select("*", *place_columns(table.format_version))


def _in(alias: str, column: str, listed: list[str]) -> str:
    return f"{alias}.{quoted_name(column)} IN ({', '.join(listed)})"


def _between(alias: str, key_range: KeyRange, kind: DataType | None) -> str | None:
    column = f"{alias}.{quoted_name(key_range.column)}"
    parts = [_part(column, least_literal(low, kind), greatest_literal(high, kind)) for low, high in key_range.parts]
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


def _bucket_pruning(table: IcebergTable, keys: BatchKeys, column: str, alias: str) -> tuple[str, str] | None:
    """Return a condition on the buckets that the batch has keys in, and the words for it; a job, where it may prune.

    Iceberg derives them itself from few listed keys. Ranges, which bound more keys than that, say nothing about a hash.
    """
    buckets = _buckets(table, column)
    # Of several key columns each that is a partition's has more values than are listed.
    values = keys.count if len(keys.names) == 1 else _MAX_IN + 1
    if buckets is None or values > _MOST_VALUES * buckets:
        return None
    function = f"{quoted_name(table.catalog)}.system.bucket({buckets}, {{}})"
    key = quoted_name(column)
    # Of a text that is no UTF-8 Iceberg's writer hashes another one than Spark.
    sure = valid_utf8(key) if isinstance(keys.rows.select(key).schema[0].dataType, StringType) else "true"
    hit = keys.rows.select(sf.expr(f"CASE WHEN {sure} THEN {function.format(key)} END")).distinct().collect()
    if not hit or (None,) in hit or len(hit) > _MOST_HIT * buckets:
        return None
    listed = ", ".join(str(bucket) for (bucket,) in sorted(hit))
    return f"{function.format(f'{alias}.{key}')} IN ({listed})", f"{len(hit)} buckets of {column}"


def _buckets(table: IcebergTable, column: str) -> int | None:
    """Return how many buckets the table has by a column."""
    schema = table.java.schema()
    for partition in table.facts.shape.partition_fields():
        bucket = _BUCKET.fullmatch(partition.transform)
        if bucket and str(schema.findColumnName(partition.source_id)).lower() == column.lower():
            return int(bucket[1])
    return None
