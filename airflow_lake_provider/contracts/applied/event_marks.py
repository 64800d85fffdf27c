"""Progress of a table in a change stream, for each part of the stream that is in order, and how it is written.

A mark is a position in the source's log, not in Kafka: a stream that starts again sends old events at new offsets.
The position (``log_positions.LogPosition``) never goes back in what is in order, unless something is delivered again.
Offsets tell a late file from a repeated one. Below its mark, an event at an offset that was consumed comes again. One
at an offset that was not is late.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import repeat

from airflow_lake_provider.contracts.applied.log_positions import LOG_POSITIONS, LogPosition, PostgresLogPosition
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.table_properties import MAX_VALUE_CHARACTERS

# It needs the positions of all rows, so it is no way to go on with a table that was filled otherwise.
BY_KEY = "read the stream from its beginning into a new table with ordering='key', which takes events in any order"


class EventOrdering(str, Enum):
    """Known order in which the events of one table arrive."""

    PARTITION = "partition"
    STREAM = "stream"
    KEY = "key"
    UNKNOWN = "unknown"

    @classmethod
    def asked(cls) -> tuple[EventOrdering, ...]:
        """Return the orderings that an author can ask for."""
        return cls.PARTITION, cls.STREAM, cls.KEY


@dataclass(frozen=True, kw_only=True)
class EventMarks:
    """Marks of what was applied, by the order that was known then.

    :param ordering: which of the marks are kept: those of ``partitions``, or that of the whole table.
    :param table: greatest of all events of the table. With ``partition`` it is that of a time when it was the only one:
        events of any partition may have been applied up to it.
    :param partitions: by :func:`partition_digest`.
    :param unkeyed: greatest mark when the table went over to ``ordering="key"``. What was applied up to it has left no
        position in the rows, and deleted keys are not noted. It stays as long as that ordering.
    :param unkeyed_stream: whether all events up to ``unkeyed`` were applied in order, so that they come again.
    :param full_name: of the table in the source, whose events were applied; None where that is not known.
    """

    ordering: EventOrdering
    table: Mark | None = None
    partitions: Mapping[str, Mark] = field(default_factory=dict)
    unkeyed: Mark | None = None
    unkeyed_stream: bool = False
    full_name: str | None = None

    @property
    def greatest(self) -> Mark | None:
        """The greatest mark of all, without offsets: what a mark of the whole table would be."""
        marks = [replace(mark, consumed=()) for mark in (self.table, *self.partitions.values()) if mark is not None]
        if not marks:
            return None
        greatest = marks[0]
        for mark in marks[1:]:
            greatest = greatest.merged(mark)
        return greatest

    @property
    def log(self) -> type[LogPosition] | None:
        """Kind of the places of all marks; None without one."""
        marks = (self.table, self.unkeyed, *self.partitions.values())
        return next((type(mark.position) for mark in marks if mark is not None), None)

    @property
    def key_floor(self) -> tuple[Mark | None, bool]:
        """Values of ``unkeyed`` and ``unkeyed_stream`` with ``ordering="key"``, whatever the ordering is now."""
        if self.ordering is EventOrdering.KEY:
            return self.unkeyed, self.unkeyed_stream
        return self.greatest, self.ordering is EventOrdering.STREAM

    def floor(self, label: str) -> Mark | None:
        """Return the mark below which an event of a partition is old; None where nothing of it was applied."""
        return self.partitions.get(partition_digest(label), self.table)

    def merged(self, ordering: EventOrdering, applied: Mapping[str | None, Mark]) -> EventMarks:
        """Return the marks after applying events; no mark goes back.

        :param ordering: by which they were applied.
        :param applied: by label of the partition, None where it is not known; what was applied of it.
        """
        if ordering is not EventOrdering.PARTITION:
            marks = EventMarks(ordering=ordering, table=self.greatest, full_name=self.full_name)
            for mark in applied.values():
                plain = replace(mark, consumed=())
                marks = replace(marks, table=marks.table.merged(plain) if marks.table else plain)
            if ordering is EventOrdering.KEY:
                unkeyed, by_stream = self.key_floor
                marks = replace(marks, unkeyed=unkeyed, unkeyed_stream=unkeyed is not None and by_stream)
            return marks
        partitions = dict(self.partitions)
        for label, mark in applied.items():
            digest = partition_digest(label or "")
            before = partitions.get(digest)
            partitions[digest] = before.merged(mark) if before else mark
        return EventMarks(ordering=ordering, table=self.table, partitions=partitions, full_name=self.full_name)

    def to_text(self) -> str:
        """Return the value of a table property, at most 3,500 characters.

        What does not fit of the consumed offsets is forgotten, the oldest first. Events at those are then refused as
        late, where they would have been dropped as repeated.

        :raises UnsupportedError: more partitions than fit.
        """
        partitions = dict(self.partitions)
        while len(text := self._packed(partitions)) > MAX_VALUE_CHARACTERS:
            most = max(partitions, key=lambda digest: len(partitions[digest].consumed))
            ranges = partitions[most].consumed
            if len(ranges) < 2:
                raise UnsupportedError(
                    f"the events come from {len(partitions)} partitions, more than a table property can keep marks "
                    f"of; {BY_KEY}"
                )
            # A tenth at once: one by one it would be packed hundreds of times.
            partitions[most] = replace(partitions[most], consumed=ranges[max(1, len(ranges) // 10) :])
        return text

    def _packed(self, partitions: Mapping[str, Mark]) -> str:
        unkeyed = None if self.unkeyed is None else (self.unkeyed, self.unkeyed_stream)
        return pack(list(EventOrdering).index(self.ordering), self.table, partitions, unkeyed, self.full_name)

    @classmethod
    def read(cls, text: str | None) -> EventMarks | None:
        """Read the value of a table property; None without one."""
        if text is None:
            return None
        ordering, table, partitions, unkeyed, full_name = unpack(text)
        mark, by_stream = unkeyed or (None, False)
        return cls(
            ordering=list(EventOrdering)[ordering],
            table=table,
            partitions=partitions,
            unkeyed=mark,
            unkeyed_stream=by_stream,
            full_name=full_name,
        )


def partition_digest(label: str) -> str:
    """Return what stands for a partition in the marks.

    :param label: ``<topic>-<partition>``.
    """
    return hashlib.sha256(label.encode()).hexdigest()[: 2 * DIGEST_BYTES]


DIGEST_BYTES = 6


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Position up to which events that are in order were applied.

    :param position: place in the log up to which they were.
    :param ts_ms: greatest time of a commit, in epoch milliseconds; None where events have none.
    :param moved: whether a create with unavailable values was applied at ``position``, which only a change of the key
        makes; ``deleted``: whether a delete was. One record of the log makes no two of either. So such an event is
        recognised when it comes again. Others at the mark are applied again.
    :param consumed: offsets of the partition that were read.
    :param since_ms: epoch milliseconds before which nothing above ``position`` was committed in this log of the source.
        None where that is not known, as in marks of earlier versions.
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
            ts_ms=greatest_time(self.ts_ms, other.ts_ms),
            since_ms=greatest_time(self.since_ms, other.since_ms),
            moved=any(mark.moved for mark in at_mark),
            deleted=any(mark.deleted for mark in at_mark),
            consumed=union(self.consumed, other.consumed),
        )

    @property
    def is_of_events(self) -> bool:
        """False of a partition with nothing but tombstones."""
        return self.position != self.position.before_all()

    @property
    def last_offset(self) -> int:
        """The greatest offset consumed, -1 without one."""
        return self.consumed[-1][1] if self.consumed else -1


def greatest_time(*times: int | None) -> int | None:
    """Return the greatest of the times that are known."""
    return max((ts for ts in times if ts is not None), default=None)


# Before a name, where whether a stream was in order may stand.
_NAME_FOLLOWS = 2


def pack(
    ordering: int,
    table: Mark | None,
    partitions: Mapping[str, Mark],
    unkeyed: tuple[Mark, bool] | None = None,
    full_name: str | None = None,
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
    if full_name is not None:
        packed += bytes([_NAME_FOLLOWS]) + full_name.encode()
    return base64.b64encode(packed).decode()


def unpack(text: str) -> tuple[int, Mark | None, dict[str, Mark], tuple[Mark, bool] | None, str | None]:
    """Return what :func:`pack` was given.

    :raises ValueError: the positions are of a log that this version does not know.
    """
    packed = iter(base64.b64decode(text))
    if (log := LOG_POSITIONS.get(code := next(packed))) is None:
        raise ValueError(
            f"marks of change events in version {code} are not known; a newer version wrote the table, or nothing has "
            "imported the module of its envelope's log"
        )
    ordering, has_table = next(packed), next(packed)
    table = _mark(packed, log) if has_table else None
    partitions = {}
    for _ in range(_number(packed)):
        digest = bytes(next(packed) for _ in range(DIGEST_BYTES)).hex()
        partitions[digest] = _mark(packed, log)
    unkeyed = None
    if (flag := next(packed, None)) in (0, 1):
        unkeyed = _mark(packed, log), bool(flag)
        flag = next(packed, None)
    return ordering, table, partitions, unkeyed, None if flag is None else bytes(packed).decode()


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


Ranges = tuple[tuple[int, int], ...]

_BUCKET_BITS = 15
# Offsets of a bitmap; Spark's ``bitmap_construct_agg`` makes one of this many bits.
BUCKET = 1 << _BUCKET_BITS


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """Return all offsets of some sets, ranges that touch joined."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(one for ranges in sets for one in ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return tuple(joined)


