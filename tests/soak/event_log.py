"""Events of one table as a topic's partitions hold them, with what a connector sends again when it starts."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any


@dataclass
class EventLog:
    """Partitions of a topic, and how far each was delivered.

    :param partitions: records in the order of their offsets.
    """

    topic: str
    partitions: list[list[dict[str, Any]]]
    delivered: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, records: Sequence[dict[str, Any]], partitions: int, restarts: int, random: Random) -> EventLog:
        """Lay the records out by key; each restart sends up to 400 of the last ones again."""
        ends = sorted(random.sample(range(1, len(records)), restarts))
        sent: list[dict[str, Any]] = []
        for begin, end in zip([0, *ends], [*ends, len(records)], strict=True):
            again = random.randint(0, min(begin, 400))
            sent += records[begin - again : end]
        log = cls(records[0]["topic"], [[] for _ in range(partitions)], [0] * partitions)
        for record in sent:
            number = zlib.crc32(json.dumps(record["key"], sort_keys=True).encode()) % partitions
            log.partitions[number].append(record)
        return log

    @property
    def is_delivered(self) -> bool:
        """True where no event is left to deliver."""
        return all(end == len(part) for end, part in zip(self.delivered, self.partitions, strict=True))

    def next_piece(self, partition: int, length: int) -> range:
        """Return the offsets of the next piece of a partition, and count them as delivered."""
        begin = self.delivered[partition]
        self.delivered[partition] = min(begin + length, len(self.partitions[partition]))
        return range(begin, self.delivered[partition])

    def lines(self, partition: int, offsets: Sequence[int], *, placed: bool) -> list[str]:
        """Return records as text.

        :param placed: with their partition and offset; else as a sink writes them, whose file's name tells them.
        """
        records = ((offset, self.partitions[partition][offset]) for offset in offsets)
        return [
            json.dumps({**record, "partition": partition, "offset": offset} if placed else record)
            for offset, record in records
        ]
