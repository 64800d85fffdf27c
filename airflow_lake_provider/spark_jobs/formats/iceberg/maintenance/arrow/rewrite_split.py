"""Rewrite a split of a file group in a Python worker: decode, leave out deleted rows, encode.

Row groups bound the memory of a worker: a new one before it is encoded, :data:`MOST_DECODED_BYTES`, and the compressed
one that is read.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.deleted_positions import (
    DeletedPositions,
    PositionDelete,
    Positions,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.file_columns import (
    ROW_ID,
    FileColumns,
    arrow_schema,
    id_of,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.float_metrics import FileFloats, FloatMetrics
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.open_files import path_of
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.parquet_layout import ParquetLayout

MOST_DECODED_BYTES = 256 << 20
_BATCH_ROWS, _BATCH_BYTES = 16_384, 16 << 20
# Files whose footers say how wide a row is, and which columns are worth a dictionary.
_SAMPLED = 8
_LONGEST_REASON = 300


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


@dataclass(frozen=True, kw_only=True)
class Split:
    """Parts of a group's files that go into one new file, or into several where it would be too large.

    :param group: number of the group.
    :param stem: location of the new files, without the end of their names.
    :param schema: Iceberg's, as JSON.
    :param most_bytes: of a new file.
    """

    group: int
    stem: str
    schema: str
    has_row_lineage: bool
    partition_sources: frozenset[int]
    layout: ParquetLayout
    most_bytes: int
    parts: tuple[FilePart, ...]


@dataclass(frozen=True, kw_only=True)
class NewFile:
    """A file that was written.

    :param offsets: where its row groups begin.
    :param floats: metrics by field id.
    :param unbounded: paths of text columns with values that are too long for Parquet's statistics.
    """

    location: str
    size: int
    rows: int
    offsets: tuple[int, ...]
    floats: dict[int, FloatMetrics]
    unbounded: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class SplitResult:
    """New files of a split.

    :param rows_read: rows of its parts, the deleted ones included.
    :param reason: why it could not be rewritten; then there are no files.
    """

    group: int
    rows_read: int = 0
    files: tuple[NewFile, ...] = ()
    reason: str | None = None


def rewrite_splits(splits: Iterable[Split]) -> Iterator[SplitResult]:
    """Rewrite splits in a task of Spark; what goes wrong is a result, since a failed task would fail all groups."""
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = context.taskAttemptId() if context else 0
    for split in splits:
        yield rewrite_split(split, attempt)


def rewrite_split(split: Split, attempt: int = 0) -> SplitResult:
    """Rewrite a split, whose new files no other attempt of the same task touches."""
    writer = _SplitWriter(split, attempt)
    try:
        writer.write_all()
    # Whatever it is, the group is left to Spark.
    except Exception as error:  # noqa: BLE001
        writer.discard()
        text = str(error) if isinstance(error, LakeProviderError) else f"{type(error).__name__}: {error}"
        return SplitResult(group=split.group, reason=text.partition("\n")[0][:_LONGEST_REASON])
    return SplitResult(group=split.group, rows_read=writer.rows_read, files=tuple(writer.done))


@dataclass
class _SplitWriter:
    split: Split
    attempt: int
    done: list[NewFile] = field(default_factory=list)
    rows_read: int = 0
    _locations: list[str] = field(default_factory=list)
    _file: _FileWriter | None = None

    def write_all(self) -> None:
        split = self.split
        schema = arrow_schema(json.loads(split.schema), has_row_lineage=split.has_row_lineage)
        shape = _Shape.of(split, schema)
        deleted = DeletedPositions({part.path for part in split.parts})
        pending, rows, size = [], 0, 0
        for part in split.parts:
            for batch, rows_read in _rows_left(part, split, shape, deleted):
                self.rows_read += rows_read
                pending.append(batch)
                rows, size = rows + batch.num_rows, size + batch.nbytes
                if rows >= shape.group_rows or size >= MOST_DECODED_BYTES:
                    self._write(pending, shape)
                    pending, rows, size = [], 0, 0
        if rows:
            self._write(pending, shape)
        self._close()

    def _write(self, batches: list[pa.RecordBatch], shape: _Shape) -> None:
        if self._file is None:
            location = f"{self.split.stem}-{self.attempt}-{len(self._locations):05d}.parquet"
            self._locations.append(location)
            self._file = _FileWriter(location, self.split, shape)
        if self._file.write(batches) >= self.split.most_bytes:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self.done.append(self._file.close())
            self._file = None

    def discard(self) -> None:
        """Delete what was written; a file that stays is one that no metadata names."""
        if self._file is not None:
            with suppress(Exception):
                self._file.abandon()
        for location in self._locations:
            with suppress(OSError):
                path_of(location).unlink(missing_ok=True)


@dataclass(frozen=True)
class _Shape:
    """Schema of new files, the rows of their row groups and of a batch, and the columns that get a dictionary."""

    schema: pa.Schema
    group_rows: int
    batch_rows: int
    with_dictionary: list[str]

    @classmethod
    def of(cls, split: Split, schema: pa.Schema) -> _Shape:
        plain, rows, size, encoded = None, 0, 0, 0
        for part in split.parts[:_SAMPLED]:
            footer = pq.read_metadata(path_of(part.path))
            plain = _plain_columns(footer) if plain is None else plain & _plain_columns(footer)
            rows += footer.num_rows
            groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
            size += sum(map(_bytes_of, groups))
            encoded += sum(group.total_byte_size for group in groups)
        most = min(split.layout.row_group_bytes, split.most_bytes)
        columns = _column_ids(schema)
        chosen = [path for path, id_ in columns.items() if id_ not in (plain or set()) and id_ != ROW_ID]
        group_rows = max(1, most * rows // max(1, size))
        return cls(
            schema, group_rows, max(1, min(_BATCH_ROWS, group_rows, _BATCH_BYTES * rows // max(1, encoded))), chosen
        )


def _bytes_of(group: Any) -> int:
    return sum(group.column(number).total_compressed_size for number in range(group.num_columns))


def _column_ids(schema: pa.Schema) -> dict[str, int]:
    """Return the field ids of the columns of a file by their paths."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, store_schema=False):
        pass
    return _ids_by_path(pq.read_metadata(io.BytesIO(sink.getvalue())).schema)


