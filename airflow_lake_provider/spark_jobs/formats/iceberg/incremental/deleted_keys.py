"""Find the keys that an incremental read reports as deleted: those of gone rows that no live row has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # Spark's own convention

from airflow_lake_provider.spark_jobs.batch.key_ranges import as_text
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.pushdown_literals import (
    greatest_literal,
    has_literals,
    has_sure_bounds,
    least_literal,
    may_wrap,
    wrapped_columns,
)
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted

# Beyond it the keys are a burden on every executor, and Spark chooses by size.
MAX_BROADCAST_KEYS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class DeletedKeys:
    """The deletes that an incremental read reports.

    :param rows: one for each key, with the columns of the gone rows.
    :param are_few: whether they may be broadcast.
    """

    rows: DataFrame
    are_few: bool


def keys_apart(
    rows: DataFrame, keys: Sequence[str], *more: Column, without_nulls: bool = False
) -> tuple[DataFrame, Column]:
    """Return the keys under names of their own, and the condition that joins them to a row with the keys.

    :param more: further columns to keep.
    :param without_nulls: no key of ``rows`` has one, so that the condition need not be null-safe. Spark hashes a whole
        number alone much quicker than one beside the answer whether it is NULL.
    """
    names = [f"_lake_key_{position}" for position in range(len(keys))]
    apart = rows.select(*(quoted(key).alias(name) for key, name in zip(keys, names, strict=True)), *more)
    pairs = [(quoted(key), F.col(name)) for key, name in zip(keys, names, strict=True)]
    same = [key == other if without_nulls else key.eqNullSafe(other) for key, other in pairs]
    return apart, reduce(Column.__and__, same)


def deletes_without_live_key(
    table: IcebergTable, schema: Any, gone: DataFrame, live_rows: DataFrame, keys: Sequence[str], row_id: str
) -> DeletedKeys | None:
    """Return one of the gone rows for each key that no live row has; None when none is gone.

    Runs a job over ``gone`` to learn the range of its keys.

    :param schema: ``org.apache.iceberg.Schema`` that ``live_rows`` are read with.
    :param gone: rows with the key columns and ``row_id``; computed more than once, so better persisted.
    :param live_rows: all rows live at the end of the range.
    :param row_id: decides between gone rows of one key: the youngest is taken.
    """
    count, has_nulls, bounds = _extent(table, schema, gone, keys)
    if not count:
        return None
    deleted, same = keys_apart(gone, keys, without_nulls=not has_nulls)
    # A key that is there twice is found once all the same; to see to it costs a shuffle.
    deleted = F.broadcast(deleted) if count <= MAX_BROADCAST_KEYS else deleted.distinct()
    live = live_rows.where(bounds) if bounds is not None else live_rows
    # The few deleted keys are broadcast against the many live ones, never the other way round.
    matched = live.join(deleted, same, "left_semi")
    still_live, same_again = keys_apart(matched, keys, without_nulls=not has_nulls)
    orphans = gone.join(still_live.distinct(), same_again, "left_anti")
    whole_row = F.struct(*(quoted(name) for name in gone.columns))
    by_key = orphans.groupBy(*(quoted(key) for key in keys))
    deletes = by_key.agg(F.max_by(whole_row, quoted(row_id)).alias("_lake_row")).select("_lake_row.*")
    return DeletedKeys(rows=deletes, are_few=count <= MAX_BROADCAST_KEYS)


def _extent(table: IcebergTable, schema: Any, gone: DataFrame, keys: Sequence[str]) -> tuple[int, bool, Column | None]:
    """Return how many rows are gone, whether a key has a NULL, and a predicate that all keys satisfy, for pruning."""
    types = {field.name: field.dataType for field in gone.schema}
    bounded = [key for key in keys if has_literals(types[key]) and has_sure_bounds(table, key, types[key], schema)]
    wrapped = wrapped_columns(table, schema)
    measures = [
        measure.alias(f"{name}_{position}")
        for position, key in enumerate(bounded)
        for name, measure in (
            ("count", F.count(quoted(key))),
            ("min", as_text(F.min(quoted(key)), types[key])),
            ("max", as_text(F.max(quoted(key)), types[key])),
        )
    ]
    nulls = F.count_if(reduce(Column.__or__, (quoted(key).isNull() for key in keys))).alias("nulls")
    row = gone.agg(F.count(F.lit(1)).alias("rows"), nulls, *measures).collect()[0]
    within = []
    for position, key in enumerate(bounded):
        # A NULL key has no bounds and must find its live rows too.
        if row[f"count_{position}"] == row["rows"] > 0 and not may_wrap(wrapped, key, row[f"min_{position}"]):
            least = least_literal(row[f"min_{position}"], types[key])
            greatest = greatest_literal(row[f"max_{position}"], types[key])
            within += [quoted(key) >= F.expr(least)] if least else []
            within += [quoted(key) <= F.expr(greatest)] if greatest else []
    return row["rows"], row["nulls"] > 0, reduce(Column.__and__, within) if within else None
