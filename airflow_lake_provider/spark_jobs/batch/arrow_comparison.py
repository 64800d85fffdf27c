"""Compare the rows of two sides by Arrow, in the Python workers of the executors.

One job. Its first tasks decode files: of a row its key and a digest of its values are left. They are put into buckets
by the key. Each bucket of a task is one value of Arrow's format, so that Spark moves few large values. Its second tasks
leave out the rows that both sides have. A worker has a decoded batch, 64 MiB of keys and digests, and one bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, ByteType, IntegerType, LongType, StringType, StructField, StructType

from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.batch.arrow_digest import Digests, digests
from airflow_lake_provider.spark_jobs.session.pinned_settings import with_shuffle_partitions
from airflow_lake_provider.spark_jobs.sql.older_pyspark import to_arrow

SIDE, DIGEST = "_lake_side", "_lake_digest"
# In the place of a side: the digest is how many rows of the batch a bucket had.
_COUNT = 2
_BUCKET, _ROWS, _REASON = "_lake_bucket", "_lake_rows", "_lake_reason"
_BLOCKS = StructType(
    [
        StructField(_BUCKET, IntegerType()),
        StructField(SIDE, ByteType()),
        StructField(_ROWS, BinaryType()),
        StructField(_REASON, StringType()),
    ]
)
# Of a bucket on the larger side, and of a task before it gives what it has to Spark.
_ROWS_OF_BUCKET = 1_000_000
_BYTES_KEPT = 64 << 20
_MOST_BUCKETS = 1 << 15
# Of hashes of keys: with so many bits for each, one of sixteen other rows passes.
_BITS_OF_KEY, _FEWEST_BITS = 16, 1 << 16
_LONGEST_REASON = 300


class RowReader(Protocol):
    """Rows of files that Python workers read; it travels to them by a broadcast."""

    @property
    def parts(self) -> Sequence[Any]:
        """Parts that are read one by one, each by a task."""

    def batches(self, part: Any) -> Iterator[pa.RecordBatch]:
        """Read a part.

        :raises Exception: it is not surely read as Spark reads it.
        """


@dataclass(frozen=True, kw_only=True)
class ParquetBatch:
    """A batch that is what its Parquet files hold.

    :param keys: names of its key columns.
    :param stored: names of the columns that are stored, the key included.
    :param compared: names of the columns of the table that are compared, behind its key columns.
    """

    files: Sequence[InputFile]
    keys: Sequence[str]
    stored: Sequence[str]
    compared: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class ArrowRows:
    """Both sides of a comparison as Python workers read them.

    :param table: key columns and then the others, in the types of the table; ``batch``: likewise.
    :param stored: rows of the batch in the columns that it stores, of which ``keys`` are the places of the key.
    """

    table: RowReader
    batch: RowReader
    stored: RowReader
    keys: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Unlike:
    """Rows of either side that the other one has not, with others of their keys.

    :param rows: :data:`SIDE`, 0 for the table and 1 for the batch, the key, and :data:`DIGEST`; cached.
    :param reason: why the sides cannot be compared so; else None.
    """

    rows: DataFrame
    count: int
    reason: str | None


def unlike_rows(
    spark: SparkSession, sides: ArrowRows, keys: StructType, table_rows: int, batch_rows: int, cached: list[DataFrame]
) -> Unlike:
    """Compare both sides in one job.

    A row is left out where its key is on each side once, and its digest is the same.

    :param keys: names and types of the key columns.
    :param table_rows: about how many rows the table has.
    :param batch_rows: how many the batch has, as Spark counts them.
    :param cached: takes the frame that is cached, before it is computed.
    """
    buckets = min(_MOST_BUCKETS, 1 + max(table_rows, batch_rows) // _ROWS_OF_BUCKET)
    readers = spark.sparkContext.broadcast((sides.table, sides.batch))
    parts = len(sides.table.parts) + len(sides.batch.parts)
    columns = StructType([StructField(SIDE, ByteType()), *keys, StructField(DIGEST, LongType())])
    columns.add(StructField(_REASON, StringType()))
    blocks = _parts(spark, parts).mapInArrow(partial(_blocks, readers, len(keys), buckets), _BLOCKS)
    schema, width = to_arrow_schema(columns), len(keys)
    with with_shuffle_partitions(spark, buckets):
        cached.append(
            unlike := blocks.groupBy(_BUCKET)
            .applyInArrow(lambda of_bucket: _left_or_reason(schema, width, of_bucket), columns)
            .persist()
        )
        read = sf.coalesce(sf.sum(sf.when(sf.col(SIDE) == _COUNT, sf.col(DIGEST))), sf.lit(0))
        count, reason, batch_rows_read = unlike.agg(sf.count(sf.lit(1)), sf.max(_REASON), read).collect()[0]
    # Keys that nobody has read would be deleted.
    if reason is None and batch_rows_read != batch_rows:
        reason = f"workers have read {batch_rows_read} rows of the batch, and Spark {batch_rows}"
    return Unlike(rows=unlike.drop(_REASON), count=count, reason=reason)


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
    return _parts(spark, len(sides.stored.parts)).mapInArrow(chosen, columns)


def with_digest(rows: DataFrame, keys: int) -> DataFrame:
    """Return the key columns of rows, and :data:`DIGEST` of the others.

    :param keys: how many columns come first that are the key.
    """
    columns = StructType([*rows.schema.fields[:keys], StructField(DIGEST, LongType())])
    return rows.mapInArrow(partial(_digested, keys), columns)


def _parts(spark: SparkSession, count: int) -> DataFrame:
    """Return the numbers of parts, each of a task of its own."""
    return spark.range(0, count, 1, max(1, count))


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _blocks(
    readers: Broadcast[tuple[RowReader, RowReader]], keys: int, buckets: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield blocks of keys and digests of the parts of a task; what goes wrong is a block, and not a failed task."""
    of_table = len(readers.value[0].parts)
    for number in _numbers(batches):
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
            yield _batch(_BLOCKS, [[0], [side], [None], [_reason_of(error)]])


