"""Model of a history: a plain walk through the events of each key, in the order of their times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

KEYS, TIMES = 40, 9
CITIES = ("Bern", "Oslo", "Rome")


@dataclass(frozen=True, order=True)
class Event:
    """A row of a batch, or the delete of a key.

    :param seq: tells the last of several events of one key and time.
    :param city: tracked; ``note`` is not.
    """

    key: int
    at: int
    seq: int
    city: str = ""
    note: str = ""
    deletes: bool = False


@dataclass(frozen=True, order=True)
class Version:
    """A row of the table.

    :param until: None for now.
    :param at: of the last event that was seen while it was valid; ``seq`` likewise.
    """

    key: int
    since: int
    until: int | None
    city: str
    note: str
    at: int
    seq: int


def after(table: Iterable[Version], batch: Iterable[Event]) -> list[Version]:
    """Return the table after a batch."""
    rows, events = list(table), list(batch)
    untouched = [row for row in rows if row.key not in {event.key for event in events}]
    made = [version for key in {event.key for event in events} for version in _of_key(key, rows, events)]
    return sorted([*untouched, *made], key=lambda row: (row.key, row.since))


def all_at_once(events: Iterable[Event]) -> list[Version]:
    """Return the table of all events that there are."""
    return after([], events)


def _of_key(key: int, rows: Sequence[Version], events: Sequence[Event]) -> list[Version]:
    # By time: what wins there, with how it won.
    moments: dict[int, tuple[tuple[int, int], Event]] = {}

    def note(event: Event, rank: int, *, is_known: bool = True) -> None:
        won = (event.seq if is_known else -1, rank)
        if event.at not in moments or won > moments[event.at][0]:
            moments[event.at] = (won, event)

    for row in (each for each in rows if each.key == key):
        began = Event(key, row.since, row.seq, row.city, row.note)
        note(began, 1, is_known=row.at == row.since)
        if row.at > row.since:
            note(replace(began, at=row.at), 1)
        if row.until is not None:
            note(Event(key, row.until, 0, deletes=True), 0, is_known=False)
    for event in (each for each in events if each.key == key):
        note(event, 2)
    return _walk([moments[at][1] for at in sorted(moments)])


def _walk(events: Sequence[Event]) -> list[Version]:
    versions: list[Version] = []
    valid = False
    for event in events:
        if valid and not event.deletes and versions[-1].city == event.city:
            versions[-1] = replace(versions[-1], note=event.note, at=event.at, seq=event.seq)
            continue
        if valid:
            versions[-1] = replace(versions[-1], until=event.at)
        valid = not event.deletes
        if valid:
            versions.append(Version(event.key, event.at, None, event.city, event.note, event.at, event.seq))
    return versions


def faults(table: Sequence[Version]) -> list[str]:
    """Return what no history may have."""
    found = [f"{row} ends before it begins" for row in table if row.until is not None and row.until <= row.since]
    for one, other in pairwise(sorted(table, key=lambda row: (row.key, row.since))):
        if one.key == other.key and (one.until is None or one.until > other.since):
            found.append(f"{one} and {other} overlap")
    return found


def random_batches(random: Random, batches: int) -> list[list[Event]]:
    """Return batches of few times and keys: late, repeated and deleting events, and batches without any."""
    pool = [
        Event(key, at, seq, random.choice(CITIES), f"{key}.{at}.{seq}", random.random() < 0.2)
        for key in range(KEYS)
        for at in range(TIMES)
        for seq in (1, 2)
        if random.random() < 0.5
    ]
    random.shuffle(pool)
    parts = [pool[number::batches] for number in range(batches)]
    again = [random.sample(pool, 20) for _ in parts]
    return [[*part, *repeated] for part, repeated in zip(parts, again, strict=True)]
