"""Key changes of which only the delete was applied: where the old key's row is as it was right before.

A stream tells a changed key by two events with one position: a delete of the old key, a create of the new one. The
create leaves out values that did not change, and only the old row has them. A table remembers, for each such delete,
a snapshot with that row, in the property ``lake.key-changes.<source name>``, set in the commit that deletes the row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from airflow_lake_provider.contracts.property_values import checked_number, reading_property
from airflow_lake_provider.contracts.table_properties import KEY_CHANGES_PREFIX, MAX_VALUE_CHARACTERS

# A long number takes no longer than it is.
_GROUP = re.compile(r"([0-9]++)=([0-9a-f,-]++)")
_REMEDY = "Look who wrote it; ALTER TABLE ... UNSET TBLPROPERTIES removes it"


@dataclass(frozen=True, kw_only=True)
class OpenKeyChange:
    """One delete whose create has not come.

    :param ordinal: of the event among those of its key, see docs/explanation/envelopes.md; the create has it too.
    :param key_hash: of the old key, 64 bits unsigned: a property holds no value of a row.
    :param snapshot: id of one that has the old key's row.
    """

    ordinal: int
    key_hash: int
    snapshot: str


@dataclass(frozen=True, kw_only=True)
class CutDelete:
    """A delete whose create is not in the batch.

    :param position: numbers of its place among the events of the batch; ``ordinal``: as of :class:`OpenKeyChange`.
    :param changed: whether the batch changed the row before it deleted it, so that no snapshot has what it was last.
    :param round: 0 for the first such delete of its key, 1 for the next.
    """

    position: tuple[int, ...]
    ordinal: int
    key_hash: int
    changed: bool
    round: int = 0

    def seen_at(self, snapshot: str) -> OpenKeyChange:
        """Return what a table is to remember of it."""
        return OpenKeyChange(ordinal=self.ordinal, key_hash=self.key_hash, snapshot=snapshot)


@dataclass(frozen=True)
class OpenKeyChanges:
    """The key changes that a table remembers of a source, newest first.

    Those beyond the 3,500 characters of a property, about 120, are forgotten, oldest first. One whose create has come
    stays until then, for a create that is delivered again.
    """

    entries: tuple[OpenKeyChange, ...] = ()

    @classmethod
    def read(cls, properties: Mapping[str, str], source_name: str, table: str = "the table") -> OpenKeyChanges:
        """Read the property; a table without it remembers nothing.

        :param table: name, for messages.
        :raises BrokenMetadataError: it is not what this package writes.
        """
        name = KEY_CHANGES_PREFIX + source_name
        with reading_property(table, name, properties, _REMEDY):
            groups = [_group(text) for text in properties.get(name, "").split(";") if text]
            return cls(tuple(_entry(text, snapshot) for snapshot, listed in groups for text in listed.split(",")))

    def add(self, entries: Iterable[OpenKeyChange]) -> OpenKeyChanges:
        """Put some in front, and forget the oldest that a property has no room for.

        One that is known stays as it is: when its delete is delivered again, the row has gone.
        """
        open_now = {(entry.ordinal, entry.key_hash) for entry in self.entries}
        new = (entry for entry in entries if (entry.ordinal, entry.key_hash) not in open_now)
        kept = [*dict.fromkeys(new), *self.entries]
        while len(_text(kept)) > MAX_VALUE_CHARACTERS:
            kept.pop()
        return OpenKeyChanges(tuple(kept))

    def at(self, ordinal: int) -> tuple[OpenKeyChange, ...]:
        """Return those of an ordinal."""
        return tuple(entry for entry in self.entries if entry.ordinal == ordinal)

    def to_property(self, source_name: str) -> dict[str, str]:
        """Return the property to set."""
        return {KEY_CHANGES_PREFIX + source_name: _text(self.entries)}


def _group(text: str) -> tuple[str, str]:
    match = _GROUP.fullmatch(text)
    if match is None:
        raise ValueError("a group is not <snapshot id>=<ordinal>-<hash>,...")
    return str(checked_number(match[1])), match[2]


def _entry(text: str, snapshot: str) -> OpenKeyChange:
    ordinal, key_hash = text.split("-")
    return OpenKeyChange(ordinal=int(ordinal, 16), key_hash=int(key_hash, 16), snapshot=snapshot)


def _text(entries: Iterable[OpenKeyChange]) -> str:
    groups = groupby(entries, key=lambda entry: entry.snapshot)
    return ";".join(f"{snapshot}={','.join(f'{e.ordinal:x}-{e.key_hash:x}' for e in of)}" for snapshot, of in groups)
