"""Read the positions that deletion vectors and position delete files mark as deleted, without a JVM.

Sources: the spec's ``deletion-vector-v1`` blob, and the portable format of 64-bit Roaring bitmaps. A rewrite that sorts
nothing keeps the order of rows. So it is known where newly deleted ones are in the new files.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from airflow_lake_provider.contracts.errors import BrokenMetadataError, CommitConflictError, UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import TableFiles

Positions = NDArray[np.int64]
# 80 MB, and twice as much while they are sorted.
MOST_POSITIONS = 10_000_000
_MAGIC = bytes([0xD1, 0xD3, 0x39, 0x64])
# Before and after the bitmap of a blob: its length and the magic number, and a checksum.
_BEFORE, _AFTER = 8, 4
_WITHOUT_RUNS, _WITH_RUNS = 12346, 12347
# A container with runs has an offset header from so many containers on.
_FEWEST_WITH_OFFSETS = 4
_LARGEST_ARRAY = 4096
_BITMAP_BYTES = 8192


@dataclass(frozen=True, kw_only=True)
class PositionDelete:
    """A deletion vector, or a file of position deletes.

    :param rows: positions in it.
    :param offset: of the vector in its Puffin file; None for a file of position deletes.
    :param size: of the vector in bytes.
    """

    location: str
    rows: int
    offset: int | None = None
    size: int = 0


@dataclass
class DeletedPositions:
    """Deleted positions of some data files.

    :param paths: locations of the data files, as delete files name them.
    """

    files: TableFiles
    paths: Collection[str]
    _by_file: dict[str, dict[str, list[Positions]]] = field(default_factory=dict)
    _count: int = 0

    def of(self, path: str, deletes: Sequence[PositionDelete]) -> Positions:
        """Return the deleted positions of a data file, ascending and each once.

        :param deletes: that apply to it.
        :raises BrokenMetadataError: a vector is not what the metadata says.
        :raises UnsupportedError: they are too many for a worker's memory.
        """
        refuse_many(sum(delete.rows for delete in deletes))
        parts = [part for delete in deletes for part in self._parts(path, delete)]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)

    def _parts(self, path: str, delete: PositionDelete) -> list[Positions]:
        if delete.offset is not None:
            return [vector_positions(self.files, delete)]
        if delete.location not in self._by_file:
            self._by_file[delete.location] = self._read(delete.location)
        return self._by_file[delete.location].get(path, [])

    def _read(self, location: str) -> dict[str, list[Positions]]:
        """Read a file of position deletes, batch by batch, and return those of the data files."""
        by_path: dict[str, list[Positions]] = {}
        system, place = self.files.place_of(location)
        with pq.ParquetFile(place, filesystem=system, read_dictionary=["file_path"]) as deletes:
            for batch in deletes.iter_batches(columns=["file_path", "pos"], use_threads=False):
                paths, positions = batch.column("file_path"), batch.column("pos").to_numpy()
                for code, path in enumerate(paths.dictionary.to_pylist()):
                    if path in self.paths:
                        of_path = positions[paths.indices.to_numpy() == code]
                        by_path.setdefault(path, []).append(of_path)
                        self._count += len(of_path)
                        refuse_many(self._count)
        return by_path


def refuse_many(count: int) -> None:
    """Refuse to read so many positions.

    :raises UnsupportedError: they are too many for the memory of one process.
    """
    if count > MOST_POSITIONS:
        raise UnsupportedError(f"more than {MOST_POSITIONS:,} rows of its files are deleted")


def vector_positions(files: TableFiles, vector: PositionDelete) -> Positions:
    """Read a deletion vector.

    :raises BrokenMetadataError: its bytes are not a vector, or not one of so many rows.
    """
    system, place = files.place_of(vector.location)
    with system.open_input_file(place) as file:
        blob = file.read_at(vector.size, vector.offset or 0)
    bitmap, checksum = blob[_BEFORE:-_AFTER], int.from_bytes(blob[-_AFTER:], "big")
    length = int.from_bytes(blob[:4], "big")
    is_whole = length == vector.size - _BEFORE and blob[4:_BEFORE] == _MAGIC
    if not is_whole or zlib.crc32(blob[4:-_AFTER]) != checksum:
        raise BrokenMetadataError(f"{vector.location}: no deletion vector at byte {vector.offset}")
    positions = _positions(bitmap)
    if len(positions) != vector.rows:
        raise BrokenMetadataError(
            f"{vector.location}: the deletion vector at byte {vector.offset} has {len(positions)} positions, the "
            f"metadata says {vector.rows}"
        )
    return positions


def _positions(bitmap: bytes) -> Positions:
    """Return the positions of a 64-bit bitmap: a number of 32-bit ones, each after its upper half."""
    place, parts = 8, []
    for _ in range(_number(bitmap, 0, 8)):
        upper = _number(bitmap, place, 4)
        lower, place = _lower_halves(bitmap, place + 4)
        parts.append(lower + (upper << 32))
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _lower_halves(bitmap: bytes, place: int) -> tuple[Positions, int]:
    """Return the numbers of a 32-bit bitmap, and where it ends."""
    cookie = _number(bitmap, place, 4)
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.frombuffer(bitmap, np.uint8, (count + 7) // 8, place + 4)
        has_runs = np.unpackbits(flags, bitorder="little")[:count].astype(bool)
        place += 4 + len(flags)
    elif cookie == _WITHOUT_RUNS:
        count, has_runs = _number(bitmap, place + 4, 4), None
        place += 8
    else:
        raise BrokenMetadataError(f"no Roaring bitmap begins with {cookie}")
    headers = np.frombuffer(bitmap, "<u2", 2 * count, place).astype(np.int64).reshape(count, 2)
    place += 4 * count
    if has_runs is None or count >= _FEWEST_WITH_OFFSETS:
        place += 4 * count
    parts = []
    for number, (key, less_one) in enumerate(headers):
        if has_runs is not None and has_runs[number]:
            part, place = _runs(bitmap, place)
        else:
            part, place = _container(bitmap, place, int(less_one) + 1)
        parts.append(part + (int(key) << 16))
    return (np.concatenate(parts) if parts else np.empty(0, np.int64)), place


def _container(bitmap: bytes, place: int, count: int) -> tuple[Positions, int]:
    if count <= _LARGEST_ARRAY:
        return np.frombuffer(bitmap, "<u2", count, place).astype(np.int64), place + 2 * count
    bits = np.frombuffer(bitmap, np.uint8, _BITMAP_BYTES, place)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int64), place + _BITMAP_BYTES


def _runs(bitmap: bytes, place: int) -> tuple[Positions, int]:
    count = _number(bitmap, place, 2)
    runs = np.frombuffer(bitmap, "<u2", 2 * count, place + 2).astype(np.int64).reshape(count, 2)
    parts = [np.arange(first, first + less_one + 1) for first, less_one in runs]
    return np.concatenate(parts), place + 2 + 4 * count


def _number(bitmap: bytes, place: int, size: int) -> int:
    return int.from_bytes(bitmap[place : place + size], "little")


@dataclass(frozen=True, kw_only=True)
class ReadPart:
    """Rows of a data file that a split has read, one after the other.

    :param first: position of the first of them.
    :param rows: how many, the deleted ones included.
    :param left: how many of them were not deleted, and are in new files.
    """

    path: str
    first: int
    rows: int
    left: int


def moved_positions(
    parts: Sequence[ReadPart],
    new_files: Sequence[tuple[str, int]],
    applied: Mapping[str, Positions],
    newer: Mapping[str, Positions],
) -> dict[str, Positions]:
    """Return the positions that rows of a split have in its new files, by their locations; ascending.

    :param parts: of the split, in the order in which they were read.
    :param new_files: location and number of rows of each, in the order in which they were written.
    :param applied: deleted positions that the rewrite left out, by path of the old file; ascending.
    :param newer: positions of the rows, by path of the old file; ascending, and none of ``applied``.
    :raises CommitConflictError: the new files have not as many rows as the parts have left.
    """
    _refuse_other_counts(parts, new_files, applied)
    moved, written = [np.empty(0, np.int64)], 0
    for part in parts:
        positions = newer.get(part.path)
        if positions is not None:
            begin, end = np.searchsorted(positions, [part.first, part.first + part.rows])
            inside, left_out = positions[begin:end], applied.get(part.path, np.empty(0, np.int64))
            gone_before = np.searchsorted(left_out, inside) - np.searchsorted(left_out, part.first)
            moved.append(inside - part.first - gone_before + written)
        written += part.left
    # Parts of one file may be read in any order.
    return _by_file(np.sort(np.concatenate(moved)), new_files)


def _refuse_other_counts(
    parts: Sequence[ReadPart], new_files: Sequence[tuple[str, int]], applied: Mapping[str, Positions]
) -> None:
    rows_left = [
        part.rows - int(np.diff(np.searchsorted(applied[part.path], [part.first, part.first + part.rows]))[0])
        if part.path in applied
        else part.left
        for part in parts
    ]
    if rows_left != [part.left for part in parts] or sum(rows_left) != sum(rows for _, rows in new_files):
        raise CommitConflictError("new files have other numbers of rows than were left of the old ones")


def _by_file(places: Positions, new_files: Sequence[tuple[str, int]]) -> dict[str, Positions]:
    by_file, begin = {}, 0
    for location, rows in new_files:
        first, end = np.searchsorted(places, [begin, begin + rows])
        if end > first:
            by_file[location] = places[first:end] - begin
        begin += rows
    return by_file