def _reason_of(error: Exception) -> str:
    first_line = str(error).partition("\n")[0]
    text = first_line if isinstance(error, LakeProviderError) else f"{type(error).__name__}: {first_line}"
    return text[:_LONGEST_REASON]


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
    reasons = blocks.column(_REASON).drop_null()
    if len(reasons):
        return _table_of_reason(schema, reasons[0].as_py())
    try:
        return _left(schema, keys, blocks)
    # Such as a bucket of more than 2 GiB of texts, which Arrow does not put into one array.
    except Exception as error:  # noqa: BLE001
        return _table_of_reason(schema, _reason_of(error))


def _table_of_reason(schema: pa.Schema, reason: str) -> pa.Table:
    empty = [pa.nulls(1, column.type) for column in schema]
    return pa.Table.from_arrays([*empty[:-1], pa.array([reason], schema.types[-1])], schema=schema)


def _left(schema: pa.Schema, keys: int, blocks: pa.Table) -> pa.Table:
    sides = [_Side.of(blocks, side, keys) for side in range(2)]
    table, batch = sides
    if table.rows is not None and batch.rows is not None:
        table.leave_out_alike(batch)
    left = [each.left(schema, side) for side, each in enumerate(sides) if each.rows is not None]
    batch_rows = 0 if batch.rows is None else batch.rows.num_rows
    count = [pa.array([_COUNT], pa.int8()), *(pa.nulls(1, kind) for kind in schema.types[1:-2])]
    counted = pa.Table.from_arrays([*count, pa.array([batch_rows]), pa.nulls(1, pa.string())], schema=schema)
    return pa.concat_tables([*left, counted])


@dataclass
class _Side:
    """Rows of a bucket on one side, by the hashes of their keys.

    :param rows: the keys and the digests; None where there are none.
    """

    rows: pa.Table | None
    hashes: Digests
    order: NDArray[np.int64]
    stays: NDArray[np.bool_]

    @classmethod
    def of(cls, blocks: pa.Table, side: int, keys: int) -> _Side:
        of_side = blocks.filter(pc.equal(blocks.column(SIDE), side)).column(_ROWS)
        parts = [pa.ipc.open_stream(block.as_buffer()).read_all() for block in of_side]
        rows = pa.concat_tables(parts).combine_chunks() if parts else None
        columns = [] if rows is None else [column.combine_chunks() for column in rows.columns[:keys]]
        count = 0 if rows is None else rows.num_rows
        hashes = digests(columns, count)
        order = np.argsort(hashes)
        return cls(rows, hashes[order], order, np.ones(count, bool))

    def leave_out_alike(self, other: _Side) -> None:
        """Leave out the rows of both that are the same, and the only ones of their keys."""
        places = np.searchsorted(self.hashes, other.hashes)
        places[places == len(self.hashes)] = 0
        same = (self.hashes[places] == other.hashes) & (self._values()[places] == other._values())
        same &= self._has_key_alone()[places] & other._has_key_alone()
        self.stays[places[same]] = False
        other.stays[same] = False

    def _values(self) -> Digests:
        assert self.rows is not None
        values: Digests = self.rows.column(self.rows.num_columns - 1).to_numpy()
        return values[self.order]

    def _has_key_alone(self) -> NDArray[np.bool_]:
        """Tell the rows whose hash no other one has, and that have no NULL in the key."""
        assert self.rows is not None
        alone = np.ones(len(self.hashes), bool)
        repeated = self.hashes[1:] == self.hashes[:-1]
        alone[1:] &= ~repeated
        alone[:-1] &= ~repeated
        for column in self.rows.columns[:-1]:
            if column.null_count:
                alone &= ~np.asarray(column.is_null())[self.order]
        return alone

    def left(self, schema: pa.Schema, side: int) -> pa.Table:
        assert self.rows is not None
        rows = self.rows.take(pa.array(self.order[self.stays]))
        digest = pa.array(rows.column(rows.num_columns - 1).to_numpy().view(np.int64))
        count = rows.num_rows
        columns = [
            pa.repeat(pa.scalar(side, pa.int8()), count),
            *rows.columns[:-1],
            digest,
            pa.nulls(count, pa.string()),
        ]
        return pa.Table.from_arrays(columns, names=schema.names).cast(schema)


def _chosen(
    shared: Broadcast[Any], keys: Sequence[int], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    stored, bits = shared.value
    for number in _numbers(batches):
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
