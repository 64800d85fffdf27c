"""Rows of a table and of Parquet files, as Python workers read them to compare both.

What Arrow and Spark may read in two ways is refused with an ``UnsupportedError``: Spark reads it then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.deleted_positions import DeletedPositions
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_columns import FileColumns
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_parts import (
    FilePart,
    opened_file,
    row_group_parts,
    without_positions,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import TableFiles

_BATCH_ROWS = 65_536
# Since then, the calendars and zones of old writers and of new ones are the same.
_FIRST_DATE, _FIRST_TIME = date(1582, 10, 15), datetime(1900, 1, 1)  # noqa: DTZ001  # as Arrow has it in UTC
# In the footers of files that Spark has written with such columns, whose texts its reader pads.
_PADDED = (b'"char(', b'"varchar(')


@dataclass(frozen=True, kw_only=True)
class TableRows:
    """Live rows of a table.

    :param schema: of the columns that are read, with Iceberg's field ids.
    """

    files: TableFiles
    parts: Sequence[Sequence[FilePart]]
    schema: pa.Schema

    def batches(self, part: Sequence[FilePart]) -> Iterator[pa.RecordBatch]:
        """Read a few parts of files, without what is deleted in them."""
        deleted = DeletedPositions(self.files, {each.path for each in part})
        for each in part:
            positions = deleted.of(each.path, each.deletes)
            with opened_file(self.files, each.path) as file:
                columns = FileColumns(in_file=file.parquet.schema_arrow, table=self.schema)
                for batch, first in file.batches(each, columns.names, _BATCH_ROWS):
                    rows = pa.RecordBatch.from_arrays(columns.arrays(batch), schema=self.schema)
                    yield without_positions(rows, positions, first)

    def row_groups(self, part: Sequence[FilePart]) -> Iterator[tuple[list[FilePart], int, int]]:
        """Cut a part at row groups; each part has its bytes in the file and in Arrow's format."""
        return row_group_parts(self.files, part)

    def of_columns(self, count: int) -> TableRows:
        """Return a reader of the first columns alone."""
        return replace(self, schema=_first_columns(self.schema, count))


@dataclass(frozen=True, kw_only=True)
class ParquetRows:
    """Rows of Parquet files that are a batch.

    :param schema: of the columns that are returned.
    :param stored: names of those that are read, in lower case; the others are NULL.
    """

    parts: Sequence[Sequence[FilePart]]
    schema: pa.Schema
    stored: frozenset[str]

    def batches(self, part: Sequence[FilePart]) -> Iterator[pa.RecordBatch]:
        """Read a few parts of files."""
        files = TableFiles()
        for each in part:
            with opened_file(files, each.path, coerce_int96_timestamp_unit="us") as file:
                names = self._names(file.parquet)
                for batch, _ in file.batches(each, [*dict.fromkeys(filter(None, names))], _BATCH_ROWS):
                    arrays = [self._array(batch, place, name) for place, name in enumerate(names)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def row_groups(self, part: Sequence[FilePart]) -> Iterator[tuple[list[FilePart], int, int]]:
        """Cut a part at row groups; each part has its bytes in the file and in Arrow's format."""
        return row_group_parts(TableFiles(), part)

    def of_columns(self, count: int) -> ParquetRows:
        """Return a reader of the first columns alone."""
        return replace(self, schema=_first_columns(self.schema, count))

    def _names(self, parquet: Any) -> list[str | None]:
        """Return the name of each column as the file has it; None for one that it has not.

        :raises UnsupportedError: Spark may read the file in another way.
        """
        in_file = parquet.schema_arrow
        by_name = {column.name.lower(): column for column in in_file}
        if len(by_name) != len(in_file) or any("." in name for name in by_name):
            raise UnsupportedError("a file has two columns of one name, or a name with a dot")
        texts = (parquet.metadata.metadata or {}).values()
        if any(padded in text for padded in _PADDED for text in texts):
            raise UnsupportedError("a file has a column of type CHAR or VARCHAR")
        int96 = {
            column.name.lower()
            for column in map(parquet.schema.column, range(len(parquet.schema)))
            if column.physical_type == "INT96"
        }
        names: list[str | None] = []
        for wanted in self.schema:
            name = wanted.name.lower()
            column = by_name.get(name) if name in self.stored else None
            if column is not None and not _is_alike(column.type, wanted.type, is_int96=name in int96):
                raise UnsupportedError(f"a file has column {wanted.name} as {column.type}, the table as {wanted.type}")
            names.append(None if column is None else column.name)
        if not any(names):
            raise UnsupportedError("a file has none of the batch's columns")
        return names

    def _array(self, batch: pa.RecordBatch, place: int, name: str | None) -> pa.Array:
        wanted = self.schema.field(place)
        if name is None:
            return pa.nulls(batch.num_rows, wanted.type)
        values = batch.column(name)
        first = _FIRST_DATE if pa.types.is_date(wanted.type) else _FIRST_TIME
        values = values if values.type == wanted.type else values.cast(wanted.type)
        if pa.types.is_temporal(wanted.type) and pc.any(pc.less(values, pa.scalar(first, values.type))).as_py():
            raise UnsupportedError(f"column {wanted.name} has dates before 1582 or times before 1900")
        return values


def _first_columns(schema: pa.Schema, count: int) -> pa.Schema:
    return pa.schema([schema.field(place) for place in range(count)])


def _is_alike(stored: pa.DataType, wanted: pa.DataType, *, is_int96: bool) -> bool:
    if not pa.types.is_timestamp(wanted):
        return bool(stored == wanted)
    has_zone = is_int96 or (pa.types.is_timestamp(stored) and stored.tz is not None)
    return pa.types.is_timestamp(stored) and stored.unit == wanted.unit and has_zone == (wanted.tz is not None)
