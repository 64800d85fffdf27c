"""The target's values, present or of a snapshot, for rows whose beginning lies before the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StructField, StructType

from airflow_lake_provider.spark_jobs.sql.columns import quoted


def with_table_values(
    known: DataFrame,
    rows_at: Mapping[str, DataFrame],
    keys: Sequence[str],
    named: Mapping[str, str],
    types: Mapping[str, DataType],
) -> DataFrame:
    """Add, for each row with a ``root``, the values of that row of the table.

    :param known: of ``unavailable_values.last_known_values``.
    :param rows_at: by ``root.at``, rows of the target.
    :param keys: key columns, in the order of the struct ``root.key``.
    :param named: ``t0``, ``t1``, ... -> column of the table it is to hold, as a struct of ``value``; NULL where the
        table lacks the column, or the row.
    :param types: type of each column in the batch.
    """
    if not rows_at:
        return known.withColumns(missing_values(named, types)).drop("root")
    unknown = reduce(or_, (sf.col(short.replace("t", "s")).isNull() for short in named))
    roots = known.filter(sf.col("root").isNotNull() & unknown).select("root").distinct()
    return known.join(values_at(rows_at, roots, keys, named, types), "root", "left").drop("root")


def missing_values(named: Mapping[str, str], types: Mapping[str, DataType]) -> dict[str, Column]:
    """Return the columns of :func:`with_table_values` where the table has no rows."""
    return {short: sf.lit(None).cast(_struct(types[name])) for short, name in named.items()}


def values_at(
    rows_at: Mapping[str, DataFrame],
    roots: DataFrame,
    keys: Sequence[str],
    named: Mapping[str, str],
    types: Mapping[str, DataType],
) -> DataFrame:
    """Return ``root`` and the values of its row, where the table has one row of it; see :func:`with_table_values`.

    :param roots: few, so they are sent to the rows of the table, which are not shuffled.
    """
    wanted = sf.broadcast(roots)
    found = (_values(rows, at, keys, named, types).join(wanted, "root", "left_semi") for at, rows in rows_at.items())
    values = reduce(DataFrame.unionByName, found)
    once = values.groupBy("root").agg(sf.count(sf.lit(1)).alias("copies"), *(sf.first(s).alias(s) for s in named))
    return once.filter("copies = 1").drop("copies")


def _values(
    rows: DataFrame, at: str, keys: Sequence[str], named: Mapping[str, str], types: Mapping[str, DataType]
) -> DataFrame:
    existing = {name.lower() for name in rows.columns}
    values = {
        short: sf.struct(quoted(name).cast(types[name]).alias("value"))
        if name.lower() in existing
        else sf.lit(None).cast(_struct(types[name]))
        for short, name in named.items()
    }
    key = sf.struct(*(quoted(name).cast(types[name]).alias(f"k{i}") for i, name in enumerate(keys)))
    root = sf.struct(key.alias("key"), sf.lit(at).alias("at")).alias("root")
    return rows.select(root, *(value.alias(short) for short, value in values.items()))


def _struct(kind: DataType) -> StructType:
    return StructType([StructField("value", kind)])
