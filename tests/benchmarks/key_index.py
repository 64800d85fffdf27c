"""Prototype of an index of keys: the hash of each key to its data file and position, in files sorted by hash.

It is an experiment (decision 25): the provider has no index. Rows of keys are 64-bit integers. An index is a list of
runs, as in a log-structured merge tree (O'Neil and others, 1996). A run is 16 bytes per key: its hash, and the number
of its data file with the position. A lookup reads one block of 4 KB per key and run; the newest run with a key wins.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
# Of a file that is read at random: 256 entries of 16 bytes.
BLOCK_ENTRIES, BLOCK_BYTES = 256, 4096
# The upper bits of a place are the number of a data file: a million of them, with rows by the trillion.
POSITION_BITS = np.uint64(44)
ABSENT = np.uint64(2**64 - 1)


def hashed(keys: NDArray[np.int64]) -> Hashes:
    """Return 64 well mixed bits of each key (splitmix64; Steele, Lea and Flood, 2014)."""
    mixed = keys.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@dataclass
class Run:
    """Entries of one commit, or of several that were merged.

    :param fences: first hash of each block, 8 bytes per 256 keys; they are kept in memory.
    """

    path: Path
    entries: int
    fences: Hashes

    @classmethod
    def write(cls, path: Path, hashes: Hashes, places: Hashes) -> Run:
        """Sort and write entries; of a hash that comes twice a lookup gives one."""
        order = np.argsort(hashes, kind="stable")
        blocks = -(-len(hashes) // BLOCK_ENTRIES)
        entries = np.full((blocks * BLOCK_ENTRIES, 2), ABSENT, dtype=np.uint64)
        entries[: len(hashes), 0], entries[: len(hashes), 1] = hashes[order], places[order]
        with path.open("wb") as file:
            entries.tofile(file)
            file.flush()
            os.fsync(file.fileno())
        return cls(path, len(hashes), entries[::BLOCK_ENTRIES, 0].copy())

    def lookup(self, hashes: Hashes) -> tuple[Hashes, int]:
        """Return the place of each hash, :data:`ABSENT` for none, and the number of blocks read."""
        block_of_each = np.maximum(np.searchsorted(self.fences, hashes, "right") - 1, 0)
        wanted, row_of_each = np.unique(block_of_each, return_inverse=True)
        rows = self._read(wanted)[row_of_each]
        hits = (rows[:, :, 0] == hashes[:, None]) & (rows[:, :, 1] != ABSENT)
        has_hit = hits.any(axis=1)
        return np.where(has_hit, rows[np.arange(len(rows)), hits.argmax(axis=1), 1], ABSENT), len(wanted)

    def _read(self, wanted: NDArray[np.intp]) -> Hashes:
        blocks = np.empty((len(wanted), BLOCK_ENTRIES, 2), dtype=np.uint64)
        with self.path.open("rb") as file:
            for index, block in enumerate(wanted.tolist()):
                read = os.pread(file.fileno(), BLOCK_BYTES, block * BLOCK_BYTES)
                blocks[index] = np.frombuffer(read, np.uint64).reshape(BLOCK_ENTRIES, 2)
        return blocks

    def forget_cached(self) -> None:
        """Let the next lookup read from the disk."""
        with self.path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@dataclass
class KeyIndex:
    """Runs of one table, the newest last.

    :param files: path of each data file that has ever been indexed; a place has its number.
    """

    folder: Path
    runs: list[Run] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(run.path.stat().st_size for run in self.runs)

    def add(self, paths: Sequence[str]) -> None:
        """Index data files as the newest; keys in them are at no older place any more."""
        hashes, places = [], []
        for path in paths:
            keys = pq.read_table(path.removeprefix("file:"), columns=["id"]).column("id").to_numpy()
            number = np.uint64(len(self.files)) << POSITION_BITS
            self.files.append(path)
            hashes.append(hashed(keys))
            places.append(np.arange(len(keys), dtype=np.uint64) | number)
        path_of_run = self.folder / f"run-{len(self.files):06}.index"
        self.runs.append(Run.write(path_of_run, np.concatenate(hashes), np.concatenate(places)))

    def lookup(self, keys: NDArray[np.int64]) -> tuple[Hashes, int]:
        """Return the newest place of each key, and the number of blocks read."""
        hashes = hashed(keys)
        places = np.full(len(keys), ABSENT)
        blocks = 0
        for run in reversed(self.runs):
            lacking = np.flatnonzero(places == ABSENT)
            places[lacking], read = run.lookup(hashes[lacking])
            blocks += read
        return places, blocks

    def told(self, places: Hashes) -> list[tuple[str, int]]:
        """Return path and position of each place."""
        numbers, positions = places >> POSITION_BITS, places & ((np.uint64(1) << POSITION_BITS) - np.uint64(1))
        return [(self.files[int(number)], int(pos)) for number, pos in zip(numbers, positions, strict=True)]
