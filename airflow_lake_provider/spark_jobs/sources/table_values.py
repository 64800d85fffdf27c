"""The target's present values, for rows whose beginning lies before the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

from airflow_lake_provider.spark_jobs.latest_changes import quoted


def with_table_values(
    known: DataFrame,
    table_rows: DataFrame | None,
    keys: Sequence[str],
    named: Mapping[str, str],
    types: Mapping[str, DataType],
) -> DataFrame:
    """Add, for each row with a ``root``, the values of that row of the table.

    :param known: of ``unavailable_values.last_known_values``.
    :param table_rows: rows of the target, or None.
    :param keys: key columns, in the order of the struct ``root``.
    :param named: ``t0``, ``t1``, ... -> column of the table it is to hold, as a struct of ``value``; NULL where the
        table lacks the column, or the row.
    :param types: type of each column in the batch.
    """
    existing = {name.lower() for name in table_rows.columns} if table_rows is not None else set()
    taken = {short: name for short, name in named.items() if name.lower() in existing}
    missing = {short: sf.lit(None).cast(_struct(types[name])) for short, name in named.items() if short not in taken}
    if table_rows is None or not taken:
        return known.withColumns(missing).drop("root")
    root = sf.struct(*(quoted(name).cast(types[name]).alias(f"k{i}") for i, name in enumerate(keys))).alias("root")
    values = [sf.struct(quoted(n).cast(types[n]).alias("value")).alias(short) for short, n in taken.items()]
    unknown = sf.lit(False)
    for short in taken:
        unknown = unknown | sf.col(short.replace("t", "s")).isNull()
    roots = known.filter(sf.col("root").isNotNull() & unknown).select("root").distinct()
    # The few keys are sent to the table's rows, so that the table is not shuffled.
    found = table_rows.select(root, *values).join(sf.broadcast(roots), "root", "left_semi")
    once = found.groupBy("root").agg(sf.count(sf.lit(1)).alias("copies"), *(sf.first(s).alias(s) for s in taken))
    joined = known.join(once.filter("copies = 1").drop("copies"), "root", "left")
    return joined.withColumns(missing).drop("root")


def _struct(kind: DataType) -> str:
    return f"struct<value:{kind.simpleString()}>"
