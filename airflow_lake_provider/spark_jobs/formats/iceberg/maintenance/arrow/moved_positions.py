"""Tell where rows of rewritten files are in the new ones: a rewrite that sorts nothing keeps their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.deleted_positions import Positions


@dataclass(frozen=True, kw_only=True)
class ReadPart:
    """Rows of a data file that a split has read, one after the other.

    :param first: position of the first of them.
    :param rows: how many, the deleted ones included.
    :param left: how many of them were not deleted, and are in new files.
    """

    path: str
    first: int
    rows: int
    left: int


def moved_positions(
    parts: Sequence[ReadPart],
    new_files: Sequence[tuple[str, int]],
    applied: Mapping[str, Positions],
    newer: Mapping[str, Positions],
) -> dict[str, Positions]:
    """Return the positions that rows of a split have in its new files, by their locations; ascending.

    :param parts: of the split, in the order in which they were read.
    :param new_files: location and number of rows of each, in the order in which they were written.
    :param applied: deleted positions that the rewrite left out, by path of the old file; ascending.
    :param newer: positions of the rows, by path of the old file; ascending, and none of ``applied``.
    :raises CommitConflictError: the new files have not as many rows as the parts have left.
    """
    _refuse_other_counts(parts, new_files, applied)
    moved, written = [np.empty(0, np.int64)], 0
    for part in parts:
        positions = newer.get(part.path)
        if positions is not None:
            begin, end = np.searchsorted(positions, [part.first, part.first + part.rows])
            inside, left_out = positions[begin:end], applied.get(part.path, np.empty(0, np.int64))
            gone_before = np.searchsorted(left_out, inside) - np.searchsorted(left_out, part.first)
            moved.append(inside - part.first - gone_before + written)
        written += part.left
    # Parts of one file may be read in any order.
    return _by_file(np.sort(np.concatenate(moved)), new_files)


def _refuse_other_counts(
    parts: Sequence[ReadPart], new_files: Sequence[tuple[str, int]], applied: Mapping[str, Positions]
) -> None:
    rows_left = [
        part.rows - int(np.diff(np.searchsorted(applied[part.path], [part.first, part.first + part.rows]))[0])
        if part.path in applied
        else part.left
        for part in parts
    ]
    if rows_left != [part.left for part in parts] or sum(rows_left) != sum(rows for _, rows in new_files):
        raise CommitConflictError("new files have other numbers of rows than were left of the old ones")


def _by_file(places: Positions, new_files: Sequence[tuple[str, int]]) -> dict[str, Positions]:
    by_file, begin = {}, 0
    for location, rows in new_files:
        first, end = np.searchsorted(places, [begin, begin + rows])
        if end > first:
            by_file[location] = places[first:end] - begin
        begin += rows
    return by_file
