from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from airflow_lake_provider.contracts.errors import BrokenMetadataError, UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files import deleted_positions
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.deleted_positions import (
    DeletedPositions,
    PositionDelete,
    vector_positions,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import TableFiles

MAGIC = bytes([0xD1, 0xD3, 0x39, 0x64])
# Containers of all three kinds, and rows beyond the lower 32 bits of a position.
SINGLE = st.integers(0, 2**34).map(lambda first: range(first, first + 1))
RUN = st.builds(lambda first, rows: range(first, first + rows), st.integers(0, 200_000), st.integers(1, 90_000))
EVERY_OTHER = st.builds(
    lambda first, rows: range(first, first + rows, 2), st.integers(0, 99_999), st.integers(1, 20_000)
)


def vector(folder: Path, positions: set[int], *, is_optimised: bool = False, before: bytes = b"PFA1") -> PositionDelete:
    bitmap = BitMap64(positions)
    if is_optimised:
        bitmap.run_optimize()
    content = MAGIC + bitmap.serialize()
    blob = len(content).to_bytes(4, "big") + content + zlib.crc32(content).to_bytes(4, "big")
    (folder / "deletes.puffin").write_bytes(before + blob + b"footer")
    return PositionDelete(
        location=f"file:{folder}/deletes.puffin", rows=len(positions), offset=len(before), size=len(blob)
    )


@given(st.lists(st.one_of(SINGLE, RUN, EVERY_OTHER), max_size=6), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_vector_is_read_as_the_bitmap_library_wrote_it(
    tmp_path_factory: pytest.TempPathFactory, ranges: list[range], is_optimised: bool
) -> None:
    positions = {position for each in ranges for position in each}
    written = vector(tmp_path_factory.mktemp("vectors"), positions, is_optimised=is_optimised)
    assert vector_positions(TableFiles(), written).tolist() == sorted(positions)


@pytest.mark.parametrize("damage", [3, 8, 20, -1], ids=["length", "magic", "bitmap", "checksum"])
def test_a_damaged_vector_is_refused(tmp_path: Path, damage: int) -> None:
    written = vector(tmp_path, {1, 5, 9}, before=b"")
    path = tmp_path / "deletes.puffin"
    content = bytearray(path.read_bytes())
    content[damage if damage >= 0 else written.size - 1] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(BrokenMetadataError, match="no deletion vector at byte 0"):
        vector_positions(TableFiles(), written)


def test_a_vector_of_other_rows_than_the_metadata_says_is_refused(tmp_path: Path) -> None:
    written = vector(tmp_path, {1, 5, 9})
    other = PositionDelete(location=written.location, rows=4, offset=written.offset, size=written.size)
    with pytest.raises(BrokenMetadataError, match="has 3 positions, the metadata says 4"):
        vector_positions(TableFiles(), other)


def test_a_file_of_position_deletes_gives_each_data_file_its_own(tmp_path: Path) -> None:
    paths = ["file:/a.parquet", "file:/b.parquet", "file:/a.parquet", "file:/c.parquet", "file:/a.parquet"]
    pq.write_table(pa.table({"file_path": paths, "pos": [7, 1, 3, 2, 7]}), tmp_path / "deletes.parquet")
    delete = PositionDelete(location=f"file://{tmp_path}/deletes.parquet", rows=5)

    deleted = DeletedPositions(TableFiles(), {"file:/a.parquet", "file:/d.parquet"})

    assert deleted.of("file:/a.parquet", [delete, delete]).tolist() == [3, 7]
    assert deleted.of("file:/d.parquet", [delete]).dtype == np.int64
    assert len(deleted.of("file:/d.parquet", [delete])) == 0


def test_more_positions_than_a_worker_may_hold_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_positions, "MOST_POSITIONS", 2)
    paths = [f"file:/{name}.parquet" for name in "abcd"]
    pq.write_table(pa.table({"file_path": paths, "pos": [1, 2, 3, 4]}), tmp_path / "deletes.parquet")
    of_partition = PositionDelete(location=f"file://{tmp_path}/deletes.parquet", rows=1)
    with pytest.raises(UnsupportedError, match="more than 2 rows"):
        DeletedPositions(TableFiles(), set(paths)).of(paths[0], [of_partition])
    with pytest.raises(UnsupportedError, match="more than 2 rows"):
        DeletedPositions(TableFiles(), set(paths)).of(paths[0], [vector(tmp_path, {1, 2, 3})])
    assert DeletedPositions(TableFiles(), set(paths[:2])).of(paths[0], [of_partition]).tolist() == [1]
