"""The buckets that a batch has keys in, where a table is partitioned by a hash of them.

Iceberg derives them itself from few listed keys. Ranges, which bound more keys than that, say nothing about a hash.
"""

from __future__ import annotations

import re

from pyspark.sql import functions as sf
from pyspark.sql.types import StringType

from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name

_BUCKET = re.compile(r"bucket\[(\d+)\]")
# With more of the buckets than this share, the job that tells them costs more than the files that they spare.
_MOST_HIT = 0.8
# Values per bucket from which on nearly all buckets are hit.
_MOST_VALUES = 2


def bucket_pruning(
    table: IcebergTable, commit: KeyedCommit, column: str, alias: str, values: int
) -> tuple[str, str] | None:
    """Return a SQL condition and the words for it; None where it spares nothing. A job, where it may.

    :param column: of the key.
    :param alias: of the table in the statement.
    :param values: how many different ones of the column the batch has at least.
    """
    buckets = _buckets(table, column)
    if buckets is None or values > _MOST_VALUES * buckets:
        return None
    function = f"{quoted_name(table.catalog)}.system.bucket({buckets}, {{}})"
    key = quoted_name(column)
    # Of a text that is no UTF-8 Iceberg's writer hashes another one than Spark.
    sure = f"is_valid_utf8({key})" if isinstance(commit.rows.select(key).schema[0].dataType, StringType) else "true"
    hit = commit.rows.select(sf.expr(f"CASE WHEN {sure} THEN {function.format(key)} END")).distinct().collect()
    if not hit or (None,) in hit or len(hit) > _MOST_HIT * buckets:
        return None
    listed = ", ".join(str(bucket) for (bucket,) in sorted(hit))
    return f"{function.format(f'{alias}.{key}')} IN ({listed})", f"{len(hit)} buckets of {column}"


def _buckets(table: IcebergTable, column: str) -> int | None:
    """Return how many buckets the table has by a column."""
    schema = table.java.schema()
    for field in table.facts.shape.partition_fields():
        found = _BUCKET.fullmatch(field.transform)
        if found and str(schema.findColumnName(field.source_id)).lower() == column.lower():
            return int(found[1])
    return None
