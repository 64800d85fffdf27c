"""Parts of data files, as a planner cuts them, and which of their rows are left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.deleted_positions import PositionDelete, Positions
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import TableFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.parquet_footers import (
    begin_of,
    bytes_of,
    bytes_of_row,
    footer_of,
    row_groups_of,
)

_BATCH_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True)
class FilePart:
    """Part of a data file, as Iceberg's planner has cut it, with what is deleted in the file.

    :param start: of the part, in bytes; row groups belong to the part that has their middle.
    :param first_row_id: of the file; None before format version 3.
    """

    path: str
    start: int
    length: int
    sequence_number: int
    first_row_id: int | None = None
    deletes: tuple[PositionDelete, ...] = ()


def row_groups_of_part(footer: Any, part: FilePart) -> tuple[list[int], int]:
    """Return the row groups of a part that have rows, which stand together, and the position of the first row.

    :raises UnsupportedError: they do not stand together.
    """
    chosen: list[int] = []
    position, first, end = 0, 0, 0
    for number, group in enumerate(row_groups_of(footer)):
        middle = _middle_of(group)
        # Arrow says of one without rows that it begins at byte 0.
        if group.num_rows and part.start <= middle < part.start + part.length:
            if chosen and position != end:
                raise UnsupportedError("the row groups of a file are not in order")
            first = first if chosen else position
            chosen.append(number)
            end = position + group.num_rows
        position += group.num_rows
    return chosen, first


def row_group_parts(files: TableFiles, parts: Sequence[FilePart]) -> Iterator[tuple[list[FilePart], int, int]]:
    """Cut parts into those of one row group, or of small ones in turn that are a batch together.

    Each part has its file opened, whose footer tells all row groups.

    :return: each with its bytes in the file, and about those in Arrow's format.
    :raises UnsupportedError: a part of some row groups would have others.
    """
    for each in parts:
        footer = footer_of(files, each.path)
        groups = [footer.row_group(number) for number in row_groups_of_part(footer, each)[0]]
        middles = [_middle_of(group) for group in groups]
        if any(middle >= behind for middle, behind in pairwise(middles)):
            raise UnsupportedError("the row groups of a file are not in order")
        begin, size, decoded = 0, 0, 0
        for number, group in enumerate(groups):
            more = bytes_of_row(group) * group.num_rows
            if number > begin and decoded + more > _BATCH_BYTES:
                yield [_between(each, middles[begin], middles[number])], size, decoded
                begin, size, decoded = number, 0, 0
            size, decoded = size + bytes_of(group), decoded + more
        if groups:
            yield [_between(each, middles[begin], middles[-1] + 1)], size, decoded


def _middle_of(group: Any) -> int:
    return begin_of(group) + bytes_of(group) // 2


def _between(part: FilePart, start: int, end: int) -> FilePart:
    return replace(part, start=start, length=end - start)


def without_positions(rows: pa.RecordBatch, positions: Positions, first: int) -> pa.RecordBatch:
    """Return rows without those at some positions.

    :param positions: in the file, ascending.
    :param first: position of the first row.
    """
    begin, end = np.searchsorted(positions, [first, first + rows.num_rows])
    if begin == end:
        return rows
    stays = np.ones(rows.num_rows, dtype=bool)
    stays[positions[begin:end] - first] = False
    return rows.filter(pa.array(stays))


@dataclass(frozen=True)
class OpenedFile:
    """A Parquet file that is open.

    :param in_store: of an object store, where each read is a request.
    """

    parquet: pq.ParquetFile
    in_store: bool

    def batches(self, part: FilePart, names: Sequence[str], most_rows: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the rows of a part, deleted or not, and the position of the first of each batch.

        :param names: of the columns to read.
        :param most_rows: of a batch, which has fewer where rows are wide.
        """
        footer = self.parquet.metadata
        chosen, first = row_groups_of_part(footer, part)
        if not chosen:
            return
        widest = max(bytes_of_row(footer.row_group(number)) for number in chosen)
        batch_rows = max(1, min(most_rows, _BATCH_BYTES // max(1, widest)))
        # Of a store, all columns of a row group come by a few requests, side by side, and are kept until it is done.
        for batch in chain.from_iterable(
            self.parquet.iter_batches(batch_rows, row_groups=groups, columns=names, use_threads=False)
            for groups in ([[number] for number in chosen] if self.in_store else [chosen])
        ):
            yield batch, first
            first += batch.num_rows


@contextmanager
def opened_file(files: TableFiles, path: str, **options: Any) -> Iterator[OpenedFile]:
    """Open a Parquet file.

    :param options: of ``pyarrow.parquet.ParquetFile``.
    """
    system, place = files.place_of(path)
    in_store = not isinstance(system, LocalFileSystem)
    with pq.ParquetFile(place, filesystem=system, pre_buffer=in_store, **options) as parquet:
        yield OpenedFile(parquet, in_store)