def missing(wanted: Ranges, present: Ranges) -> Ranges:
    """Return the offsets of ``wanted`` that are not in ``present``."""
    gaps: list[tuple[int, int]] = []
    for low, high in wanted:
        for start, end in present:
            if end < low or start > high:
                continue
            if start > low:
                gaps.append((low, start - 1))
            low = max(low, end + 1)
        if low <= high:
            gaps.append((low, high))
    return tuple(gaps)


def up_to(ranges: Ranges, last: int) -> Ranges:
    """Return the offsets that are not beyond ``last``."""
    return tuple((low, min(high, last)) for low, high in ranges if low <= last)


def of_bitmap(bucket: int, bitmap: bytes) -> Ranges:
    """Return the offsets that a bitmap stands for.

    :param bucket: number of the bitmap: its first bit is offset ``bucket * BUCKET``.
    :param bitmap: least significant bit first.
    """
    bits = int.from_bytes(bitmap, "little")
    first, ranges = bucket * BUCKET, []
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros
        # Adding one carries through the ones at the end and stops at the first zero.
        ones = ((bits + 1) & -(bits + 1)).bit_length() - 1
        ranges.append((first + zeros, first + zeros + ones - 1))
        bits >>= ones
        first += zeros + ones
    return tuple(ranges)
