"""Compare a range of keys side by side: a worker reads both sides in the order of a key column, a batch at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from airflow_lake_provider.spark_jobs.batch.arrow_comparison.digest import Digests, digests
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.key_order import KeyOrder, KeyRange, Run
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.left_rows import (
    COUNT,
    WITHOUT_COLUMNS,
    left_columns,
    left_for,
    left_rows,
    numbered_tasks,
    numbers_of,
    reason_of,
    row_that_says,
)
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.pairs import KeyHashes, Places, is_equal
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.sides import Readers, RowReader, StoredColumns

# Of rows of the batch that a task gives whole. Are there more, it costs less to read them again than to keep them.
_MOST_BYTES_GIVEN = 64 << 20


def unlike_by_ranges(
    spark: SparkSession, readers: Broadcast[Readers], keys: StructType, stored: StoredColumns, order: KeyOrder
) -> DataFrame:
    """Return the rows that are left, in a task for each range.

    :param keys: names and types of the key columns.
    """
    columns = left_columns(keys, stored.columns)
    shared = spark.sparkContext.broadcast(order)
    compared = partial(
        _compared, readers, shared, to_arrow_schema(columns), len(keys), stored.places, _MOST_BYTES_GIVEN
    )
    return numbered_tasks(spark, len(order.ranges)).mapInArrow(compared, columns)


def _compared(
    readers: Broadcast[Readers],
    order: Broadcast[KeyOrder],
    schema: pa.Schema,
    keys: int,
    stored: Sequence[int],
    most_bytes_given: int,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield what is left of the ranges of a task; what goes wrong is a row, and not a failed task."""
    for number in numbers_of(batches):
        of_range, place = order.value.ranges[number], order.value.place
        sides = [
            OrderedRows(reader, of_range.of_side(side), of_range, place) for side, reader in enumerate(readers.value)
        ]
        given = 0
        try:
            for table, batch in unlike_in_range(sides, keys, place):
                yield from left_rows(schema, 0, table.columns[:keys], _digests(table, keys)).to_batches()
                given += batch.nbytes
                columns = [batch.column(each) for each in stored] if given <= most_bytes_given else ()
                yield from left_rows(schema, 1, batch.columns[:keys], _digests(batch, keys), columns).to_batches()
            yield from row_that_says(schema, COUNT, sides[1].rows).to_batches()
            if given > most_bytes_given:
                yield from row_that_says(schema, WITHOUT_COLUMNS).to_batches()
        # Whatever it is, Spark compares the sides then, and says what it is.
        except Exception as error:  # noqa: BLE001
            yield from left_for(schema, reason_of(error)).to_batches()


def _digests(rows: pa.Table, keys: int) -> Digests:
    return digests([column.combine_chunks() for column in rows.columns[keys:]], rows.num_rows)


class OrderedRows:
    """Rows of a side that have keys of a range.

    :param runs: of the side, by their least values.
    :param place: of the key column whose order it is.
    """

    def __init__(self, reader: RowReader, runs: Iterable[Run], keys: KeyRange, place: int) -> None:
        self._reader, self._keys, self._place = reader, keys, place
        self._waiting = deque(runs)
        self._open: list[_Stream] = []
        self.rows = 0

    @property
    def mark(self) -> Any:
        """Value below which all rows were read; None where all were."""
        waiting = [self._waiting[0].lower] if self._waiting else []
        return min([*(stream.last for stream in self._open if not stream.is_read), *waiting], default=None)

    def read_on(self) -> None:
        """Read a batch at the mark."""
        mark = self.mark
        while self._waiting and self._waiting[0].lower <= mark:
            self._open.append(_Stream(self._reader, self._waiting.popleft(), self._keys, self._place))
        for stream in self._open:
            if not stream.is_read and stream.last == mark:
                self.rows += stream.read_on()
                return

    def below(self, mark: Any) -> pa.Table:
        """Take the rows with lesser values out; all of them for None."""
        taken = [stream.below(mark) for stream in self._open]
        self._open = [stream for stream in self._open if stream.rows.num_rows or not stream.is_read]
        return pa.concat_tables([self._reader.schema.empty_table(), *taken])


