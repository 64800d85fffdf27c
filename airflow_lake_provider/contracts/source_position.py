"""Position of a table in a source: files by identity, tables by snapshot.

A position is one JSON text in the table property ``lake.position.<source name>``, set in the same transaction as the
rows. Its generation counts the commits that moved it; the snapshot summary carries ``<source name>=<generation>``, so a
table that was rolled back behind its own position is recognised.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_lake_provider.contracts.consumed_files import ConsumedFiles
from airflow_lake_provider.contracts.errors import RolledBackError
from airflow_lake_provider.contracts.event_marks import EventMarks
from airflow_lake_provider.contracts.input_file import PATH_BYTES, InputFile
from airflow_lake_provider.contracts.property_values import (
    LAST_SECOND,
    checked_number,
    is_whole_number,
    reading_property,
)
from airflow_lake_provider.contracts.table_properties import (
    EVENTS_PREFIX,
    MAX_VALUE_CHARACTERS,
    POSITION_PREFIX,
    SOURCE_POSITION,
)

_DAY = 24 * 60 * 60
_SAID = re.compile(r"[0-9]{1,19}")
_REMEDY = (
    "Look who wrote it; ALTER TABLE ... UNSET TBLPROPERTIES removes it, and then all input of the source is applied "
    "again"
)


@dataclass(frozen=True)
class SideFile:
    """Address of a list of files that does not fit into a property.

    :param entries: how many files it lists; another number means another file, or a part of it.
    """

    path: str
    entries: int


@dataclass(frozen=True, kw_only=True)
class SourcePosition:
    """Record of what a table has consumed of one source.

    :param generation: how many commits moved this position; 0 for a source never consumed.
    :param files: the consumed files; None while they are in ``side_file`` only.
    :param side_file: the file that holds exactly these files; None where a property does, or nothing yet.
    :param superseded: paths of side files before this one, newest first; one of them may still be read.
    :param forgotten_until: epoch seconds; a file modified after it was never forgotten. None where none was.
    :param snapshot: consumed snapshot id of a source table, as text.
    :param shape: part of the source that shapes its rows, to a digest of it; empty where it is not known.
    :param events: what was applied of a change stream, kept in a property of its own.
    """

    generation: int = 0
    files: ConsumedFiles | None = field(default_factory=ConsumedFiles)
    side_file: SideFile | None = None
    superseded: tuple[str, ...] = ()
    forgotten_until: int | None = None
    snapshot: str | None = None
    shape: Mapping[str, str] = field(default_factory=dict)
    events: EventMarks | None = None

    @classmethod
    def read(cls, properties: Mapping[str, str], source_name: str, table: str = "the table") -> SourcePosition:
        """Read the position of a source from a table's properties; absent means nothing was consumed.

        :param table: name, for messages.
        :raises BrokenMetadataError: a property is not what this package writes.
        """
        name = POSITION_PREFIX + source_name
        text = properties.get(name)
        if text is None:
            return cls()
        with reading_property(table, name, properties, _REMEDY):
            plain = json.loads(text)
            _refuse_unknown(plain)
            side_file = SideFile(*plain["side_file"]) if "side_file" in plain else None
            packed = base64.b64decode(plain.get("files", ""), validate=True)
            files = ConsumedFiles.unpack(packed) if side_file is None else None
        with reading_property(table, EVENTS_PREFIX + source_name, properties, _REMEDY):
            events = EventMarks.read(properties.get(EVENTS_PREFIX + source_name))
        return cls(
            generation=plain["generation"],
            files=files,
            side_file=side_file,
            superseded=tuple(plain.get("superseded", ())),
            forgotten_until=plain.get("forgotten_until"),
            snapshot=plain.get("snapshot"),
            shape=plain.get("shape", {}),
            events=events,
        )

    @property
    def has_lost_files(self) -> bool:
        """True where the consumed files are not known, which is so until their side file is read."""
        return self.files is None

    def unconsumed(self, files: Iterable[InputFile]) -> tuple[InputFile, ...]:
        """Return the files that this position does not know, in their order."""
        known = self.files or ConsumedFiles()
        return tuple(file for file in files if file.digest not in known)

    def corrected(self, files: Iterable[InputFile]) -> tuple[InputFile, ...]:
        """Return the unconsumed files of which an earlier version was consumed under the same path."""
        paths = {digest[:PATH_BYTES] for digest in (self.files or ConsumedFiles()).days}
        return tuple(file for file in self.unconsumed(files) if file.path_digest in paths)

    def shares_files(self, other: SourcePosition) -> bool:
        """Tell whether both positions know a file; False where a list is lost."""
        if self.files is None or other.files is None:
            return False
        return not self.files.days.keys().isdisjoint(other.files.days.keys())

    def uncertain(self, files: Iterable[InputFile]) -> tuple[InputFile, ...]:
        """Return the files that this position does not know, and may have known once."""
        until = self.forgotten_until
        if until is None:
            return ()
        return tuple(file for file in self.unconsumed(files) if file.modified is None or file.modified <= until)

    def next_files(
        self, files: Iterable[InputFile], at: datetime, max_age: timedelta | None, shape: Mapping[str, str]
    ) -> SourcePosition:
        """Return the position after consuming ``files``, the whole present listing of the source.

        :param at: when they were listed.
        :param max_age: how long a file is remembered that no listing shows any more; None for ever.
        """
        today = _day(at)
        # Not before it was modified, by a clock that may be ahead of ours: the mark has to cover that time.
        listed = ((file.digest, max(today, (file.modified or 0) // _DAY)) for file in files)
        consumed, newest = (self.files or ConsumedFiles()).seen(listed), None
        if max_age is not None:
            consumed, newest = consumed.forget(_day(at - max_age))
        marks = [self.forgotten_until, None if newest is None else (newest + 1) * _DAY - 1]
        return replace(
            self,
            generation=self.generation + 1,
            files=consumed,
            side_file=self.side_file if consumed == self.files else None,
            forgotten_until=max((mark for mark in marks if mark is not None), default=None),
            shape=shape,
            superseded=self._superseded_by(consumed),
        )

    def next_snapshot(self, snapshot_id: str, shape: Mapping[str, str] | None = None) -> SourcePosition:
        """Return the position after consuming a source table up to ``snapshot_id``."""
        return replace(self, generation=self.generation + 1, snapshot=snapshot_id, shape=shape or {})

    def restarted(self) -> SourcePosition:
        """Return a position that has consumed no file, and goes on counting from this one."""
        superseded = self._superseded_by(ConsumedFiles())
        return SourcePosition(generation=self.generation, superseded=superseded, events=self.events)

    def without_lost_files(self, at: datetime) -> SourcePosition:
        """Return this position with its list given up: what it held may be any file modified until now.

        :param at: of the listing that is consumed next.
        """
        until = max(self.forgotten_until or 0, int(at.timestamp()))
        superseded = self._superseded_by(ConsumedFiles())
        return replace(self, files=ConsumedFiles(), side_file=None, superseded=superseded, forgotten_until=until)

    def _superseded_by(self, files: ConsumedFiles) -> tuple[str, ...]:
        # The one before the last was to be removed by the commit before, which may have been cut off.
        if self.side_file is None or files == self.files:
            return self.superseded
        return (self.side_file.path, *self.superseded)[:3]

    @property
    def outdated(self) -> tuple[str, ...]:
        """Paths of side files that nobody reads any more, once this position is the table's."""
        return self.superseded[1:]

    @property
    def needs_side_file(self) -> bool:
        """True where the files do not fit into a property and are in no side file yet."""
        return self.side_file is None and len(self._text()) > MAX_VALUE_CHARACTERS

    def to_properties(self, source_name: str) -> dict[str, str]:
        """Return all table properties that keep this position."""
        events = {EVENTS_PREFIX + source_name: self.events.to_text()} if self.events else {}
        return {POSITION_PREFIX + source_name: self._text(), **events}

    def _text(self) -> str:
        plain: dict[str, object] = {"generation": self.generation}
        if self.side_file is not None:
            plain["side_file"] = [self.side_file.path, self.side_file.entries]
        elif self.files:
            plain["files"] = base64.b64encode(self.files.pack()).decode()
        if self.superseded:
            plain["superseded"] = self.superseded
        if self.forgotten_until is not None:
            plain["forgotten_until"] = self.forgotten_until
        if self.snapshot is not None:
            plain["snapshot"] = self.snapshot
        if self.shape:
            plain["shape"] = dict(self.shape)
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))

    def to_summary(self, source_name: str) -> str:
        """Return the value of ``lake.source-position`` in a snapshot summary."""
        return f"{source_name}={self.generation}"

    def is_rolled_back(self, newest_summary: str | None, source_name: str) -> bool:
        """Tell whether the table was rolled back behind this position.

        :param newest_summary: see :meth:`refuse_rolled_back`.
        """
        if newest_summary is None:
            return False
        return (_generation(newest_summary, source_name) or 0) < self.generation

    def refuse_rolled_back(self, newest_summary: str | None, source_name: str, table: str) -> None:
        """Refuse to go on when the table was rolled back behind this position.

        :param newest_summary: ``lake.source-position`` of the newest unexpired ancestor of main that names this
            source, generation 0 where surely none does; None where nothing is known.
        :raises RolledBackError: the summary says less than the property.
        """
        if self.is_rolled_back(newest_summary, source_name):
            raise RolledBackError(
                f"{table}: its property says that commit {self.generation} of source {source_name} was applied, but "
                f"{_said(newest_summary)}: the table was rolled back. "
                "Use on_repeat='apply' to apply the input again, or full_refresh=True where the operator has it."
            )


