"""Positions as the bytes of a deletion vector: a 64-bit Roaring bitmap in its portable form, made with numpy.

Sources: Iceberg's Puffin spec, blob type ``deletion-vector-v1``, and the Roaring format specification. Numpy is on
every driver; a compiled bitmap library could not travel in the archive of our code.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_MAGIC = bytes((0xD1, 0xD3, 0x39, 0x64))
_COOKIE_WITHOUT_RUNS = 12346
# Up to here a container lists its values; above it is a bitmap of 65,536 bits.
_MOST_LISTED = 4096


def deletion_vector(positions: NDArray[np.int64]) -> bytes:
    """Return the blob of these positions: length, magic, bitmap, CRC-32.

    :param positions: at least one, in any order, without duplicates, none negative.
    """
    data = _MAGIC + _bitmap_64(np.sort(positions).astype(np.uint64))
    return struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def _bitmap_64(positions: NDArray[np.uint64]) -> bytes:
    high, starts = np.unique(positions >> np.uint64(32), return_index=True)
    parts = np.split(positions, starts[1:])
    bitmaps = [
        struct.pack("<I", int(key)) + _bitmap_32((part & np.uint64(0xFFFFFFFF)).astype(np.uint32))
        for key, part in zip(high, parts, strict=True)
    ]
    return struct.pack("<Q", len(bitmaps)) + b"".join(bitmaps)


def _bitmap_32(values: NDArray[np.uint32]) -> bytes:
    keys, starts, counts = np.unique(values >> np.uint32(16), return_index=True, return_counts=True)
    low = (values & np.uint32(0xFFFF)).astype("<u2")
    containers = [_container(part) for part in np.split(low, starts[1:])]
    descriptions = np.empty((len(keys), 2), "<u2")
    descriptions[:, 0] = keys
    descriptions[:, 1] = counts - 1
    header = struct.pack("<II", _COOKIE_WITHOUT_RUNS, len(keys)) + descriptions.tobytes()
    sizes = np.array([0, *(len(container) for container in containers[:-1])], np.int64)
    offsets = len(header) + 4 * len(keys) + np.cumsum(sizes)
    return header + offsets.astype("<u4").tobytes() + b"".join(containers)


def _container(low: NDArray[np.uint16]) -> bytes:
    if len(low) <= _MOST_LISTED:
        return low.tobytes()
    bits = np.zeros(1 << 16, np.uint8)
    bits[low] = 1
    return np.packbits(bits, bitorder="little").tobytes()
