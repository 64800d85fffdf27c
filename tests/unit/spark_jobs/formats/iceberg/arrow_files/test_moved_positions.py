from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.deleted_positions import (
    ReadPart,
    moved_positions,
)

Row = tuple[str, int]


def arrays(positions: Mapping[str, set[int]]) -> dict[str, NDArray[np.int64]]:
    return {path: np.array(sorted(of_file), np.int64) for path, of_file in positions.items()}


@st.composite
def rewrites(draw: st.DrawFn) -> tuple[list[list[Row]], dict[str, set[int]], dict[str, set[int]], list[int]]:
    """Return the rows of parts in the order of a split, deletes of before and of later, and rows of new files."""
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    applied, newer, parts = {}, {}, []
    for number, size in enumerate(sizes):
        path, rows = f"old-{number}", range(size)
        applied[path] = {row for row in rows if draw(st.booleans())}
        newer[path] = {row for row in rows if row not in applied[path] and draw(st.booleans())}
        cuts = sorted({0, size, *draw(st.lists(st.integers(0, size), max_size=2))})
        parts += [[(path, row) for row in range(*cut)] for cut in pairwise(cuts)]
    # A plan may put the parts of a file in any order, into one split.
    parts = draw(st.permutations(parts))
    left = sum(row not in applied[path] for part in parts for path, row in part)
    ends = sorted({left, *draw(st.lists(st.integers(1, max(1, left)), max_size=3))} - {0})
    lengths = [end - begin for begin, end in zip([0, *ends], ends, strict=False) if end <= left]
    return parts, applied, newer, lengths


@given(rewrites())
def test_each_row_is_where_a_list_of_the_rows_has_it(
    rewrite: tuple[list[list[Row]], dict[str, set[int]], dict[str, set[int]], list[int]],
) -> None:
    parts, applied, newer, lengths = rewrite
    left = [[row for row in part if row[1] not in applied[row[0]]] for part in parts]
    written = [row for part in left for row in part]
    expected: dict[str, set[int]] = {}
    begin = 0
    for number, length in enumerate(lengths):
        rows = written[begin : begin + length]
        gone = {place for place, (path, row) in enumerate(rows) if row in newer[path]}
        expected |= {f"new-{number}": gone} if gone else {}
        begin += length

    moved = moved_positions(
        [
            ReadPart(path=part[0][0], first=part[0][1], rows=len(part), left=len(rows))
            for part, rows in zip(parts, left, strict=True)
        ],
        [(f"new-{number}", length) for number, length in enumerate(lengths)],
        arrays(applied),
        arrays(newer),
    )

    assert {path: positions.tolist() for path, positions in moved.items()} == {
        path: sorted(positions) for path, positions in expected.items()
    }


@pytest.mark.parametrize(
    ("left", "new_rows", "applied"),
    [(3, 4, {1}), (4, 3, {1}), (4, 4, {1}), (3, 3, set())],
    ids=["more in new files", "fewer in new files", "fewer deleted than are known", "more deleted than are known"],
)
def test_other_numbers_of_rows_are_a_conflict(left: int, new_rows: int, applied: set[int]) -> None:
    part = ReadPart(path="old", first=0, rows=4, left=left)
    with pytest.raises(CommitConflictError, match="other numbers of rows"):
        moved_positions([part], [("new", new_rows)], arrays({"old": applied}), arrays({"old": {3}}))
