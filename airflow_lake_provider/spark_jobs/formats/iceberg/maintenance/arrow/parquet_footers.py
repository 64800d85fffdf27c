"""Read what the footers of Parquet files say: sizes, places and field ids of columns."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.file_columns import id_of
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.open_files import TableFiles


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


def begin_of(group: Any) -> int:
    """Return where a row group begins in its file."""
    column = group.column(0)
    begins = [column.data_page_offset]
    if column.has_dictionary_page:
        begins.append(column.dictionary_page_offset)
    return int(min(begins))


def column_ids(schema: pa.Schema) -> dict[str, int]:
    """Return the field ids of the columns of a file by their paths."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, store_schema=False):
        pass
    return _ids_by_path(pq.read_metadata(io.BytesIO(sink.getvalue())).schema)


def plain_columns(footer: Any) -> set[int]:
    """Return the field ids of columns that their writer found not worth a dictionary."""
    groups = row_groups_of(footer)
    return {
        id_
        for place, id_ in enumerate(_ids_by_path(footer.schema).values())
        if not any(group.column(place).has_dictionary_page for group in groups)
    }


def unbounded_columns(footer: Any) -> Iterator[int]:
    """Yield field ids of columns whose row groups do not all tell their least and greatest value.

    Of these, Iceberg would take the bounds of the other row groups for those of the file.
    """
    groups = row_groups_of(footer)
    for place, id_ in enumerate(_ids_by_path(footer.schema).values()):
        for group in groups:
            statistics = group.column(place).statistics
            if statistics is None or (statistics.num_values and not statistics.has_min_max):
                yield id_
                break


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
