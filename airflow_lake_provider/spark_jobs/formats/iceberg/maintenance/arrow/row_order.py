"""Sort the rows of a new file, where Arrow orders values as Spark does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_columns import id_of

# A worker has them three times: as they come, in one piece, and in order.
MOST_SORTED_BYTES = 192 << 20
TOO_MANY_ROWS = f"rows of more than {MOST_SORTED_BYTES >> 20} MiB are to be sorted"
# Of floats Spark puts NaN above all numbers, and Arrow beside nulls.
_ORDERED_ALIKE = (
    *(pa.types.is_boolean, pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp, pa.types.is_decimal),
    *(pa.types.is_string, pa.types.is_binary),
)


@dataclass(frozen=True, kw_only=True)
class SortColumn:
    """Column of a sort order."""

    name: str
    is_descending: bool
    has_nulls_first: bool


def sort_columns(order: Mapping[str, Any], schema: pa.Schema) -> tuple[SortColumn, ...]:
    """Return the columns that rows are sorted by.

    :param order: Iceberg's sort order, as its JSON has it.
    :param schema: of new files.
    :raises UnsupportedError: naming a term that Arrow does not surely order as Spark does.
    """
    by_id = {id_of(column): column for column in schema}
    columns = []
    for term in order["fields"]:
        column = by_id.get(term["source-id"])
        if term["transform"] != "identity" or column is None:
            raise UnsupportedError(f"rows are ordered by {term['transform']} of a column, or by one in a struct")
        if not any(is_alike(column.type) for is_alike in _ORDERED_ALIKE):
            raise UnsupportedError(f"rows are ordered by {column.name}, of type {column.type}")
        columns.append(
            SortColumn(
                name=column.name,
                is_descending=term["direction"] == "desc",
                has_nulls_first=term["null-order"] == "nulls-first",
            )
        )
    return tuple(columns)


def sorted_batches(
    batches: Iterable[pa.RecordBatch], columns: tuple[SortColumn, ...], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches in order.

    :raises UnsupportedError: they are too many for a worker's memory.
    """
    unsorted, size = [], 0
    for batch in batches:
        unsorted.append(batch)
        size += batch.nbytes
        if size > MOST_SORTED_BYTES:
            raise UnsupportedError(TOO_MANY_ROWS)
    if unsorted:
        rows = pa.Table.from_batches(unsorted).combine_chunks()
        unsorted.clear()
        yield from rows.take(_places(rows, columns)).to_batches(max_chunksize=batch_rows)


def _places(rows: pa.Table, columns: tuple[SortColumn, ...]) -> pa.Array:
    """Return the places of rows in order. Nulls have a key of their own: versions of Arrow ask in other ways."""
    keys: dict[str, tuple[pa.ChunkedArray, bool]] = {}
    for place, column in enumerate(columns):
        values = rows.column(column.name)
        if values.null_count:
            keys[f"null {place}"] = pc.is_null(values), column.has_nulls_first
        keys[f"value {place}"] = values, column.is_descending
    order = [(name, "descending" if is_descending else "ascending") for name, (_, is_descending) in keys.items()]
    return pc.sort_indices(pa.table({name: values for name, (values, _) in keys.items()}), sort_keys=order)