def newest_position(summaries: Iterable[Mapping[str, str]], source_name: str) -> str | None:
    """Return the newest ``lake.source-position`` that names a source; None without one.

    Unlike the property, it goes back with main when the table is rolled back.

    :param summaries: of the unexpired ancestors of main, newest first.
    """
    said = (summary.get(SOURCE_POSITION, "") for summary in summaries)
    return next((text for text in said if _generation(text, source_name) is not None), None)


def _said(newest_summary: str | None) -> str:
    if newest_summary is not None and newest_summary.endswith("=0"):
        return "no snapshot in the history of main is of this source"
    return f"the newest snapshot that names this source says {newest_summary}"


def _generation(text: str, source_name: str) -> int | None:
    """Return the generation in a summary; None where it names another source, or no number."""
    name, _, generation = text.rpartition("=")
    return int(generation) if name == source_name and _SAID.fullmatch(generation) else None


def _refuse_unknown(plain: Mapping[str, Any]) -> None:
    """Raise ValueError for values that no position has."""
    path, entries = plain.get("side_file", ("", 0))
    superseded, shape = plain.get("superseded", []), plain.get("shape", {})
    sound = {
        "generation": is_whole_number(plain["generation"]),
        "side_file": isinstance(path, str) and is_whole_number(entries),
        "superseded": isinstance(superseded, list) and _are_texts(superseded),
        "forgotten_until": is_whole_number(plain.get("forgotten_until", 0), LAST_SECOND),
        "snapshot": is_whole_number(checked_number(plain.get("snapshot", "0"))),
        "shape": isinstance(shape, dict) and _are_texts(shape.values()),
    }
    wrong = [name for name, is_sound in sound.items() if not is_sound]
    if wrong:
        raise ValueError(f"no position has such a {' and '.join(wrong)}")


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _day(at: datetime) -> int:
    return int(at.astimezone(UTC).timestamp()) // _DAY