class _Stream:
    """Rows of a run in their order.

    :ivar last: value of the last row that was read, or the least one; ``rows``: those that nobody has taken yet.
    """

    def __init__(self, reader: RowReader, run: Run, keys: KeyRange, place: int) -> None:
        self._keys, self._place = keys, place
        self.last, self.is_read, self.rows = run.lower, False, reader.schema.empty_table()
        self._batches = _rows_of_run(reader.batches(run.part), run)
        if not run.is_sorted:
            rows = pa.Table.from_batches(self._batches, reader.schema)
            self._batches = iter(rows.take(pc.sort_indices(rows.column(place))).to_batches())

    def read_on(self) -> int:
        """Read a batch, and return how many rows of it are in the range."""
        batch = next(self._batches, None)
        if batch is None:
            self.is_read = True
            return 0
        values = batch.column(self._place)
        first, last = values[0].as_py(), values[-1].as_py()
        if first < self.last or pc.all(pc.less_equal(values[:-1], values[1:])).as_py() is False:
            raise ValueError("a file has changed: its keys were in order before")
        begin = 0 if self._keys.lower is None else _below(values, self._keys.lower)
        end = len(values) if self._keys.end is None else _below(values, self._keys.end)
        rows = batch.slice(begin, max(0, end - begin))
        self.last, self.is_read = last, end < len(values)
        self.rows = pa.concat_tables([self.rows, pa.Table.from_batches([rows])])
        return int(rows.num_rows)

    def below(self, mark: Any) -> pa.Table:
        """Take the rows with lesser values out."""
        count = self.rows.num_rows if mark is None else _below(self.rows.column(self._place), mark)
        taken, self.rows = self.rows.slice(0, count), self.rows.slice(count)
        return taken


def _rows_of_run(batches: Iterable[pa.RecordBatch], run: Run) -> Iterator[pa.RecordBatch]:
    before, left = run.begin, run.rows
    for batch in batches:
        rows = batch.slice(before, left)
        before, left = max(0, before - batch.num_rows), left - rows.num_rows
        if rows.num_rows:
            yield rows
        if not left:
            return


def _below(values: pa.Array | pa.ChunkedArray, end: Any) -> int:
    """Return how many values, which ascend, are less."""
    return int(pc.sum(pc.less(values, pa.scalar(end, values.type))).as_py() or 0)


def unlike_in_range(sides: Sequence[OrderedRows], keys: int, place: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Read both sides, and yield the rows of each that the other one has not.

    :param keys: how many columns come first that are the key.
    :param place: of the key column whose order it is.
    """
    while True:
        mark = min((side.mark for side in sides if side.mark is not None), default=None)
        table, batch = (side.below(mark) for side in sides)
        if table.num_rows or batch.num_rows:
            yield _unlike(table, batch, keys, place)
        if mark is None:
            return
        next(side for side in sides if side.mark == mark).read_on()


def _unlike(table: pa.Table, batch: pa.Table, keys: int, place: int) -> tuple[pa.Table, pa.Table]:
    sides = (table, batch)
    if _have_same_keys(table, batch, keys, place):
        is_same = is_equal(table.columns[keys:], batch.columns[keys:]) if table.num_columns > keys else None
        stays = np.zeros(table.num_rows, bool) if is_same is None else ~is_same
        return table.filter(pa.array(stays)), batch.filter(pa.array(stays))
    hashes = [_key_hashes(side, keys) for side in sides]
    pairs = hashes[0].pairs(hashes[1])
    # As both sides lie alike, few rows move then.
    order = np.argsort(pairs[0])
    pairs = pairs[0][order], pairs[1][order]
    paired = [_rows(side, places) for side, places in zip(sides, pairs, strict=True)]
    is_same = is_equal(*(side.columns for side in paired))
    return _without(table, pairs[0][is_same]), _without(batch, pairs[1][is_same])


def _have_same_keys(table: pa.Table, batch: pa.Table, keys: int, place: int) -> bool:
    """Tell whether the rows have the same keys in the same order, each once."""
    values = table.column(place)
    if table.num_rows != batch.num_rows or any(column.null_count for column in table.columns[:keys]):
        return False
    if pc.all(pc.less(values[:-1], values[1:])).as_py() is False:
        return False
    pairs = zip(table.columns[:keys], batch.columns[:keys], strict=True)
    return all(pc.all(pc.equal(*pair), skip_nulls=False).as_py() for pair in pairs)


def _key_hashes(rows: pa.Table, keys: int) -> KeyHashes:
    return KeyHashes.of([column.combine_chunks() for column in rows.columns[:keys]], rows.num_rows)


def _rows(rows: pa.Table, places: Places) -> pa.Table:
    is_all = len(places) == rows.num_rows and bool((places[:-1] < places[1:]).all())
    return rows if is_all else rows.take(pa.array(places))


def _without(rows: pa.Table, places: Places) -> pa.Table:
    stays = np.ones(rows.num_rows, bool)
    stays[places] = False
    return rows.filter(pa.array(stays))
