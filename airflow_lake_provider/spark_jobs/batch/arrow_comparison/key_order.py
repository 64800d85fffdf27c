"""Cut both sides into ranges of a key column, where their row groups lie in its order.

An export by primary key, and a table that was loaded from one, are so. Each range is then compared by a task that reads
it from either side, and no row moves between tasks. A first job reads the key columns, and nothing is taken from the
statistics of files: of texts, their order is not Arrow's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.batch.arrow_comparison.sides import Readers

_ORDERED = (pa.types.is_signed_integer, pa.types.is_date32, pa.types.is_timestamp, pa.types.is_string)
# Of files, for each task: fewer do not pay for it, more are not needed.
_LEAST_BYTES, _MOST_BYTES = 16 << 20, 128 << 20
_TASKS_OF_CORE = 4
# Of what lies between two cuts, what may lie across the second.
_MOST_ACROSS = 0.25
# To decode all files twice still takes less than to move rows.
_MOST_READ = 2
# What the longest task may read, over the part that each core has.
_MOST_UNEVEN = 1.5
# Of row groups that a worker reads at once, as they are and decoded.
_MOST_OPEN = 320 << 20
# Of what is read in order: a batch in Arrow's format.
_BATCH_BYTES = 16 << 20
# Rows of one value of the column, on both sides, which a worker keeps until all are there.
_MOST_OF_VALUE = 100_000
# Of rows without an order: to count all takes 0.4 s for a million texts, ten times as long.
_SAMPLE = 16_384
# Of a row group: each is found behind those before it. A step that is longer than this part of all begins one.
_MOST_RUNS, _LONG_STEP = 16, 16
# In Arrow's format: a worker rather sorts such a row group.
_SMALL = 16 << 20


@dataclass(frozen=True, kw_only=True)
class Run:
    """Rows of a row group that ascend in a key column; all of it where there would be many runs.

    Small row groups in turn are one. Spark puts several files of an export into a task, and so into a row group of the
    table that it writes.

    :param part: what the side's reader reads to have the row group.
    :param begin: rows of the row group before the run.
    :param lower: least value; ``upper``: the greatest.
    :param most: rows of the value that most rows have, about as many where they are not sorted.
    :param size: bytes in the file, and ``read`` with what is read before it.
    :param kept: bytes that a worker has while it reads: a compressed row group, and what is decoded of it.
    """

    side: int
    part: Any
    begin: int
    rows: int
    lower: Any
    upper: Any
    is_sorted: bool
    most: int
    size: int
    read: int
    kept: int


@dataclass(frozen=True, kw_only=True)
class KeyRange:
    """Runs that have keys of a range.

    :param lower: least value of the column; None of the first range.
    :param end: the value behind the greatest; None of the last range.
    :param runs: by their least values.
    """

    lower: Any
    end: Any
    runs: tuple[Run, ...]

    def of_side(self, side: int) -> list[Run]:
        """Return those of a side, in their order."""
        return [run for run in self.runs if run.side == side]


@dataclass(frozen=True, kw_only=True)
class KeyOrder:
    """Ranges of a key column.

    :param place: of the column among those of the key.
    """

    place: int
    ranges: tuple[KeyRange, ...]


# Of a row group, for each key column: None of one that has no order.
Runs = tuple[tuple[Run, ...] | None, ...]


def key_order(spark: SparkSession, readers: Broadcast[Readers], keys: int, parts: int) -> KeyOrder | None:
    """Read the key columns of both sides, and cut them into ranges.

    :param keys: how many columns come first that are the key.
    :param parts: of both sides together.
    :return: None where no key column has an order that both sides follow.
    """
    context = spark.sparkContext
    if not any(_has_order(kind) for kind in readers.value[0].schema.types[:keys]):
        return None
    # A task of a Python worker costs a tenth of a second, and few read these columns for longer.
    tasks = min(parts, 2 * context.defaultParallelism)
    read = context.parallelize(range(parts), tasks).flatMap(partial(_row_groups, readers, keys)).collect()
    # What a worker cannot read has its reason said by those that compare.
    groups = [group for group in read if group is not None]
    return ordered_by(groups, context.defaultParallelism) if len(groups) == len(read) else None


def ordered_by(groups: Sequence[Runs], cores: int) -> KeyOrder | None:
    """Cut both sides into ranges of the first key column that serves.

    :param groups: row groups of both sides.
    :param cores: that compare at once.
    """
    for place, of_groups in enumerate(zip(*groups, strict=True)):
        if (ranges := _ranges(of_groups, cores)) is not None:
            return KeyOrder(place=place, ranges=ranges)
    return None


def _has_order(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in _ORDERED)


def _row_groups(readers: Broadcast[Readers], keys: int, number: int) -> Iterator[Runs | None]:
    of_table = len(readers.value[0].parts)
    side = int(number >= of_table)
    reader = readers.value[side]
    of_keys = reader.of_columns(keys)
    try:
        for part, size, decoded in reader.row_groups(reader.parts[number - side * of_table]):
            rows = pa.Table.from_batches(of_keys.batches(part), of_keys.schema)
            if rows.num_rows:
                columns = (column.combine_chunks() for column in rows.columns)
                yield tuple(runs_of(values, side, part, size, decoded) for values in columns)
    except Exception:  # noqa: BLE001  # a failed task would be tried again
        yield None


def runs_of(values: pa.Array, side: int, part: Any, size: int, decoded: int) -> tuple[Run, ...] | None:
    """Return the runs of a row group in a key column; None where it has NULL or a type without an order.

    :param size: bytes of the row group in the file, and ``decoded`` in Arrow's format.
    """
    if values.null_count or not _has_order(values.type):
        return None
    rows = len(values)
    begins = [0, *_breaks(values)]
    is_sorted = len(begins) <= (1 if decoded <= _SMALL else _MOST_RUNS)
    begins = begins if is_sorted else [0]
    runs = []
    for begin, end in pairwise([*begins, rows]):
        of_run = values[begin:end]
        ends = (of_run[0], of_run[-1]) if is_sorted else pc.min_max(of_run).values()
        lower, upper = (each.as_py() for each in ends)
        run = Run(
            side=side,
            part=part,
            begin=begin,
            rows=end - begin,
            lower=lower,
            upper=upper,
            is_sorted=is_sorted,
            most=_most_of_value(of_run, is_sorted=is_sorted),
            size=size * (end - begin) // rows,
            read=size * end // rows,
            # What is sorted is copied.
            kept=size + (min(decoded, _BATCH_BYTES) if is_sorted else 2 * decoded),
        )
        runs.append(run)
    return tuple(runs)


def _breaks(values: pa.Array) -> list[int]:
    """Return the rows before which values descend, or jump."""
    descends = pc.greater(values[:-1], values[1:]).to_numpy(zero_copy_only=False)
    if not pa.types.is_string(values.type):
        numbers = values.view(f"int{values.type.bit_width}").to_numpy().astype(np.float64)
        descends = descends | (np.diff(numbers) > np.ptp(numbers) / _LONG_STEP)
    breaks: list[int] = (np.flatnonzero(descends) + 1).tolist()
    return breaks


def _most_of_value(values: pa.Array, *, is_sorted: bool) -> int:
    if not is_sorted:
        step = -(-len(values) // _SAMPLE)
        return int(pc.max(pc.value_counts(values[::step]).field("counts")).as_py() - 1) * step + 1
    changes = np.flatnonzero(pc.not_equal(values[:-1], values[1:]).to_numpy(zero_copy_only=False))
    return int(np.diff(np.concatenate([[-1], changes, [len(values) - 1]])).max())


def _ranges(groups: Sequence[tuple[Run, ...] | None], cores: int) -> tuple[KeyRange, ...] | None:
    runs = sorted(chain.from_iterable(group or () for group in groups), key=lambda run: run.lower)
    if None in groups or not _fit_a_worker(runs):
        return None
    total = sum(run.size for run in runs)
    wanted = min(_MOST_BYTES, max(_LEAST_BYTES, total // (cores * _TASKS_OF_CORE)))
    ranges = [*_between(runs, _cuts(runs, wanted))]
    read = [sum(run.read for run in each.runs) for each in ranges]
    is_even = max(read) <= max(2 * wanted, _MOST_UNEVEN * sum(read) / cores)
    return tuple(ranges) if is_even and sum(read) <= _MOST_READ * total else None


def _between(runs: Sequence[Run], cuts: Sequence[Any]) -> Iterator[KeyRange]:
    """Yield a range for each cut, and one behind the last.

    :param runs: by their least values.
    """
    lowers, begin = [run.lower for run in runs], 0
    inside: list[Run] = []
    for lower, end in pairwise([None, *cuts, None]):
        until = len(runs) if end is None else bisect_left(lowers, end)
        inside = [*(run for run in inside if run.upper >= lower), *runs[begin:until]]
        yield KeyRange(lower=lower, end=end, runs=tuple(inside))
        begin = until


def _cuts(runs: Sequence[Run], wanted: int) -> list[Any]:
    """Return values, ascending, between which lie about so many bytes, and across which lie few.

    :param runs: by their least values.
    """
    by_upper = sorted(runs, key=lambda run: run.upper)
    uppers, ended = [run.upper for run in by_upper], [0, *accumulate(run.size for run in by_upper)]
    cuts: list[Any] = []
    begun = since = 0
    for number, run in enumerate(runs):
        is_new = not number or run.lower != runs[number - 1].lower
        across = begun - ended[bisect_left(uppers, run.lower)]
        if is_new and since >= wanted and across <= since * _MOST_ACROSS:
            cuts.append(run.lower)
            since = 0
        begun, since = begun + run.size, since + run.size
    return cuts


def _fit_a_worker(runs: Sequence[Run]) -> bool:
    kept = _most_at_a_value(runs, [run.kept for run in runs])
    return kept <= _MOST_OPEN and _most_at_a_value(runs, [run.most for run in runs]) <= _MOST_OF_VALUE


def _most_at_a_value(runs: Sequence[Run], counts: Iterable[int]) -> int:
    """Return the greatest sum of counts, of runs that lie over one value."""
    counted = zip(runs, counts, strict=True)
    events = [event for run, count in counted for event in ((run.lower, 0, count), (run.upper, 1, -count))]
    return max(accumulate(count for *_, count in sorted(events, key=lambda event: event[:2])), default=0)
