"""Rewrite a split of a file group in a Python worker, or in the driver: decode, leave out deleted rows, encode.

Row groups bound the memory of a worker: a new one before it is encoded, :data:`MOST_DECODED_BYTES`, and the compressed
one that is read.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from zipimport import zipimporter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from airflow_lake_provider.contracts.errors import LakeProviderError, UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.deleted_positions import (
    DeletedPositions,
    ReadPart,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_columns import (
    ROW_ID,
    FileColumns,
    arrow_schema,
    id_of,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_parts import (
    FilePart,
    opened_file,
    without_positions,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import TableFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.parquet_footers import (
    begin_of,
    bytes_of,
    columns_by_path,
    footer_of,
    plain_columns,
    row_groups_of,
    unbounded_columns,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.float_metrics import FileFloats, FloatMetrics
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.parquet_layout import ParquetLayout
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.row_order import SortColumn, sorted_batches

MOST_DECODED_BYTES = 256 << 20
_BATCH_ROWS = 16_384
# Files whose footers say how wide a row is, and which columns are worth a dictionary.
_SAMPLED = 8
_LONGEST_REASON = 300
_NAMES = re.compile(r"'[^']*'|\(Request ID[^)(]*\)")


@dataclass(frozen=True, kw_only=True)
class Split:
    """Parts of a group's files that go into one new file, or into several where it would be too large.

    :param group: number of the group.
    :param stem: location of the new files, without the end of their names.
    :param schema: Iceberg's, as JSON.
    :param constants: values of columns that the partition is, by field id; JSON's, as texts.
    :param most_bytes: of a new file.
    :param order: of the rows in new files; none keeps them as they come.
    """

    group: int
    stem: str
    schema: str
    has_row_lineage: bool
    partition_sources: frozenset[int]
    layout: ParquetLayout
    most_bytes: int
    parts: tuple[FilePart, ...]
    order: tuple[SortColumn, ...] = ()
    constants: Mapping[int, str | None] = field(default_factory=dict)


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

    :param parts: what was read, in the order of the rows in the new files, if they are not sorted.
    :param reason: why it could not be rewritten; then there are no files.
    :param is_repeated: an earlier attempt of the task was cut off, and may have left files.
    """

    group: int
    parts: tuple[ReadPart, ...] = ()
    files: tuple[NewFile, ...] = ()
    reason: str | None = None
    is_repeated: bool = False


def rewrite_splits(splits: Iterable[Split], files: TableFiles) -> Iterator[SplitResult]:
    """Rewrite splits in a task or in the driver; what goes wrong is a result: a failed task would fail all groups."""
    from pyspark import TaskContext

    context = TaskContext.get()
    # Before each later task of a worker, Spark lets Python read all directories of archives again: 80 ms.
    for importer in list(sys.path_importer_cache.values()) if context else ():
        if isinstance(importer, zipimporter):
            vars(importer)["invalidate_caches"] = bool
    attempt, is_repeated = (context.taskAttemptId(), context.attemptNumber() > 0) if context else (0, False)
    for split in splits:
        yield replace(rewrite_split(split, files, attempt), is_repeated=is_repeated)


def rewrite_split(split: Split, files: TableFiles, attempt: int = 0) -> SplitResult:
    """Rewrite a split, whose new files no other attempt of the same task touches."""
    writer = _SplitWriter(split, files, attempt)
    try:
        writer.write_all()
    # Whatever it is, the group is left to Spark.
    except Exception as error:  # noqa: BLE001
        writer.abandon()
        return SplitResult(group=split.group, reason=_reason(error))
    return SplitResult(group=split.group, parts=tuple(writer.read), files=tuple(writer.done))


def _reason(error: Exception) -> str:
    """Return one line, which is the same for all splits that fail alike: without names of files and requests."""
    if isinstance(error, LakeProviderError):
        return str(error)[:_LONGEST_REASON]
    text = _NAMES.sub("...", str(error).partition("\n")[0])
    return f"{type(error).__name__}: {text}"[:_LONGEST_REASON]


@dataclass
class _SplitWriter:
    split: Split
    files: TableFiles
    attempt: int
    done: list[NewFile] = field(default_factory=list)
    read: list[ReadPart] = field(default_factory=list)
    _begun: int = 0
    _file: _FileWriter | None = None

    def write_all(self) -> None:
        split = self.split
        schema = arrow_schema(json.loads(split.schema), has_row_lineage=split.has_row_lineage)
        shape = _Shape.of(split, self.files, schema)
        batches = self._batches(shape, DeletedPositions(self.files, {part.path for part in split.parts}))
        if split.order:
            batches = sorted_batches(batches, split.order, shape.batch_rows)
        pending, rows, size = [], 0, 0
        for batch in batches:
            pending.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= shape.group_rows or size >= MOST_DECODED_BYTES:
                self._write(pending, shape)
                pending, rows, size = [], 0, 0
        if rows:
            self._write(pending, shape)
        self._close()

    def _batches(self, shape: _Shape, deleted: DeletedPositions) -> Iterator[pa.RecordBatch]:
        for part in self.split.parts:
            begin, end, left = None, 0, 0
            for batch, first, rows in _rows_left(part, self.split, shape, deleted):
                begin = first if begin is None else begin
                end, left = first + rows, left + batch.num_rows
                yield batch
            if begin is not None:
                self.read.append(ReadPart(path=part.path, first=begin, rows=end - begin, left=left))

    def _write(self, batches: list[pa.RecordBatch], shape: _Shape) -> None:
        if self._file is None:
            location = f"{self.split.stem}-{self.attempt}-{self._begun:05d}.parquet"
            self._begun += 1
            self._file = _FileWriter(location, self.files, self.split, shape)
        if self._file.write(batches) >= self.split.most_bytes:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self.done.append(self._file.close())
            self._file = None

    def abandon(self) -> None:
        """Close the file that is not finished. The driver deletes all files of a split that is left to Spark.

        A worker does not: to delete the last object of a folder, Arrow's client of S3 makes one of the folder's name.
        """
        if self._file is not None:
            with suppress(Exception):
                self._file.abandon()


