"""Rows that are left of a comparison, as tasks of Python workers give them to Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ByteType, LongType, StringType, StructField, StructType

from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.digest import Digests

SIDE, DIGEST, REASON = "_lake_side", "_lake_digest", "_lake_reason"
# In the place of a side. The digest is how many rows of the batch a task had; it gave some without their columns.
COUNT, WITHOUT_COLUMNS = 2, 3
_STORED = "_lake_stored"
_LONGEST_REASON = 300


def left_columns(keys: StructType, stored: StructType | None = None) -> StructType:
    """Return the columns of rows that are left, of which :data:`REASON` is why a task could not compare.

    :param stored: columns of the batch that its rows have as well.
    """
    columns = [StructField(SIDE, ByteType()), *keys, StructField(DIGEST, LongType()), StructField(REASON, StringType())]
    more = enumerate(each.dataType for each in stored or ())
    return StructType([*columns, *(StructField(f"{_STORED}{place}", kind) for place, kind in more)])


def stored_columns(left: DataFrame, stored: StructType) -> DataFrame:
    """Return the columns of the batch, of the rows that are left of it."""
    columns = (sf.col(f"{_STORED}{place}").alias(each.name) for place, each in enumerate(stored))
    return left.filter(sf.col(SIDE) == 1).select(*columns)


def left_rows(
    schema: pa.Schema,
    side: int,
    keys: Sequence[pa.ChunkedArray],
    of_rows: Digests,
    stored: Sequence[pa.ChunkedArray] = (),
) -> pa.Table:
    """Return rows of a side that are left.

    :param schema: of :func:`left_columns`; ``of_rows`` are their digests.
    """
    count = len(of_rows)
    sides, digests = pa.array(np.full(count, side, np.int8)), pa.array(of_rows.view(np.int64))
    return _filled(schema, [sides, *keys, digests, pa.nulls(count, pa.string()), *stored], count)


def row_that_says(schema: pa.Schema, what: int, count: int = 0) -> pa.Table:
    """Return a row that says something of a task.

    :param what: :data:`COUNT` or :data:`WITHOUT_COLUMNS`.
    """
    places = {SIDE: pa.array([what]), DIGEST: pa.array([count])}
    return _filled(schema, [places.get(name, pa.nulls(1)) for name in schema.names], 1)


def _filled(schema: pa.Schema, columns: Sequence[Any], count: int) -> pa.Table:
    """Return a table whose last columns are NULL where they are not given."""
    empty = [pa.nulls(count)] * (len(schema) - len(columns))
    return pa.Table.from_arrays([*columns, *empty], names=schema.names).cast(schema)


def left_for(schema: pa.Schema, reason: str) -> pa.Table:
    """Return a row that says why a task could not compare."""
    return _filled(schema, [pa.array([reason]) if name == REASON else pa.nulls(1) for name in schema.names], 1)


def reason_of(error: Exception) -> str:
    """Return what an error says in a line."""
    first_line = str(error).partition("\n")[0]
    text = first_line if isinstance(error, LakeProviderError) else f"{type(error).__name__}: {first_line}"
    return text[:_LONGEST_REASON]


def numbered_tasks(spark: SparkSession, count: int) -> DataFrame:
    """Return numbers from 0, each of a task of its own."""
    return spark.range(0, count, 1, max(1, count))


def numbers_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """Yield the numbers that a task has of :func:`numbered_tasks`."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
