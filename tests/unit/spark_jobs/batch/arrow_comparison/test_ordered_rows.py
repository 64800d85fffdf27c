"""Ranges of a key column are compared side by side as plain Python compares all rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from airflow_lake_provider.spark_jobs.batch.arrow_comparison import key_order
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.key_order import KeyOrder, Runs
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.ordered_rows import OrderedRows, unlike_in_range
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.sides import RowReader

SCHEMA = pa.schema({"id": pa.int64(), "line": pa.string(), "score": pa.float64(), "text": pa.string()})
KEYS = 2
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Rows:
    """Row groups in memory: a part is the number of one."""

    groups: Sequence[Sequence[Row]]
    batch_rows: int
    schema: pa.Schema = SCHEMA

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        columns = [*zip(*self.groups[part], strict=True)]
        rows = pa.Table.from_arrays([pa.array(c, k) for c, k in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)
        yield from rows.select(self.schema.names).to_batches(max_chunksize=self.batch_rows)


def order_of(sides: Sequence[Rows], cores: int = 2) -> KeyOrder | None:
    groups: list[Runs] = []
    for side, rows in enumerate(sides):
        of_keys = replace(rows, schema=pa.schema([SCHEMA.field(place) for place in range(KEYS)]))
        for part, of_group in enumerate(rows.groups):
            columns = pa.Table.from_batches(of_keys.batches(part)).columns
            size = len(of_group)
            arrays = (column.combine_chunks() for column in columns)
            groups.append(tuple(key_order.runs_of(each, side, part, size, size) for each in arrays))
    return key_order.ordered_by(groups, cores)


def canonical(row: Row) -> Row:
    return tuple("NaN" if isinstance(value, float) and math.isnan(value) else value for value in row)


def unlike(sides: Sequence[Rows], order: KeyOrder | None) -> tuple[list[Counter[Row]], list[int]]:
    """Return the rows of each side that are left, and how many were read."""
    assert order is not None
    left, read = [Counter[Row](), Counter[Row]()], [0, 0]
    for keys in order.ranges:
        both = [
            OrderedRows(cast(RowReader, rows), keys.of_side(side), keys, order.place) for side, rows in enumerate(sides)
        ]
        for tables in unlike_in_range(both, KEYS, order.place):
            for counter, table in zip(left, tables, strict=True):
                counter.update(canonical(tuple(row.values())) for row in table.to_pylist())
        read = [before + side.rows for before, side in zip(read, both, strict=True)]
    return left, read


def expected(sides: Sequence[Rows]) -> list[Counter[Row]]:
    rows = [[canonical(row) for group in side.groups for row in group] for side in sides]
    keys = [Counter(row[:KEYS] for row in of_side) for of_side in rows]
    left = []
    for of_side, other in zip(rows, reversed(rows), strict=True):
        others = set(other)
        left.append(
            Counter(
                row
                for row in of_side
                if row not in others or None in row[:KEYS] or any(of_keys[row[:KEYS]] != 1 for of_keys in keys)
            )
        )
    return left


ids, lines = st.integers(0, 60), st.sampled_from(["a", "b", "é", None])
values = st.tuples(st.sampled_from([0.0, -0.0, 1.5, math.nan, None]), st.sampled_from(["", "x", None]))
rows_of_side = st.lists(st.tuples(ids, lines, values).map(lambda row: (*row[:2], *row[2])), max_size=60)


@st.composite
def both_sides(draw: st.DrawFn) -> list[Rows]:
    """Two sides that lie in the order of ids, as a table does that was loaded from files of an export.

    Row groups have the rows of a few files, and some rows came later.
    """
    table = draw(rows_of_side)
    batch = [row for row in table if draw(st.integers(0, 9)) > 0] + draw(rows_of_side)[:5]
    batch += draw(st.lists(st.sampled_from(table), max_size=3)) if table else []
    return [Rows(draw(row_groups(rows)), draw(st.integers(1, 9))) for rows in (table, batch)]


@st.composite
def row_groups(draw: st.DrawFn, rows: list[Row]) -> list[list[Row]]:
    rows = sorted(rows, key=lambda row: row[0])
    late = rows[draw(st.integers(0, len(rows))) :: 7]
    size = draw(st.integers(1, 20))
    files = draw(st.permutations([rows[begin : begin + size] for begin in range(0, len(rows), size)]))
    of_group = draw(st.integers(1, 3))
    groups = [[*chain.from_iterable(files[begin : begin + of_group])] for begin in range(0, len(files), of_group)]
    return groups + ([draw(st.permutations(late))] if late else [])


@pytest.fixture(autouse=True, scope="module")
def small_ranges() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_order, "_LEAST_BYTES", 4)
        patch.setattr(key_order, "_SMALL", 10)
        yield


@settings(max_examples=150, deadline=None)
@given(both_sides())
def test_rows_left_are_those_that_plain_python_leaves(sides: list[Rows]) -> None:
    order = order_of(sides)
    assume(order is not None)
    left, read = unlike(sides, order)
    assert left == expected(sides)
    assert read == [sum(map(len, side.groups)) for side in sides]


def side_of(*groups: list[int]) -> Rows:
    return Rows([[(number, "a", 1.0, "x") for number in numbers] for numbers in groups], 30)


def test_an_export_and_the_table_that_was_loaded_from_it_are_cut_where_files_begin() -> None:
    files = [[*range(begin, begin + 100)] for begin in range(0, 800, 100)]
    # Each task has written a few files into one row group, in the order of their sizes.
    table = side_of(files[1] + files[6], files[4] + files[2], files[0] + files[3], files[7] + files[5])
    export = side_of(*files[:-1], [*files[-1][1:], 900])
    order = order_of([table, export])
    assert order is not None
    assert [keys.lower for keys in order.ranges] == [None, *range(100, 800, 100)]
    assert {len(keys.runs) for keys in order.ranges} == {2, 3}
    assert unlike([table, export], order) == (expected([table, export]), [800, 800])


def test_many_row_groups_are_put_into_ranges_without_looking_at_each_for_each_range() -> None:
    compared = 0

    class Value(int):
        def __ge__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return int(self) >= cast(int, other)

    order = order_of([side_of([0, 1])])
    assert order is not None
    runs = [replace(order.ranges[0].runs[0], lower=Value(place), upper=Value(place), size=100) for place in range(500)]
    cut = key_order.ordered_by([((run,),) for run in runs], 200)
    assert cut is not None
    assert [[run.lower for run in keys.runs] for keys in cut.ranges] == [[place] for place in range(500)]
    assert compared < 2_000


def test_rows_without_an_order_are_not_cut_into_ranges() -> None:
    numbers = [*range(0, 800, 7), *range(1, 800, 7)]
    apart = [numbers[place::8] for place in range(8)]
    assert order_of([side_of(*apart), side_of(*apart)]) is None
    assert order_of([side_of([1, 2]), Rows([[(None, "a", 1.0, "x"), (2, None, 1.0, "x")]], 10)]) is None


def test_many_rows_of_one_value_have_no_order_though_each_row_group_has_few(monkeypatch: pytest.MonkeyPatch) -> None:
    # As a column that is the first of a key, such as a country, has them.
    table, export = (side_of(*[[1] * 50] * 3, *[[2] * 50] * 3) for _ in range(2))
    mixed = side_of([1, 2, 3] * 100)
    assert order_of([table, export]) is not None
    assert order_of([mixed, mixed], cores=1) is not None
    monkeypatch.setattr(key_order, "_MOST_OF_VALUE", 190)
    assert order_of([table, export]) is None
    assert order_of([mixed, mixed], cores=1) is None


def runs_over_one_range(count: int, values: list[int], size: int, decoded: int) -> list[Runs]:
    return [(key_order.runs_of(pa.array(values), side, None, size, decoded),) for side in (0, 1) for _ in range(count)]


def test_row_groups_that_lie_over_each_other_are_counted_as_arrow_decodes_them() -> None:
    mib, ascending, mixed = 1 << 20, [*range(100)], [*range(1, 100, 2), *range(0, 100, 2)] * 20
    # A batch of each is decoded at a time, and one that is sorted is there twice.
    assert key_order.ordered_by(runs_over_one_range(9, ascending, mib, 500 * mib), 1) is not None
    assert key_order.ordered_by(runs_over_one_range(10, ascending, mib, 500 * mib), 1) is None
    assert key_order.ordered_by(runs_over_one_range(3, mixed, mib, 26 * mib), 1) is not None
    assert key_order.ordered_by(runs_over_one_range(3, mixed, mib, 27 * mib), 1) is None


def test_a_file_whose_keys_are_in_another_order_than_before_is_told() -> None:
    rows, others = side_of([*range(20)]), side_of([*reversed(range(20))])
    with pytest.raises(ValueError, match="a file has changed"):
        unlike([others, rows], order_of([rows, rows], cores=1))
