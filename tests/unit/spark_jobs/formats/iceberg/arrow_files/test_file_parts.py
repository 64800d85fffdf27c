"""Parts of Parquet files are cut at row groups."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files import file_parts
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_parts import FilePart
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.parquet_footers import bytes_of_row
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.row_readers import ParquetRows

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})


def rows_of(numbers: range) -> pa.Table:
    return pa.table({"id": [*numbers], "name": [str(number) for number in numbers]}, SCHEMA)


def file_of(folder: Path, *groups: pa.Table) -> FilePart:
    file = folder / "rows.parquet"
    with pq.ParquetWriter(file, SCHEMA) as writer:
        for group in groups:
            writer.write_table(group)
    return FilePart(path=f"file:{file}", start=0, length=file.stat().st_size, sequence_number=0)


def ids_of_row_groups(part: FilePart) -> list[list[int]]:
    rows = ParquetRows(parts=[[part]], schema=SCHEMA, stored=frozenset(SCHEMA.names))
    cut = [each for each, _, _ in rows.row_groups([part])]
    return [pa.Table.from_batches(rows.batches(each), SCHEMA).column("id").to_pylist() for each in cut]


def test_row_groups_without_rows_are_passed_over(tmp_path: Path) -> None:
    # Arrow says of each that it begins at byte 0.
    part = file_of(tmp_path, SCHEMA.empty_table(), rows_of(range(2)), SCHEMA.empty_table(), rows_of(range(2, 4)))
    ids = ids_of_row_groups(part)
    assert [id_ for of_group in ids for id_ in of_group] == [*range(4)]


def test_small_row_groups_in_turn_are_one_part_so_that_a_file_is_opened_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [rows_of(range(begin, begin + 10)) for begin in range(0, 1_000, 10)]
    part = file_of(tmp_path, SCHEMA.empty_table(), *groups, SCHEMA.empty_table())
    assert ids_of_row_groups(part) == [[*range(1_000)]]
    monkeypatch.setattr(file_parts, "_BATCH_BYTES", 2_000)
    ids = ids_of_row_groups(part)
    assert len(ids) in range(2, 51)
    assert [id_ for of_group in ids for id_ in of_group] == [*range(1_000)]


def test_row_groups_that_do_not_lie_one_behind_the_other_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = file_of(tmp_path, rows_of(range(2)), rows_of(range(2, 4)))
    monkeypatch.setattr(file_parts, "begin_of", lambda _: 4)
    with pytest.raises(UnsupportedError, match="not in order"):
        ids_of_row_groups(part)


def test_the_bytes_of_a_row_are_those_of_arrow_though_a_dictionary_has_fewer(tmp_path: Path) -> None:
    count = 50_000
    rows = pa.table(
        {
            "number": pa.array([7] * count),
            "ratio": pa.array([1.5, None] * (count // 2)),
            "category": ["a category with a name"] * count,
            "code": [f"code {number:010}" for number in range(count)],
            "nothing": pa.nulls(count, pa.string()),
        }
    )
    file = tmp_path / "rows.parquet"
    pq.write_table(rows, file)
    footer = pq.read_metadata(file)
    assert footer.num_row_groups == 1
    of_group = bytes_of_row(footer.row_group(0)) * count
    assert rows.nbytes * 0.9 < of_group < rows.nbytes * 1.3
