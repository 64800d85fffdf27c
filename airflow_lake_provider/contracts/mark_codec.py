"""Marks of a change stream as bytes in base64: numbers of seven bits a byte, partitions by a digest.

The first byte is the ``code`` of the log whose positions the marks have.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat

from airflow_lake_provider.contracts.offset_ranges import Ranges, union
from airflow_lake_provider.contracts.positions import LOG_POSITIONS, LogPosition, PostgresLogPosition

DIGEST_BYTES = 6


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Position up to which events that are in order were applied.

    :param position: place in the log up to which they were.
    :param ts_ms: greatest ``source.ts_ms``; None where events have none.
    :param moved: whether a create with unavailable values was applied at ``position``, which only a change of the key
        makes; ``deleted``: whether a delete was. One record of the log makes no two of either, so that such an event is
        recognised when it comes again, where others at the mark are applied again.
    :param consumed: offsets of the partition that were read.
    :param since_ms: epoch milliseconds before which nothing above ``position`` was committed in this life of the
        source; None where that is not known, as in marks of earlier versions.
    """

    position: LogPosition
    ts_ms: int | None = None
    moved: bool = False
    deleted: bool = False
    consumed: Ranges = ()
    since_ms: int | None = None

    def merged(self, other: Mark) -> Mark:
        """Return the mark after both."""
        position = self.position.joined(other.position)
        at_mark = [mark for mark in (self, other) if mark.position == position]
        return Mark(
            position=position,
            ts_ms=_greatest(self.ts_ms, other.ts_ms),
            since_ms=_greatest(self.since_ms, other.since_ms),
            moved=any(mark.moved for mark in at_mark),
            deleted=any(mark.deleted for mark in at_mark),
            consumed=union(self.consumed, other.consumed),
        )

    @property
    def last_offset(self) -> int:
        """The greatest offset consumed, -1 without one."""
        return self.consumed[-1][1] if self.consumed else -1


def _greatest(*times: int | None) -> int | None:
    return max((ts for ts in times if ts is not None), default=None)


def pack(
    ordering: int, table: Mark | None, partitions: Mapping[str, Mark], unkeyed: tuple[Mark, bool] | None = None
) -> str:
    """Return text of the letters of base64."""
    marks = [mark for mark in (table, *partitions.values()) if mark is not None]
    log = marks[0].position if marks else PostgresLogPosition
    packed = bytearray([log.code, ordering, table is not None])
    for mark in () if table is None else (table,):
        packed += _numbers(_of_mark(mark))
    packed += _numbers([len(partitions)])
    for digest, mark in sorted(partitions.items()):
        packed += bytes.fromhex(digest) + _numbers(_of_mark(mark))
    if unkeyed is not None:
        packed += _numbers([unkeyed[1], *_of_mark(unkeyed[0])])
    return base64.b64encode(packed).decode()


def unpack(text: str) -> tuple[int, Mark | None, dict[str, Mark], tuple[Mark, bool] | None]:
    """Return what :func:`pack` was given.

    :raises ValueError: the positions are of a log that this version does not know.
    """
    packed = iter(base64.b64decode(text))
    if (log := LOG_POSITIONS.get(code := next(packed))) is None:
        raise ValueError(f"marks of change events in version {code} are not known; a newer version wrote the table")
    ordering, has_table = next(packed), next(packed)
    table = _mark(packed, log) if has_table else None
    partitions = {}
    for _ in range(_number(packed)):
        digest = bytes(next(packed) for _ in range(DIGEST_BYTES)).hex()
        partitions[digest] = _mark(packed, log)
    by_stream = next(packed, None)
    return ordering, table, partitions, None if by_stream is None else (_mark(packed, log), bool(by_stream))


def _of_mark(mark: Mark) -> list[int]:
    numbers = [*map(_zigzag, mark.position.numbers()), 0 if mark.ts_ms is None else _zigzag(mark.ts_ms) + 1]
    numbers += [mark.moved + 2 * mark.deleted + 4 * (mark.since_ms is not None)]
    numbers += [] if mark.since_ms is None else [_zigzag(mark.since_ms)]
    numbers += [len(mark.consumed)]
    last = 0
    for low, high in mark.consumed:
        numbers += [low - last, high - low]
        last = high
    return numbers


def _mark(packed: Iterator[int], log: type[LogPosition]) -> Mark:
    position = log.of_numbers(_signed(_number(packed)) for _ in repeat(None))
    ts_ms = _number(packed)
    flags = _number(packed)
    since_ms = _signed(_number(packed)) if flags & 4 else None
    last, consumed = 0, []
    for _ in range(_number(packed)):
        low = last + _number(packed)
        last = low + _number(packed)
        consumed.append((low, last))
    return Mark(
        position=position,
        ts_ms=_signed(ts_ms - 1) if ts_ms else None,
        moved=bool(flags & 1),
        deleted=bool(flags & 2),
        consumed=tuple(consumed),
        since_ms=since_ms,
    )


def _zigzag(number: int) -> int:
    return 2 * number if number >= 0 else -2 * number - 1


def _signed(number: int) -> int:
    return -(number + 1) // 2 if number % 2 else number // 2


def _numbers(values: Iterable[int]) -> bytes:
    packed = bytearray()
    for value in values:
        while value > 127:
            packed.append(value & 127 | 128)
            value >>= 7
        packed.append(value)
    return bytes(packed)


def _number(packed: Iterator[int]) -> int:
    value = shift = 0
    while (byte := next(packed)) & 128:
        value |= (byte & 127) << shift
        shift += 7
    return value | byte << shift
