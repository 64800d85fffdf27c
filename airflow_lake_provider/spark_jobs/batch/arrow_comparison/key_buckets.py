"""Compare rows by buckets of their keys, in whatever order they lie.

One job. Its first tasks decode files: of a row its key and a digest of its values are left. They are put into buckets
by the key. Each bucket of a task is one value of Arrow's format, so that Spark moves few large values. Its second tasks
leave out the rows that both sides have. A worker has a decoded batch, 64 MiB of keys and digests, and one bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, ByteType, IntegerType, StringType, StructField, StructType

from airflow_lake_provider.spark_jobs.batch.arrow_comparison.digest import Digests, digests
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.left_rows import (
    COUNT,
    REASON,
    SIDE,
    left_columns,
    left_for,
    left_rows,
    numbered_tasks,
    numbers_of,
    reason_of,
    row_that_says,
)
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.pairs import KeyHashes
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.sides import Readers

_BUCKET, _ROWS = "_lake_bucket", "_lake_rows"
_BLOCKS = StructType(
    [
        StructField(_BUCKET, IntegerType()),
        StructField(SIDE, ByteType()),
        StructField(_ROWS, BinaryType()),
        StructField(REASON, StringType()),
    ]
)
# Of a bucket on the larger side, and of a task before it gives what it has to Spark.
_ROWS_OF_BUCKET = 1_000_000
_BYTES_KEPT = 64 << 20
_MOST_BUCKETS = 1 << 15


def buckets_of(rows: int) -> int:
    """Return how many buckets so many rows take, of the larger side."""
    return min(_MOST_BUCKETS, 1 + rows // _ROWS_OF_BUCKET)


def unlike_by_buckets(
    spark: SparkSession, readers: Broadcast[Readers], keys: StructType, parts: int, buckets: int
) -> DataFrame:
    """Return the rows that are left, in as many tasks as there are buckets.

    :param keys: names and types of the key columns.
    :param parts: of both sides together.
    """
    columns, width = left_columns(keys), len(keys)
    blocks = numbered_tasks(spark, parts).mapInArrow(partial(_blocks, readers, width, buckets), _BLOCKS)
    schema = to_arrow_schema(columns)
    return blocks.groupBy(_BUCKET).applyInArrow(lambda bucket: _left_or_reason(schema, width, bucket), columns)


def _blocks(
    readers: Broadcast[Readers], keys: int, buckets: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield blocks of keys and digests of the parts of a task; what goes wrong is a block, and not a failed task."""
    of_table = len(readers.value[0].parts)
    for number in numbers_of(batches):
        side = int(number >= of_table)
        reader = readers.value[side]
        kept = _Kept(side, buckets)
        try:
            for batch in reader.batches(reader.parts[number - side * of_table]):
                kept.add(batch.columns[:keys], digests(batch.columns[keys:], batch.num_rows))
                if kept.size > _BYTES_KEPT:
                    yield kept.blocks()
            yield kept.blocks()
        # Whatever it is, Spark compares the sides then, and says what it is.
        except Exception as error:  # noqa: BLE001
            yield _batch(_BLOCKS, [[0], [side], [None], [reason_of(error)]])


class _Kept:
    """Keys and digests of a side that Spark has not got yet."""

    def __init__(self, side: int, buckets: int) -> None:
        self._side, self._buckets = side, buckets
        self._batches: list[pa.RecordBatch] = []
        self.size = 0

    def add(self, keys: Sequence[pa.Array], of_rows: Digests) -> None:
        """Keep a batch of them."""
        batch = pa.RecordBatch.from_arrays([*keys, pa.array(of_rows)], [str(place) for place in range(len(keys) + 1)])
        self._batches.append(batch)
        self.size += batch.nbytes

    def blocks(self) -> pa.RecordBatch:
        """Return all of them, a block for each bucket, and keep none."""
        if not self._batches:
            return _batch(_BLOCKS, [[], [], [], []])
        rows = pa.Table.from_batches(self._batches).combine_chunks()
        self._batches, self.size = [], 0
        keys = [column.combine_chunks() for column in rows.columns[:-1]]
        # The upper bits: a bucket's rows are told apart by all.
        of_rows = ((digests(keys, rows.num_rows) >> np.uint64(32)) % np.uint64(self._buckets)).astype(np.uint16)
        ends = np.cumsum(np.bincount(of_rows, minlength=self._buckets))
        rows = rows.take(pa.array(np.argsort(of_rows, kind="stable")))
        begins = [0, *ends[:-1].tolist()]
        chosen = [(bucket, begin, int(end)) for bucket, (begin, end) in enumerate(zip(begins, ends, strict=True))]
        chosen = [each for each in chosen if each[1] < each[2]]
        blocks = [_written(rows.slice(begin, end - begin)) for _, begin, end in chosen]
        places = [bucket for bucket, _, _ in chosen]
        return _batch(_BLOCKS, [places, [self._side] * len(places), blocks, [None] * len(places)])


def _batch(columns: StructType, values: Sequence[list[Any]]) -> pa.RecordBatch:
    schema = to_arrow_schema(columns)
    arrays = [pa.array(of_column, column.type) for of_column, column in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _written(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def _left_or_reason(schema: pa.Schema, keys: int, blocks: pa.Table) -> pa.Table:
    """Return what is left of a bucket, as :func:`unlike_rows` says; of what goes wrong, the reason alone.

    :param schema: of what is returned.
    """
    reasons = blocks.column(REASON).drop_null()
    if len(reasons):
        return left_for(schema, reasons[0].as_py())
    try:
        return _left(schema, keys, blocks)
    # Such as a bucket of more than 2 GiB of texts, which Arrow does not put into one array.
    except Exception as error:  # noqa: BLE001
        return left_for(schema, reason_of(error))


def _left(schema: pa.Schema, keys: int, blocks: pa.Table) -> pa.Table:
    table, batch = (_rows_of_side(blocks, side) for side in range(2))
    hashes = [_key_hashes(rows, keys) for rows in (table, batch)]
    places = hashes[0].pairs(hashes[1])
    is_same = _digests_of(table)[places[0]] == _digests_of(batch)[places[1]]
    left = [
        _without(schema, side, rows, of_side[is_same])
        for side, (rows, of_side) in enumerate(zip((table, batch), places, strict=True))
        if rows is not None
    ]
    return pa.concat_tables([*left, row_that_says(schema, COUNT, 0 if batch is None else batch.num_rows)])


def _rows_of_side(blocks: pa.Table, side: int) -> pa.Table | None:
    """Return the keys and digests of a side; None where there are none."""
    of_side = blocks.filter(pc.equal(blocks.column(SIDE), side)).column(_ROWS)
    parts = [pa.ipc.open_stream(block.as_buffer()).read_all() for block in of_side]
    return pa.concat_tables(parts).combine_chunks() if parts else None


def _key_hashes(rows: pa.Table | None, keys: int) -> KeyHashes:
    if rows is None:
        return KeyHashes.of([], 0)
    return KeyHashes.of([column.combine_chunks() for column in rows.columns[:keys]], rows.num_rows)


def _digests_of(rows: pa.Table | None) -> Digests:
    values: Digests = np.zeros(0, np.uint64) if rows is None else rows.columns[-1].to_numpy()
    return values


def _without(schema: pa.Schema, side: int, rows: pa.Table, places: NDArray[np.int64]) -> pa.Table:
    stays = np.ones(rows.num_rows, bool)
    stays[places] = False
    left = rows.filter(pa.array(stays))
    return left_rows(schema, side, left.columns[:-1], _digests_of(left))
