"""A split is rewritten so that every reader finds its rows, within the memory of a worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_columns import arrow_schema
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_parts import FilePart, without_positions
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import TableFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.parquet_footers import bytes_of_row
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow import rewrite_split as subject
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.parquet_layout import ParquetLayout
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.rewrite_split import (
    Split,
    SplitResult,
    rewrite_split,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.row_order import SortColumn

TYPES = {
    "id": "long",
    "text": "string",
    "price": "double",
    "inside": {
        "type": "struct",
        "fields": [{"id": 11, "name": "rate", "required": False, "type": "float"}],
    },
    "rates": {"type": "list", "element-id": 12, "element": "double", "element-required": False},
}


def schema_of(*names: str) -> dict[str, Any]:
    ids = {name: place for place, name in enumerate(TYPES, 1)}
    fields = [{"id": ids[name], "name": name, "required": False, "type": TYPES[name]} for name in names]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def written(path: Path, rows: dict[str, list[Any]], **options: Any) -> Path:
    table = pa.table(rows, schema=arrow_schema(schema_of(*rows), has_row_lineage=False))
    pq.write_table(table, path, store_schema=False, **options)
    return path


def split_of(folder: Path, paths: list[Path], names: tuple[str, ...], **arguments: Any) -> Split:
    parts = [FilePart(path=str(path), start=0, length=path.stat().st_size, sequence_number=1) for path in paths]
    given: dict[str, Any] = {"has_row_lineage": False, "parts": tuple(parts), **arguments}
    return Split(
        group=0,
        stem=str(folder / "new"),
        schema=json.dumps(schema_of(*names)),
        partition_sources=frozenset(),
        layout=ParquetLayout.of({}),
        most_bytes=512 << 20,
        **given,
    )


def footers(result: SplitResult) -> list[Any]:
    return [pq.read_metadata(file.location) for file in result.files]


@pytest.mark.parametrize("condition", ["price > 1000", "inside.rate > 1000", "list_contains(rates, 'NaN'::DOUBLE)"])
def test_readers_that_put_nan_above_all_numbers_find_it(tmp_path: Path, condition: str) -> None:
    rows: dict[str, list[Any]] = {
        "id": [1, 2, 3],
        "price": [1.0, float("nan"), 3.0],
        "inside": [{"rate": 1.0}, {"rate": float("nan")}, None],
        "rates": [[1.0], [float("nan")], []],
    }
    # Without statistics, as the old file of another writer.
    old = written(tmp_path / "old.parquet", rows, write_statistics=False)
    result = rewrite_split(split_of(tmp_path, [old], tuple(rows)), TableFiles())
    (file,) = result.files
    query = f"SELECT id FROM read_parquet(?) WHERE {condition}"
    assert duckdb.execute(query, [file.location]).fetchall() == [(2,)]
    columns = footers(result)[0].row_group(0)
    assert [columns.column(place).is_stats_set for place in range(4)] == [True, False, False, False]
    assert file.floats[3].nans == 1
    assert file.unbounded == {12}


def test_the_largest_files_say_what_is_worth_a_dictionary(tmp_path: Path) -> None:
    texts = [f"k{number % 7}" for number in range(20_000)]
    large = written(tmp_path / "large.parquet", {"id": list(range(20_000)), "text": texts})
    small = [
        written(tmp_path / f"{number}.parquet", {"id": [number], "text": ["a"]}, use_dictionary=False)
        for number in range(20)
    ]
    empty = [written(tmp_path / f"empty {number}.parquet", {"id": [], "text": []}) for number in range(10)]
    result = rewrite_split(split_of(tmp_path, [*empty, *small, large], ("id", "text")), TableFiles())
    (footer,) = footers(result)
    assert (footer.num_rows, footer.num_row_groups) == (20_020, 1)
    assert footer.row_group(0).column(1).has_dictionary_page
    assert rewrite_split(split_of(tmp_path, empty, ("id", "text")), TableFiles()).files == ()


def test_large_files_without_rows_make_no_row_group_of_each_row(tmp_path: Path) -> None:
    schema = arrow_schema(schema_of("id"), has_row_lineage=False).with_metadata({"note": "x" * 10_000})
    empty = [tmp_path / f"empty {number}.parquet" for number in range(10)]
    for path in empty:
        pq.write_table(pa.table({"id": []}, schema=schema), path)
    rows = written(tmp_path / "rows.parquet", {"id": list(range(50))})
    result = rewrite_split(split_of(tmp_path, [*empty, rows], ("id",)), TableFiles())
    assert [(footer.num_rows, footer.num_row_groups) for footer in footers(result)] == [(50, 1)]


@pytest.mark.parametrize("order", [(), (SortColumn(name="id", is_descending=True, has_nulls_first=True),)])
def test_row_groups_have_the_size_that_the_table_asks_for(tmp_path: Path, order: tuple[SortColumn, ...]) -> None:
    old = written(tmp_path / "old.parquet", {"id": list(range(10_000))}, use_dictionary=False)
    layout = ParquetLayout.of({"write.parquet.row-group-size-bytes": "8000"})
    split = replace(split_of(tmp_path, [old], ("id",), order=order), layout=layout)
    (footer,) = footers(rewrite_split(split, TableFiles()))
    assert footer.num_row_groups > 3
    assert {footer.row_group(number).num_rows for number in range(3)} == {footer.row_group(0).num_rows}


def test_a_dictionary_of_long_texts_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repeated = written(tmp_path / "old.parquet", {"id": list(range(4_000)), "text": ["x" * 60_000] * 4_000})
    footer = pq.read_metadata(repeated).row_group(0)
    assert footer.total_byte_size < 300_000
    assert bytes_of_row(footer) > 60_000
    widths = []

    def measured(rows: pa.RecordBatch, *given: Any) -> pa.RecordBatch:
        widths.append(rows.nbytes)
        return without_positions(rows, *given)

    monkeypatch.setattr(subject, "without_positions", measured)
    result = rewrite_split(split_of(tmp_path, [repeated], ("id", "text")), TableFiles())
    assert sum(file.rows for file in result.files) == 4_000
    assert max(widths) < 32 << 20


@pytest.mark.parametrize(
    ("name", "values", "constant", "is_alike"),
    [
        ("text", ["a", "a"], "a", True),
        ("text", ["a", "b"], "a", False),
        ("text", ["a", None], "a", False),
        ("text", [None, None], "a", False),
        ("text", [None, None], None, True),
        ("text", ["a", None], None, False),
        ("id", [7, 7], "7", True),
        ("id", [7, 8], "7", False),
        ("price", [1.5, 1.5], "1.5", True),
    ],
)
def test_a_column_that_is_its_partition_has_no_other_values(
    tmp_path: Path, name: str, values: list[Any], constant: str | None, is_alike: bool
) -> None:
    old = written(tmp_path / "old.parquet", {name: values})
    id_ = schema_of(name)["fields"][0]["id"]
    result = rewrite_split(split_of(tmp_path, [old], (name,), constants={id_: constant}), TableFiles())
    expected = None if is_alike else f"a file has other values of column {name} than its partition"
    assert (result.reason, len(result.files)) == (expected, int(is_alike))


def varint(number: int) -> Iterator[int]:
    number *= 2
    while number > 127:
        yield number & 127 | 128
        number >>= 7
    yield number


def with_zeros_for_dictionaries(path: Path) -> None:
    """Say in the footer that each dictionary is at 0, as parquet-mr did where there was none (PARQUET-1402)."""
    footer = pq.read_metadata(path)
    content = bytearray(path.read_bytes())
    length = int.from_bytes(content[-8:-4], "little")
    end, text = len(content) - 8 - length, content[-8 - length : -8]
    for group in range(footer.num_row_groups):
        offset = bytes(varint(footer.row_group(group).column(0).data_page_offset))
        # data_page_offset is field 9 of thrift's ColumnMetaData, dictionary_page_offset is field 11.
        text = text.replace(b"\x26" + offset + b"\x3c", b"\x26" + offset + b"\x26\x00\x1c")
    path.write_bytes(content[:end] + text + len(text).to_bytes(4, "little") + b"PAR1")


def test_rows_of_a_cut_file_keep_their_positions_where_its_footer_says_zero(tmp_path: Path) -> None:
    path, first = tmp_path / "old.parquet", 0
    schema = arrow_schema(schema_of("id"), has_row_lineage=False)
    with pq.ParquetWriter(path, schema, use_dictionary=False, store_schema=False) as writer:
        for rows in (1_000, 9_000, 1_000, 9_000, 1_000):
            table = pa.table({"id": list(range(first, first + rows))}, schema=schema)
            writer.write_table(table, row_group_size=rows)
            first += rows
    cut = pq.read_metadata(path).row_group(1).column(0).data_page_offset
    with_zeros_for_dictionaries(path)
    footer = pq.read_metadata(path)
    assert {footer.row_group(number).column(0).dictionary_page_offset for number in range(5)} == {0}
    ids = []
    for number, (start, length) in enumerate([(4, cut - 4), (cut, path.stat().st_size - cut)]):
        part = FilePart(path=str(path), start=start, length=length, sequence_number=1, first_row_id=0)
        split = split_of(tmp_path / str(number), [], ("id",), has_row_lineage=True, parts=(part,))
        for file in rewrite_split(split, TableFiles()).files:
            rows = pq.read_table(file.location)
            assert rows["id"].to_pylist() == rows["_row_id"].to_pylist()
            ids += rows["id"].to_pylist()
    assert ids == list(range(first))