@dataclass(frozen=True)
class _Shape:
    """Schema of new files, the rows of their row groups, and the columns that get a dictionary and statistics.

    Arrow leaves NaN out of its statistics. Readers that put NaN above all numbers, as Spark and DuckDB do, would skip
    row groups that have some. So columns of floats have none.
    """

    schema: pa.Schema
    group_rows: int
    with_dictionary: list[str]
    with_statistics: list[str]

    @property
    def batch_rows(self) -> int:
        """Rows of a batch at most: a row group is made of whole ones."""
        return min(_BATCH_ROWS, self.group_rows)

    @classmethod
    def of(cls, split: Split, files: TableFiles, schema: pa.Schema) -> _Shape:
        plain, rows, size = None, 0, 0
        # The largest ones: those of a stream are small, and have no dictionary.
        parts = {part.path: part for part in sorted(split.parts, key=lambda part: part.length)}
        for path in islice(reversed(parts), _SAMPLED):
            footer = footer_of(files, path)
            plain = plain_columns(footer) if plain is None else plain & plain_columns(footer)
            rows += footer.num_rows
            size += sum(map(bytes_of, row_groups_of(footer)))
        most = min(split.layout.row_group_bytes, split.most_bytes)
        columns = columns_by_path(schema)
        without = {ROW_ID, *(plain or ())}
        return cls(
            schema=schema,
            group_rows=max(1, most * rows // max(1, size)) if rows else _BATCH_ROWS,
            with_dictionary=[path for path, column in columns.items() if id_of(column) not in without],
            with_statistics=[path for path, column in columns.items() if not pa.types.is_floating(column.type)],
        )


def _rows_left(
    part: FilePart, split: Split, shape: _Shape, deleted: DeletedPositions
) -> Iterator[tuple[pa.RecordBatch, int, int]]:
    """Yield the rows of a part that are not deleted, and for which position and how many rows they were read."""
    positions = deleted.of(part.path, part.deletes)
    with opened_file(deleted.files, part.path) as file:
        in_file = file.parquet.schema_arrow
        columns = FileColumns(in_file=in_file, table=shape.schema, partition_sources=split.partition_sources)
        for batch, first in file.batches(part, columns.names, shape.batch_rows):
            arrays = columns.arrays(batch)
            _refuse_other_values(arrays, shape.schema, split.constants)
            if split.has_row_lineage:
                arrays[-2:] = _lineage(arrays[-2:], part, first)
            rows = pa.RecordBatch.from_arrays(arrays, schema=shape.schema)
            yield without_positions(rows, positions, first), first, rows.num_rows


def _refuse_other_values(arrays: list[pa.Array], schema: pa.Schema, constants: Mapping[int, str | None]) -> None:
    """Refuse a file with other values of a column than its partition says, which Iceberg reads in their place."""
    for values, column in zip(arrays, schema, strict=True):
        id_ = id_of(column) or 0
        if id_ not in constants:
            continue
        text = constants[id_]
        is_alike = values.null_count == len(values) if text is None else pc.all(_are(values, text)).as_py()
        if is_alike is False:
            raise UnsupportedError(f"a file has other values of column {column.name} than its partition")


def _are(values: pa.Array, text: str) -> pa.Array:
    kind = values.type
    constant = pa.scalar(bytes.fromhex(text)) if pa.types.is_binary(kind) else pa.scalar(text).cast(kind)
    return pc.fill_null(pc.equal(values, constant), False)


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


class _FileWriter:
    """One new file."""

    def __init__(self, location: str, files: TableFiles, split: Split, shape: _Shape) -> None:
        self._location, self._files = location, files
        self._floats = FileFloats(shape.schema)
        system, place = files.place_of(location)
        if isinstance(system, LocalFileSystem):
            system.create_dir(place.rpartition("/")[0])
        # No other file has this name: it has an identifier of the group's, and the number of the task's attempt.
        self._sink = system.open_output_stream(place)
        self._writer = pq.ParquetWriter(
            self._sink,
            shape.schema,
            use_dictionary=shape.with_dictionary or False,
            write_statistics=shape.with_statistics or False,
            **split.layout.options(),
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
        """Close the file without a footer; in S3 this makes an object of it, which can be deleted."""
        self._sink.close()

    def close(self) -> NewFile:
        """Write the footer."""
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        footer, floats = footer_of(self._files, self._location), self._floats.by_id()
        return NewFile(
            location=self._location,
            size=size,
            rows=footer.num_rows,
            offsets=tuple(map(begin_of, row_groups_of(footer))),
            floats=floats,
            unbounded=frozenset(unbounded_columns(footer)) - floats.keys(),
        )
