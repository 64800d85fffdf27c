"""Progress of a table in a change stream, for each part of the stream that is in order.

A mark is a position in the source's log, not in Kafka: a connector that starts again sends old events at new offsets.
The position (``positions.LogPosition``) never goes back in what is in order, unless something is delivered again.
Offsets tell a late file from a repeated
one: below its mark, an event at an offset that was consumed comes again, and one at an offset that was not is late.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from airflow_lake_provider.contracts import mark_codec
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.mark_codec import Mark
from airflow_lake_provider.contracts.table_properties import MAX_VALUE_CHARACTERS

# It needs the positions of all rows, so it is no way to go on with a table that was filled otherwise.
BY_KEY = "read the stream from its beginning into a new table with ordering='key', which takes files in any order"


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
    :param table: greatest of all events of the table; with ``partition`` that of a time when it was the only one, in
        which events of any partition may have been applied up to it.
    :param partitions: by :func:`partition_digest`.
    :param unkeyed: greatest mark when the table went over to ``ordering="key"``. What was applied up to it has left no
        position in the rows, and deleted keys are not noted; it stays as long as that ordering.
    :param unkeyed_stream: whether all events up to ``unkeyed`` were applied in order, so that they come again.
    """

    ordering: EventOrdering
    table: Mark | None = None
    partitions: Mapping[str, Mark] = field(default_factory=dict)
    unkeyed: Mark | None = None
    unkeyed_stream: bool = False

    @property
    def greatest(self) -> Mark | None:
        """The greatest mark of all, without offsets: what a mark of the whole table would be."""
        marks = [replace(mark, consumed=()) for mark in (self.table, *self.partitions.values()) if mark is not None]
        if not marks:
            return None
        found = marks[0]
        for mark in marks[1:]:
            found = found.merged(mark)
        return found

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
            found = EventMarks(ordering=ordering, table=self.greatest)
            for mark in applied.values():
                plain = replace(mark, consumed=())
                found = replace(found, table=found.table.merged(plain) if found.table else plain)
            if ordering is EventOrdering.KEY:
                unkeyed, by_stream = self.key_floor
                found = replace(found, unkeyed=unkeyed, unkeyed_stream=unkeyed is not None and by_stream)
            return found
        partitions = dict(self.partitions)
        for label, mark in applied.items():
            digest = partition_digest(label or "")
            before = partitions.get(digest)
            partitions[digest] = before.merged(mark) if before else mark
        return EventMarks(ordering=ordering, table=self.table, partitions=partitions)

    def to_text(self) -> str:
        """Return the value of a table property, at most 3,500 characters.

        What does not fit of the consumed offsets is forgotten, the oldest first: events at those are then refused as
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
        return mark_codec.pack(list(EventOrdering).index(self.ordering), self.table, partitions, unkeyed)

    @classmethod
    def read(cls, text: str | None) -> EventMarks | None:
        """Read the value of a table property; None without one."""
        if text is None:
            return None
        ordering, table, partitions, unkeyed = mark_codec.unpack(text)
        mark, by_stream = unkeyed or (None, False)
        return cls(
            ordering=list(EventOrdering)[ordering],
            table=table,
            partitions=partitions,
            unkeyed=mark,
            unkeyed_stream=by_stream,
        )


def partition_digest(label: str) -> str:
    """Return what stands for a partition in the marks.

    :param label: ``<topic>-<partition>``.
    """
    return hashlib.sha256(label.encode()).hexdigest()[: 2 * mark_codec.DIGEST_BYTES]
