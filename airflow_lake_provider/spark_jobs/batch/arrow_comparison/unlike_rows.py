"""Find the rows that the other side has not, and read those of some keys.

Where both sides lie in the order of a key column, each task reads a range of it from either side. Else a row becomes
its key and a digest, and moves to a bucket of its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from airflow_lake_provider.contracts.reports.failure_causes import CHANGED_MEANWHILE
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.digest import Digests, digests
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.key_buckets import buckets_of, unlike_by_buckets
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.key_order import key_order
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.left_rows import (
    COUNT,
    DIGEST,
    REASON,
    SIDE,
    WITHOUT_COLUMNS,
    numbered_tasks,
    numbers_of,
    stored_columns,
)
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.ordered_rows import unlike_by_ranges
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.sides import ArrowRows
from airflow_lake_provider.spark_jobs.session.pinned_settings import with_shuffle_partitions
from airflow_lake_provider.spark_jobs.sql.older_pyspark import to_arrow

# Of hashes of keys: with so many bits for each, one of sixteen other rows passes.
_BITS_OF_KEY, _FEWEST_BITS = 16, 1 << 16


@dataclass(frozen=True, kw_only=True)
class Unlike:
    """Rows of either side that the other one has not, with others of their keys.

    :param rows: :data:`SIDE`, 0 for the table and 1 for the batch, the key, and :data:`DIGEST`; cached.
    :param place: of the key column whose ranges were compared; None where rows moved to buckets.
    :param stored: those of the batch in the columns that it stores; None where they are to be read.
    :param reason: why the sides cannot be compared so; else None.
    """

    rows: DataFrame
    count: int
    place: int | None
    stored: DataFrame | None
    reason: str | None


def unlike_rows(
    spark: SparkSession,
    sides: ArrowRows,
    keys: StructType,
    stored: StructType,
    table_rows: int,
    batch_rows: int,
    cached: list[DataFrame],
) -> Unlike:
    """Compare both sides.

    A row is left out where its key is on each side once, and its values are the same.

    :param keys: names and types of the key columns.
    :param stored: columns that the batch stores.
    :param table_rows: about how many rows the table has.
    :param batch_rows: how many the batch has, as Spark counts them.
    :param cached: takes the frame that is cached, before it is computed.
    """
    readers = spark.sparkContext.broadcast((sides.table, sides.batch))
    parts = len(sides.table.parts) + len(sides.batch.parts)
    order = key_order(spark, readers, len(keys), parts)
    buckets = buckets_of(max(table_rows, batch_rows))
    if order is not None:
        rows = unlike_by_ranges(spark, readers, keys, sides.stored_columns(stored), order)
    else:
        rows = unlike_by_buckets(spark, readers, keys, parts, buckets)
    side, digest = sf.col(SIDE), sf.col(DIGEST)
    with with_shuffle_partitions(spark, buckets):
        cached.append(unlike := rows.persist())
        read = sf.coalesce(sf.sum(sf.when(side == COUNT, digest)), sf.lit(0))
        without = sf.count_if(side == WITHOUT_COLUMNS)
        count, reason, batch_rows_read, left_out = unlike.agg(sf.count(side), sf.max(REASON), read, without).collect()[
            0
        ]
    # Keys that nobody has read would be deleted.
    if reason is None and batch_rows_read != batch_rows:
        reason = f"workers have read {batch_rows_read} rows of the batch, and Spark {batch_rows}"
    unlike = _all_read(unlike)
    return Unlike(
        rows=unlike.select(SIDE, *keys.names, DIGEST),
        count=count,
        place=None if order is None else order.place,
        stored=None if order is None or left_out else stored_columns(unlike, stored),
        reason=reason,
    )


def _all_read(unlike: DataFrame) -> DataFrame:
    """Let rows that were lost with an executor, and cannot be read again, fail the job that needs them."""
    text = f"{CHANGED_MEANWHILE}rows that an executor has lost are not read again: "
    lost = sf.raise_error(sf.concat(sf.lit(text), sf.col(REASON)))
    # Not a filter: Spark would first leave out the row of a reason, which has no side.
    return unlike.withColumn(SIDE, sf.when(sf.col(REASON).isNotNull(), lost).otherwise(sf.col(SIDE)))


def rows_of_keys(spark: SparkSession, sides: ArrowRows, keys: DataFrame, columns: StructType, count: int) -> DataFrame:
    """Return rows of the batch among which are all that have one of some keys, and few others.

    :param keys: the key columns in the types of the table.
    :param columns: of the rows.
    :param count: of the keys.
    """
    hashes = to_arrow(with_digest(keys, 0)).column(0).to_numpy().view(np.uint64)
    bits = np.zeros(max(_FEWEST_BITS, 1 << (count * _BITS_OF_KEY).bit_length()), bool)
    bits[_places(hashes, bits)] = True
    shared = spark.sparkContext.broadcast((sides.stored, bits))
    chosen = partial(_chosen, shared, sides.keys, to_arrow_schema(columns))
    return numbered_tasks(spark, len(sides.stored.parts)).mapInArrow(chosen, columns)


def with_digest(rows: DataFrame, keys: int) -> DataFrame:
    """Return the key columns of rows, and :data:`DIGEST` of the others.

    :param keys: how many columns come first that are the key.
    """
    columns = StructType([*rows.schema.fields[:keys], StructField(DIGEST, LongType())])
    return rows.mapInArrow(partial(_digested, keys), columns)


def _chosen(shared: Any, keys: Sequence[int], schema: pa.Schema, batches: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    stored, bits = shared.value
    for number in numbers_of(batches):
        for rows in stored.batches(stored.parts[number]):
            passes = bits[_places(digests([rows.column(place) for place in keys], rows.num_rows), bits)]
            left = rows.filter(pa.array(passes))
            # Times of some files have no zone, or another one.
            columns = [column.cast(kind) for column, kind in zip(left.columns, schema.types, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _places(hashes: Digests, bits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the bit of each hash."""
    return (hashes & np.uint64(len(bits) - 1)).astype(np.int64)


def _digested(keys: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        of_rows = pa.array(digests(batch.columns[keys:], batch.num_rows).view(np.int64))
        yield pa.RecordBatch.from_arrays([*batch.columns[:keys], of_rows], [*batch.schema.names[:keys], DIGEST])
