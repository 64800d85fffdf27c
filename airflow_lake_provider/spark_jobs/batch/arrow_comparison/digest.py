"""Digest of the values of rows as Arrow has them, for Python workers: vectorised, without an object for each value.

It says what :mod:`.row_content` says, and is another number. A row has 64 bits, the sum of a hash of each value. Each
hash depends on the place of the column. One number or time that differs always changes the sum. Other differences do,
but for a chance of one in 2^64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Digests = NDArray[np.uint64]
_U = np.uint64
# Of MurmurHash3 and SplitMix64.
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, _U(0xBF58476D1CE4E5B9), _U(0x94D049BB133111EB)
_ALL = _U(0xFFFFFFFFFFFFFFFF)
_BITS = (1 << 64) - 1
# So many rows of a column fit the cache of a core, with what is made of them.
_ROWS = 16_384
_WORD = 8
_BY_WIDTH = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_FIXED = (pa.types.is_signed_integer, pa.types.is_date32, pa.types.is_timestamp)


def has_digest(kind: pa.DataType) -> bool:
    """Return True for a type that :func:`digests` takes."""
    return (
        any(is_kind(kind) for is_kind in _FIXED)
        or kind in (pa.bool_(), pa.float32(), pa.float64(), pa.string(), pa.binary())
        or pa.types.is_decimal128(kind)
    )


def digests(columns: Sequence[pa.Array], rows: int) -> Digests:
    """Return a digest for each row, the same for rows that are equal in all values.

    NULL is equal to NULL, NaN to NaN and -0.0 to 0.0.

    :param columns: of types that :func:`has_digest`; rows that are compared need the same types in the same order.
        Texts may have large offsets on either side.
    :param rows: how many each of them has.
    """
    sums = np.zeros(rows, _U)
    for begin in range(0, rows, _ROWS):
        part = sums[begin : begin + _ROWS]
        for place, column in enumerate(columns):
            part += _hashes(column.slice(begin, _ROWS), place)
    return sums


def _hashes(column: pa.Array, place: int) -> Digests:
    """Return the hash of each value."""
    words = _words(column)
    words ^= _U((place + 1) * _GOLDEN & _BITS)
    _mix(words)
    if column.null_count:
        words[np.asarray(column.is_null())] = _mix(np.array([~place & _BITS], _U))[0]
    return words


def _mix(words: Digests) -> Digests:
    """Let each bit of a word decide all bits, in place; no two words become the same."""
    words ^= words >> _U(30)
    words *= _FIRST
    words ^= words >> _U(27)
    words *= _SECOND
    words ^= words >> _U(31)
    return words


def _words(column: pa.Array) -> Digests:
    """Return a word for each value, any word for NULL."""
    kind, rows = column.type, len(column)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _words_of_texts(column, np.int32)
    # Of Spark's rows, where ``spark.sql.execution.arrow.useLargeVarTypes`` is set.
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _words_of_texts(column, np.int64)
    if pa.types.is_boolean(kind):
        return _words(column.cast(pa.int8()))
    if pa.types.is_decimal128(kind):
        halves = np.frombuffer(column.buffers()[1], _U)[2 * column.offset : 2 * (column.offset + rows)]
        return _mix(halves[1::2] ^ _U(_GOLDEN)) + halves[::2]
    if pa.types.is_floating(kind):
        # A sum makes 0.0 of -0.0.
        floats = _fixed(column, np.float32 if kind == pa.float32() else np.float64) + kind.to_pandas_dtype()(0)
        floats[np.isnan(floats)] = np.nan
        return floats.view(_U) if floats.itemsize == _WORD else floats.view(np.uint32).astype(_U)
    return _fixed(column, _BY_WIDTH[kind.bit_width]).astype(np.int64).view(_U)


def _fixed(column: pa.Array, kind: type) -> NDArray[np.generic]:
    values = column.buffers()[1]
    if values is None:
        return np.zeros(len(column), kind)
    return np.frombuffer(values, kind)[column.offset : column.offset + len(column)]


def _words_of_texts(column: pa.Array, offset: type) -> Digests:
    """Hash texts by words of 8 bytes: in turn the first word of all texts, the second of those that have one.

    :param offset: type of the offsets of the texts.
    """
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, offset)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    begin, end = int(offsets[0]), int(offsets[-1])
    # Words are read in pairs, so that one more lies behind the last.
    bytes_ = np.zeros((end - begin + 2 * _WORD) // _WORD * _WORD + _WORD, np.uint8)
    if end > begin:
        bytes_[: end - begin] = np.frombuffer(data, np.uint8)[begin:end]
    words, starts, lengths = bytes_.view(_U), offsets[:-1] - begin, np.diff(offsets)
    # With the length: bytes behind the end are zeros, and a text may end with such.
    hashes = _mix(lengths.astype(_U) + _U(_GOLDEN))
    rows: NDArray[np.int64] | None = None
    for number in range(-(-int(lengths.max(initial=0)) // _WORD)):
        # A few that have no such word are cheaper to pass along: theirs is zero, which adds nothing.
        if number and 2 * np.count_nonzero(lengths > number * _WORD) < len(lengths):
            longer = np.flatnonzero(lengths > number * _WORD)
            rows, starts, lengths = longer if rows is None else rows[longer], starts[longer], lengths[longer]
        added = _word_at(words, starts + number * _WORD, lengths - number * _WORD)
        added *= _U((2 * number + 1) * _GOLDEN & _BITS)
        if rows is None:
            hashes += _mix(added)
        else:
            hashes[rows] += _mix(added)
    return hashes


def _word_at(words: Digests, places: NDArray[np.int64], left: NDArray[np.int64]) -> Digests:
    """Return the 8 bytes at each place, with zeros for those behind the end of its text.

    :param left: bytes from there to the end, none where it is not above 0.
    """
    whole, bits = places >> 3, ((places & 7) << 3).view(_U)
    word: Digests = words.take(whole, mode="clip")
    word >>= bits
    whole += 1
    # In two steps, as a word is not shifted by all of its bits.
    next_word = words.take(whole, mode="clip")
    next_word <<= _U(1)
    next_word <<= _U(63) - bits
    word |= next_word
    # Of a shift by all bits, numpy makes zero.
    word &= _ALL >> ((_WORD - np.clip(left, 0, _WORD)) << 3).view(_U)
    return word
