"""A model of a PostgreSQL server's log, and of what a connector tells of it: the oracle of the order of events.

Transactions overlap and lock the rows that they have written. A change is written when it is made and told when its
transaction ends, with the end of the last commit before, or with null where the connector has seen none since it began
anew. A snapshot has what was committed before it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

_RECORD = 8


@dataclass(frozen=True)
class Told:
    """One event, or one row of a snapshot.

    :param last_commit: end of the last commit before, None where none was told.
    """

    key: int
    lsn: int
    last_commit: int | None
    ts_ms: int
    snapshot: bool = False


@dataclass
class SourceLog:
    """Draws a history.

    :param told: in the order in which a key's changes and snapshots follow each other.
    """

    draw: random.Random
    keys: int = 2
    told: list[Told] = field(default_factory=list)
    _lsn: int = 80
    _clock: int = 1_000_000
    _last_commit: int | None = None
    _writes: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def run(self, steps: int) -> list[Told]:
        """Draw steps, and end every transaction."""
        for number in range(steps):
            self._lsn += _RECORD
            self._clock += self.draw.choice([1, 5, 3_000, 30_000])
            self._step(number)
        while self._writes:
            self._commit()
        return self.told

    def _step(self, number: int) -> None:
        kind = self.draw.choices(["begin", "write", "commit", "snapshot", "restart"], [20, 40, 25, 7, 3])[0]
        if kind == "begin" or not self._writes:
            self._writes[number] = []
        elif kind == "write":
            self._write(self.draw.choice(list(self._writes)))
        elif kind == "commit":
            self._commit()
        elif kind == "snapshot":
            self._snapshot()
        else:
            # Its stored offsets were lost, the slot was not.
            self._last_commit = None

    def _write(self, transaction: int) -> None:
        locked = {key for other, writes in self._writes.items() for key, _ in writes if other != transaction}
        if free := sorted(set(range(self.keys)) - locked):
            self._writes[transaction].append((self.draw.choice(free), self._lsn))

    def _commit(self) -> None:
        writes = self._writes.pop(self.draw.choice(list(self._writes)))
        self.told += [Told(key, lsn, self._last_commit, self._clock) for key, lsn in writes]
        self._lsn += _RECORD
        self._last_commit = self._lsn
        self._clock += 2_000

    def _snapshot(self) -> None:
        # Nobody takes two within seconds.
        self._clock += 20_000
        if self.draw.random() < 0.6:
            self._last_commit = None
        self.told += [Told(key, self._lsn, None, self._clock, True) for key in range(self.keys)]
        self._clock += 2_000

    def as_told_again(self, event: Told) -> Told:
        """Return the event as a restarted connector may send it: with the same last commit, an earlier one, or none."""
        if event.snapshot:
            return event
        firsts = [event.last_commit, None, (event.last_commit or _RECORD) - _RECORD or None]
        return Told(event.key, event.lsn, self.draw.choice(firsts), event.ts_ms)
