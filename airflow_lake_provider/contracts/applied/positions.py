"""Positions: what of a source is consumed. Each kind is tagged, and compares by its own rule.

``files`` and ``snapshot`` are known to worker and driver. A source may bring a kind of its own: a table keeps it under
its tag, and only that source reads it (:class:`UnreadPosition`).
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, ClassVar, Self

from airflow_lake_provider.contracts.input_file import PATH_BYTES, ConsumedFiles, InputFile
from airflow_lake_provider.contracts.property_values import LAST_SECOND, is_whole_number

_DAY = 24 * 60 * 60
# All zeros, as Java's client writes them.
_NO_TOPIC_ID = "A" * 22


class Comparison(str, Enum):
    """Order of a position and another one of its kind."""

    BEFORE = "before"
    AFTER = "after"
    EQUAL = "equal"
    INCOMPARABLE = "incomparable"

    @classmethod
    def of(cls, *, below: bool, above: bool) -> Comparison:
        """Return what two tests say: whether one is at most the other, and at least the other."""
        if below and above:
            return cls.EQUAL
        return cls.BEFORE if below else cls.AFTER if above else cls.INCOMPARABLE


@dataclass(frozen=True)
class Position(ABC):
    """Base of all positions; ``kind`` is the tag under which a table keeps one."""

    kind: ClassVar[str]

    @abstractmethod
    def compare(self, other: Self) -> Comparison:
        """Return where this position is beside another one of its kind."""

    @abstractmethod
    def to_plain(self) -> Any:
        """Return the position as JSON has it."""

    @classmethod
    @abstractmethod
    def from_plain(cls, plain: Any) -> Self:
        """Read what :meth:`to_plain` returned.

        :raises ValueError: it is nothing of this kind.
        """

    def joined(self, other: Self) -> Self:
        """Return the least position that is before neither of two: where one stands after both.

        :raises ValueError: the two are incomparable, and the kind does not say what is after both.
        """
        comparison = self.compare(other)
        if comparison is Comparison.INCOMPARABLE:
            raise ValueError(f"{self} and {other} have no order")
        return other if comparison is Comparison.BEFORE else self

    def restarted(self) -> Self | None:
        """Return what is kept of this position when all of the source is read again; None for nothing."""
        return None

    def without_lost(self, at: datetime) -> Self:  # noqa: ARG002  # positions that can lose something ask
        """Return this position with what it cannot tell any more given up.

        :param at: of the listing that is consumed next.
        """
        return self


@dataclass(frozen=True)
class UnreadPosition(Position):
    """A position as a table keeps it, for who does not know its kind: it is carried on as it is."""

    plain: Any

    def compare(self, other: Self) -> Comparison:
        """Return whether both are the same; more is not known."""
        return Comparison.of(below=self == other, above=self == other)

    def to_plain(self) -> Any:
        """Return the JSON."""
        return self.plain

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Take JSON as it is."""
        return cls(plain)


@dataclass(frozen=True)
class SideFile:
    """Address of a list of files that does not fit into a property.

    :param entries: how many files it lists; another number means another file, or a part of it.
    """

    path: str
    entries: int


