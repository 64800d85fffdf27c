"""Both sides of a comparison by Arrow, as Python workers read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.input_file import InputFile


class RowReader(Protocol):
    """Rows of files that Python workers read; it travels to them by a broadcast."""

    @property
    def parts(self) -> Sequence[Any]:
        """Parts that are read one by one, each by a task."""

    @property
    def schema(self) -> pa.Schema:
        """Columns that are read."""

    def batches(self, part: Any) -> Iterator[pa.RecordBatch]:
        """Read a part.

        :raises Exception: it is not surely read as Spark reads it.
        """

    def row_groups(self, part: Any) -> Iterator[tuple[Any, int, int]]:
        """Cut a part at row groups; each part has its bytes in the file and in Arrow's format."""

    def of_columns(self, count: int) -> RowReader:
        """Return a reader of the first columns alone."""


# Of the table, and of the batch.
Readers = tuple[RowReader, RowReader]


@dataclass(frozen=True, kw_only=True)
class StoredColumns:
    """Columns that the batch stores.

    :param columns: as the batch has them.
    :param places: of each among the columns that are compared.
    """

    columns: StructType
    places: tuple[int, ...]


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

    def stored_columns(self, columns: StructType) -> StoredColumns:
        """Return where the columns of the batch that are stored are among those that are compared."""
        places = {name.lower(): place for place, name in enumerate(self.batch.schema.names)}
        return StoredColumns(columns=columns, places=tuple(places[name.lower()] for name in columns.names))