def _ids_by_path(parquet: Any) -> dict[str, int]:
    fields = parquet.to_arrow_schema()
    ids: dict[str, int] = {}
    paths = iter(parquet.column(number).path for number in range(len(parquet)))
    for each in fields:
        for id_ in _leaf_ids(each):
            ids[next(paths)] = id_
    return ids


def _leaf_ids(column: pa.Field) -> Iterator[int]:
    kind = column.type
    if not kind.num_fields:
        yield id_of(column) or 0
    elif pa.types.is_map(kind):
        yield from _leaf_ids(kind.key_field)
        yield from _leaf_ids(kind.item_field)
    else:
        for place in range(kind.num_fields):
            yield from _leaf_ids(kind.field(place))


def _plain_columns(footer: Any) -> set[int]:
    """Return the field ids of columns that their writer found not worth a dictionary."""
    ids = list(_ids_by_path(footer.schema).values())
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return {
        id_ for place, id_ in enumerate(ids) if not any(group.column(place).has_dictionary_page for group in groups)
    }


def _rows_left(
    part: FilePart, split: Split, shape: _Shape, deleted: DeletedPositions
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the rows of a part that are not deleted, with the table's columns, and how many were read for them."""
    positions = deleted.of(part.path, part.deletes)
    with pq.ParquetFile(path_of(part.path), pre_buffer=False) as file:
        columns = FileColumns(in_file=file.schema_arrow, table=shape.schema, partition_sources=split.partition_sources)
        chosen, first = _row_groups(file.metadata, part)
        if not chosen:
            return
        batches = file.iter_batches(shape.batch_rows, row_groups=chosen, columns=columns.names, use_threads=False)
        for batch in batches:
            arrays = columns.arrays(batch)
            if split.has_row_lineage:
                arrays[-2:] = _lineage(arrays[-2:], part, first)
            rows = pa.RecordBatch.from_arrays(arrays, schema=shape.schema)
            yield _without(rows, positions, first), rows.num_rows
            first += rows.num_rows


def _row_groups(footer: Any, part: FilePart) -> tuple[list[int], int]:
    """Return the row groups of a part, which stand together, and the position of its first row."""
    chosen: list[int] = []
    position, first = 0, 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        middle = _begin(group) + _bytes_of(group) // 2
        if part.start <= middle < part.start + part.length:
            first = first if chosen else position
            chosen.append(number)
        position += group.num_rows
    return chosen, first


def _begin(group: Any) -> int:
    column = group.column(0)
    begins = [column.data_page_offset]
    if column.has_dictionary_page:
        begins.append(column.dictionary_page_offset)
    return int(min(begins))


def _lineage(stored: list[pa.Array], part: FilePart, first: int) -> list[pa.Array]:
    """Return row ids and last changes: those of the file where it has them, else what its metadata implies."""
    row_ids, changes = stored
    rows = len(row_ids)
    made = pa.array(np.arange(rows, dtype=np.int64) + (part.first_row_id or 0) + first)
    return [
        _filled(row_ids, made),
        _filled(changes, pa.repeat(pa.scalar(part.sequence_number, pa.int64()), rows)),
    ]


def _filled(values: pa.Array, missing: pa.Array) -> pa.Array:
    if not values.null_count:
        return values
    return missing if values.null_count == len(values) else pc.coalesce(values, missing)


def _without(rows: pa.RecordBatch, positions: Positions, first: int) -> pa.RecordBatch:
    begin, end = np.searchsorted(positions, [first, first + rows.num_rows])
    if begin == end:
        return rows
    stays = np.ones(rows.num_rows, dtype=bool)
    stays[positions[begin:end] - first] = False
    return rows.filter(pa.array(stays))


class _FileWriter:
    """One new file."""

    def __init__(self, location: str, split: Split, shape: _Shape) -> None:
        self._location, self._shape = location, shape
        self._floats = FileFloats(shape.schema)
        path = path_of(location)
        path.parent.mkdir(parents=True, exist_ok=True)
        # No file that is there is written over.
        self._sink = path.open("xb")
        self._writer = pq.ParquetWriter(
            self._sink, shape.schema, use_dictionary=shape.with_dictionary or False, **split.layout.options()
        )
        self._writer.add_key_value_metadata({"iceberg.schema": split.schema})

    def write(self, batches: list[pa.RecordBatch]) -> int:
        """Write a row group, and return the size of the file until now."""
        for batch in batches:
            self._floats.add(batch)
        rows = pa.Table.from_batches(batches)
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        return self._sink.tell()

    def abandon(self) -> None:
        """Close the file without an end."""
        self._sink.close()

    def close(self) -> NewFile:
        """Write the footer."""
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        footer = pq.read_metadata(path_of(self._location))
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        return NewFile(
            location=self._location,
            size=size,
            rows=footer.num_rows,
            offsets=tuple(_begin(group) for group in groups),
            floats=self._floats.by_id(),
            unbounded=frozenset(_unbounded(footer, groups)),
        )


def _unbounded(footer: Any, groups: list[Any]) -> Iterator[int]:
    """Yield field ids of columns whose row groups do not all tell their least and greatest value.

    Of these, Iceberg would take the bounds of the other row groups for those of the file.
    """
    for place, id_ in enumerate(_ids_by_path(footer.schema).values()):
        for group in groups:
            statistics = group.column(place).statistics
            if statistics is None or (statistics.num_values and not statistics.has_min_max):
                yield id_
                break