@dataclass(frozen=True, kw_only=True)
class FilesPosition(Position):
    """Files that were consumed, in whichever listing they were.

    :param files: the consumed files; None while they are in ``side_file`` only.
    :param side_file: the file that holds exactly these files; None where a property does, or nothing yet.
    :param superseded: paths of side files before this one, newest first; one of them may still be read.
    :param forgotten_until: epoch seconds; a file modified after it was never forgotten. None where none was.
    """

    kind: ClassVar[str] = "files"
    files: ConsumedFiles | None = field(default_factory=ConsumedFiles)
    side_file: SideFile | None = None
    superseded: tuple[str, ...] = ()
    forgotten_until: int | None = None

    def compare(self, other: FilesPosition) -> Comparison:
        """Compare as sets of files; a list that is lost compares with none."""
        if self.files is None or other.files is None:
            return Comparison.INCOMPARABLE
        mine, others = self.files.days.keys(), other.files.days.keys()
        return Comparison.of(below=mine <= others, above=mine >= others)

    @property
    def is_lost(self) -> bool:
        """True where the consumed files are not known, which is so until their side file is read."""
        return self.files is None

    def unconsumed(self, files: Iterable[InputFile]) -> tuple[InputFile, ...]:
        """Return the files that this position does not know, in their order."""
        consumed = self.files or ConsumedFiles()
        return tuple(file for file in files if file.digest not in consumed)

    def corrected(self, files: Iterable[InputFile]) -> tuple[InputFile, ...]:
        """Return the unconsumed files of which an earlier version was consumed under the same path."""
        paths = {digest[:PATH_BYTES] for digest in (self.files or ConsumedFiles()).days}
        return tuple(file for file in self.unconsumed(files) if file.path_digest in paths)

    def shares_files(self, other: FilesPosition) -> bool:
        """Tell whether both positions know a file; False where a list is lost."""
        mine, others = self.files or ConsumedFiles(), other.files or ConsumedFiles()
        return not mine.days.keys().isdisjoint(others.days.keys())

    def uncertain(self, files: Iterable[InputFile]) -> tuple[InputFile, ...]:
        """Return the files that this position does not know, and may have known once."""
        until = self.forgotten_until
        if until is None:
            return ()
        return tuple(file for file in self.unconsumed(files) if file.modified is None or file.modified <= until)

    def next(self, files: Iterable[InputFile], at: datetime, max_age: timedelta | None) -> FilesPosition:
        """Return the position after consuming ``files``, the whole present listing of the source.

        :param at: when they were listed.
        :param max_age: how long a file is remembered that no listing shows any more; None for ever.
        """
        today = _day(at)
        # Not before it was modified, by a clock that may be ahead of ours: the mark has to cover that time.
        listed = ((file.digest, max(today, (file.modified or 0) // _DAY)) for file in files)
        seen = (self.files or ConsumedFiles()).seen(listed)
        consumed, newest = (seen, None) if max_age is None else seen.forget(_day(at - max_age))
        marks = [self.forgotten_until, None if newest is None else (newest + 1) * _DAY - 1]
        return replace(
            self,
            files=consumed,
            side_file=self.side_file if consumed == self.files else None,
            forgotten_until=max((mark for mark in marks if mark is not None), default=None),
            superseded=self._superseded_by(consumed),
        )

    def restarted(self) -> FilesPosition:
        """Return a position that has consumed no file; side files of before are still to be removed."""
        return FilesPosition(superseded=self._superseded_by(ConsumedFiles()))

    def without_lost(self, at: datetime) -> FilesPosition:
        """Return this position with its list given up: what it held may be any file modified until now."""
        until = max(self.forgotten_until or 0, int(at.timestamp()))
        return FilesPosition(superseded=self._superseded_by(ConsumedFiles()), forgotten_until=until)

    def _superseded_by(self, files: ConsumedFiles) -> tuple[str, ...]:
        # The one before the last was to be removed by the commit before, which may have been cut off.
        if self.side_file is None or files == self.files:
            return self.superseded
        return (self.side_file.path, *self.superseded)[:3]

    @property
    def outdated(self) -> tuple[str, ...]:
        """Paths of side files that nobody reads any more, once this position is the table's."""
        return self.superseded[1:]

    def to_plain(self) -> dict[str, Any]:
        """Return what there is of list, side file, superseded ones and mark."""
        listed = base64.b64encode(self.files.pack()).decode() if self.files and self.side_file is None else None
        plain = {
            "files": listed,
            "side_file": [self.side_file.path, self.side_file.entries] if self.side_file else None,
            "superseded": list(self.superseded) or None,
            "forgotten_until": self.forgotten_until,
        }
        return {name: value for name, value in plain.items() if value is not None}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Read what there is."""
        path, entries = plain.get("side_file", ("", 0))
        superseded, until = plain.get("superseded", []), plain.get("forgotten_until")
        sound = {
            "side_file": isinstance(path, str) and is_whole_number(entries),
            "superseded": isinstance(superseded, list) and all(isinstance(text, str) for text in superseded),
            "forgotten_until": until is None or is_whole_number(until, LAST_SECOND),
        }
        if unsound := [name for name, is_sound in sound.items() if not is_sound]:
            raise ValueError(f"no position has such a {' and '.join(unsound)}")
        packed = base64.b64decode(plain.get("files", ""), validate=True)
        has_side_file = "side_file" in plain
        return cls(
            files=None if has_side_file else ConsumedFiles.unpack(packed),
            side_file=SideFile(path, entries) if has_side_file else None,
            superseded=tuple(superseded),
            forgotten_until=until,
        )


@dataclass(frozen=True)
class SnapshotPosition(Position):
    """A snapshot of a source table. Which of two is older, only that table can tell.

    :param id: as text.
    """

    kind: ClassVar[str] = "snapshot"
    id: str

    def compare(self, other: SnapshotPosition) -> Comparison:
        """Return whether it is the same snapshot."""
        return Comparison.of(below=self.id == other.id, above=self.id == other.id)

    def to_plain(self) -> str:
        """Return the id."""
        return self.id

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Read the id, of whatever form: the source's format says which it has."""
        if not isinstance(plain, str) or not plain:
            raise ValueError("it is no id of a snapshot")
        return cls(plain)


def topic_id(text: str) -> str:
    """Return the id of a topic, as Java's client writes it; empty for the one of brokers that have no ids."""
    return "" if text == _NO_TOPIC_ID else text


@dataclass(frozen=True)
class OffsetsPosition(Position):
    """The next offset of each partition of a topic. A partition that is not named was not read at all.

    :param topic: id of the topic, which one that is made anew does not have; empty where the broker tells none.
    """

    kind: ClassVar[str] = "offsets"
    next: Mapping[str, int]
    topic: str = ""

    def is_of_another(self, topic: str) -> bool:
        """Return whether an id is that of another topic; where one of both is not known, nothing says so."""
        return bool(self.topic and topic) and self.topic != topic

    def compare(self, other: OffsetsPosition) -> Comparison:
        """Compare partition by partition; offsets of two topics have no order."""
        if self.is_of_another(other.topic):
            return Comparison.INCOMPARABLE
        both = [(self.next.get(name, 0), other.next.get(name, 0)) for name in self.next.keys() | other.next.keys()]
        return Comparison.of(below=all(a <= b for a, b in both), above=all(a >= b for a, b in both))

    def joined(self, other: OffsetsPosition) -> OffsetsPosition:
        """Return the later offset of each partition.

        :raises ValueError: the two are of different topics.
        """
        if self.is_of_another(other.topic):
            raise ValueError(f"{self} and {other} have no order")
        names = self.next.keys() | other.next.keys()
        later = {name: max(self.next.get(name, 0), other.next.get(name, 0)) for name in sorted(names)}
        return OffsetsPosition(later, self.topic or other.topic)

    def to_plain(self) -> dict[str, Any]:
        """Return the offsets by partition, and the topic."""
        return {"next": dict(self.next), "topic": self.topic}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Read offsets and topic."""
        offsets, topic = plain["next"], plain["topic"]
        if not all(is_whole_number(offset) for offset in offsets.values()) or not isinstance(topic, str):
            raise ValueError("an offset is a whole number from 0 on, and the id of a topic a text")
        return cls(dict(offsets), topic_id(topic))


@dataclass(frozen=True)
class WatermarkPosition(Position):
    """The greatest value of a column that was read.

    :param value: a whole number, or text that sorts as the values do, such as an ISO-8601 time in UTC.
    """

    kind: ClassVar[str] = "watermark"
    column: str
    value: int | str

    def compare(self, other: WatermarkPosition) -> Comparison:
        """Compare values of one column; those of two columns, or types, have no order."""
        if self.column != other.column or self._kind_of_value != other._kind_of_value:
            return Comparison.INCOMPARABLE
        mine, others = (self.value,), (other.value,)
        return Comparison.of(below=mine <= others, above=mine >= others)

    @property
    def _kind_of_value(self) -> tuple[type, bool]:
        # A time without a zone may be any hour of one that has one.
        return type(self.value), isinstance(self.value, str) and self.value.endswith("Z")

    def to_plain(self) -> list[Any]:
        """Return column and value."""
        return [self.column, self.value]

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Read column and value."""
        column, value = plain
        if not isinstance(column, str) or not isinstance(value, (int, str)):
            raise ValueError("a watermark is a column's name, and a number or a text")
        return cls(column, value)


@dataclass(frozen=True, kw_only=True)
class WholePosition(Position):
    """Record of what a source held when it was applied as the whole table; other kinds know all that ever was.

    :param content: digest of all inputs and of what shapes their rows.
    :param place: digest of where the source looked for files; another one may be another day's delivery.
    :param newest: modification time of its newest file, in epoch milliseconds; None without files that tell it.
    """

    kind: ClassVar[str] = "whole"
    content: str
    place: str
    newest: int | None = None

    def compare(self, other: WholePosition) -> Comparison:
        """Compare deliveries at two places by their newest files; else return whether they are the same."""
        if self.content == other.content:
            return Comparison.EQUAL
        if self.place == other.place or self.newest is None or other.newest is None or self.newest == other.newest:
            return Comparison.INCOMPARABLE
        return Comparison.BEFORE if self.newest < other.newest else Comparison.AFTER

    def to_plain(self) -> list[Any]:
        """Return the fields."""
        return [self.content, self.place, self.newest]

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Read the fields."""
        content, place, newest = plain
        if not isinstance(content, str) or not isinstance(place, str):
            raise ValueError("a digest is a text")
        if newest is not None and not is_whole_number(newest):
            raise ValueError("a modification time is a whole number")
        return cls(content=content, place=place, newest=newest)


POSITIONS: dict[str, type[Position]] = {
    each.kind: each for each in (FilesPosition, SnapshotPosition, OffsetsPosition, WatermarkPosition, WholePosition)
}


def _day(at: datetime) -> int:
    return int(at.astimezone(UTC).timestamp()) // _DAY
