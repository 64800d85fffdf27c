"""Read what the footers of Parquet files say: sizes, places and field ids of columns."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_columns import id_of
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import TableFiles

# Of a value in Arrow's format, or of the offset of a text. Dictionaries have fewer, and NULL has none in a file.
_WIDTHS = {"INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8, "FIXED_LEN_BYTE_ARRAY": 16, "BYTE_ARRAY": 4}


def footer_of(files: TableFiles, location: str) -> Any:
    """Return the footer of a file, a ``FileMetaData``."""
    system, place = files.place_of(location)
    return pq.read_metadata(place, filesystem=system)


def row_groups_of(footer: Any) -> list[Any]:
    """Return the row groups of a footer."""
    return [footer.row_group(number) for number in range(footer.num_row_groups)]


def bytes_of(group: Any) -> int:
    """Return the compressed bytes of a row group."""
    return sum(group.column(number).total_compressed_size for number in range(group.num_columns))


def bytes_of_row(group: Any) -> int:
    """Return the bytes of a decoded row of a row group, in Arrow's format.

    A dictionary may hide long texts: each of many rows has one. Texts that have no bounds are longer than statistics
    may be. Each row may then have one as long as all that its column has.
    """
    rows = max(1, group.num_rows)
    return sum(
        column.total_uncompressed_size if _may_be_long(column) else -(-_bytes_in_arrow(column) // rows)
        for column in (group.column(number) for number in range(group.num_columns))
    )


def _bytes_in_arrow(column: Any) -> int:
    width = _WIDTHS.get(column.physical_type, 0)
    if column.physical_type == "BYTE_ARRAY" and column.has_dictionary_page and column.statistics.has_min_max:
        width += max(len(column.statistics.min_raw), len(column.statistics.max_raw))
    return int(max(column.total_uncompressed_size, column.num_values * width))


def _may_be_long(column: Any) -> bool:
    return column.physical_type == "BYTE_ARRAY" and column.has_dictionary_page and _is_unbounded(column)


def _is_unbounded(column: Any) -> bool:
    """Tell whether a column of a row group does not tell its least and greatest value."""
    statistics = column.statistics
    return statistics is None or (bool(statistics.num_values) and not statistics.has_min_max)


def begin_of(group: Any) -> int:
    """Return where a row group begins in its file.

    Old writers say 0 for a dictionary that is not there (PARQUET-1402).
    """
    column = group.column(0)
    begins = [column.data_page_offset, column.dictionary_page_offset or column.data_page_offset]
    return int(min(begins))


def columns_by_path(schema: pa.Schema) -> dict[str, pa.Field]:
    """Return the columns of a file by their paths; of nested ones those inside."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, store_schema=False):
        pass
    return _by_path(pq.read_metadata(io.BytesIO(sink.getvalue())).schema)


def plain_columns(footer: Any) -> set[int]:
    """Return the field ids of columns that their writer found not worth a dictionary."""
    groups = row_groups_of(footer)
    return {
        id_
        for place, id_ in enumerate(_ids(footer))
        if not any(group.column(place).has_dictionary_page for group in groups)
    }


def unbounded_columns(footer: Any) -> Iterator[int]:
    """Yield field ids of columns whose row groups do not all tell their least and greatest value.

    Of these, Iceberg would take the bounds of the other row groups for those of the file.
    """
    groups = row_groups_of(footer)
    for place, id_ in enumerate(_ids(footer)):
        if any(_is_unbounded(group.column(place)) for group in groups):
            yield id_


def _ids(footer: Any) -> list[int]:
    return [id_of(column) or 0 for column in _by_path(footer.schema).values()]


def _by_path(parquet: Any) -> dict[str, pa.Field]:
    paths = (parquet.column(number).path for number in range(len(parquet)))
    columns = chain.from_iterable(map(_leaves, parquet.to_arrow_schema()))
    return dict(zip(paths, columns, strict=True))


def _leaves(column: pa.Field) -> Iterator[pa.Field]:
    kind = column.type
    if not kind.num_fields:
        yield column
    elif pa.types.is_map(kind):
        yield from _leaves(kind.key_field)
        yield from _leaves(kind.item_field)
    else:
        for place in range(kind.num_fields):
            yield from _leaves(kind.field(place))
