"""Record of what a table has consumed of one source: its name, its positions, and how often they moved.

It is one JSON text in the table property ``lake.position.<source name>``, set in the same transaction as the rows. Its
generation counts the commits that moved it. The snapshot summary carries ``<source name>=<generation>`` of each source
that a commit moved, so a table that was rolled back behind its own position is recognised.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from typing import Any, TypeVar

from airflow_lake_provider.contracts.applied.event_marks import EventMarks
from airflow_lake_provider.contracts.applied.positions import (
    POSITIONS,
    FilesPosition,
    Position,
    SnapshotPosition,
    UnreadPosition,
)
from airflow_lake_provider.contracts.applied.published_position import PublishedPosition
from airflow_lake_provider.contracts.errors import InvalidSpecError, RolledBackError
from airflow_lake_provider.contracts.property_values import checked_number, is_whole_number, reading_property
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.contracts.table_properties import (
    EVENTS_PREFIX,
    MAX_VALUE_CHARACTERS,
    PICKED_FROM,
    POSITION_PREFIX,
    SOURCE_POSITION,
)

P = TypeVar("P", bound=Position)
_POSITIONS: dict[str, type[Position]] = {**POSITIONS, PublishedPosition.kind: PublishedPosition}
_WHOLE_NUMBER = re.compile(r"[0-9]{1,19}")
_REMEDY = (
    "Look who wrote it; ALTER TABLE ... UNSET TBLPROPERTIES removes it. Then all input of the source is applied again; "
    "an append and an Aggregation refuse that, unless on_repeat='apply' is given"
)
# Between the kind of a position and the named input that it is of.
_OF_INPUT = ":"
# Fields of a position that were not below a tag yet.
_UNTAGGED = ("files", "side_file", "superseded", "forgotten_until")


@dataclass(frozen=True, kw_only=True)
class SourcePosition:
    """Record of what a table has consumed of one source.

    :param generation: how many commits moved this position; 0 for a source never consumed.
    :param positions: by their kinds; a source that was files and is a table now has both. Those of named inputs have
        ``kind:input`` for a kind.
    :param shape: part of the source that shapes its rows, to a digest of it; empty where it is not known.
    :param events: what was applied of a change stream, kept in a property of its own.
    """

    generation: int = 0
    positions: Mapping[str, Position] = field(default_factory=dict)
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
            shape = plain.get("shape", {})
            if not is_whole_number(plain["generation"]) or not all(isinstance(part, str) for part in shape.values()):
                raise ValueError("no position has such a generation or shape")
            positions = {kind: _position(kind, value) for kind, value in _tagged(plain).items()}
        with reading_property(table, EVENTS_PREFIX + source_name, properties, _REMEDY):
            events = EventMarks.read(properties.get(EVENTS_PREFIX + source_name))
        return cls(generation=plain["generation"], positions=positions, shape=shape, events=events)

    def of(self, kind: type[P]) -> P | None:
        """Return the position of a kind; None where there is none.

        :raises ValueError: it is not of this kind, whatever its tag says.
        """
        position = self.positions.get(kind.kind)
        if position is None or isinstance(position, kind):
            return position
        return kind.from_plain(position.to_plain())

    @property
    def files(self) -> FilesPosition:
        """The files that were consumed."""
        return self.of(FilesPosition) or FilesPosition()

    @property
    def snapshot(self) -> str | None:
        """Consumed snapshot id of a source table, as text."""
        position = self.of(SnapshotPosition)
        return position.id if position else None

    @property
    def range_start(self) -> str | None:
        """Snapshot after which a consumer reads the source table; None where it reads all of it."""
        # Between the position and what main has, a row may have come and gone.
        return self.snapshot if self.of(PublishedPosition) is None else None

    @property
    def lists(self) -> dict[str, FilesPosition]:
        """Every list of files, by its tag."""
        return {tag: each for tag, each in self.positions.items() if isinstance(each, FilesPosition)}

    def shares_files(self, other: SourcePosition) -> bool:
        """Tell whether both positions know a file; False where a list is lost."""
        return any(mine.shares_files(others) for mine in self.lists.values() for others in other.lists.values())

    def of_input(self, name: str) -> SourcePosition:
        """Return the position of one named input, as if it were a source; of the empty name the whole."""
        if not name:
            return self
        of = f"{_OF_INPUT}{name}"
        positions = {tag.removesuffix(of): each for tag, each in self.positions.items() if tag.endswith(of)}
        return replace(self, positions=positions, shape={}, events=None)

    def moved_inputs(self, inputs: Mapping[str, SourcePosition], shape: Mapping[str, str]) -> SourcePosition:
        """Return the position after a commit that has moved named inputs together."""
        moved = {f"{kind}{_OF_INPUT}{name}": each for name, of in inputs.items() for kind, each in of.positions.items()}
        return replace(self, generation=self.generation + 1, positions={**self.positions, **moved}, shape=shape)

    def moved(self, position: Position, shape: Mapping[str, str] | None = None) -> SourcePosition:
        """Return the position after a commit that has moved one of its kinds."""
        positions = {**self.positions, position.kind: position}
        return replace(self, generation=self.generation + 1, positions=positions, shape=shape or {})

    def with_position(self, position: Position, tag: str | None = None) -> SourcePosition:
        """Return the same with another position of one kind.

        :param tag: of a named input; None for the kind.
        """
        return replace(self, positions={**self.positions, tag or position.kind: position})

    def published(self, commits: Iterable[Snapshot]) -> SourcePosition:
        """Return the same, which tells that main has commits of the source whose input no position names."""
        before = self.of(PublishedPosition) or PublishedPosition(0, of_files=True)
        moments = [PublishedPosition(-(-commit.at // 1000)) for commit in commits]
        newest = reduce(PublishedPosition.joined, moments, before)
        return self.with_position(newest) if moments else self

    def without(self, kind: type[Position]) -> SourcePosition:
        """Return the same without the position of a kind."""
        return replace(self, positions={tag: each for tag, each in self.positions.items() if tag != kind.kind})

    def restarted(self) -> SourcePosition:
        """Return a position that has consumed nothing, with this one's generation count."""
        kept = {kind: left for kind, position in self.positions.items() if (left := position.restarted()) is not None}
        return SourcePosition(generation=self.generation, positions=kept, events=self.events)

    def without_lost(self, at: datetime) -> SourcePosition:
        """Return this position without a list that is lost.

        :param at: of the listing that is consumed next.
        """
        return replace(self, positions={kind: position.without_lost(at) for kind, position in self.positions.items()})

    @property
    def list_for_side_file(self) -> str | None:
        """Tag of the longest list that is in no side file yet, where the positions do not fit into a property."""
        lengths = {tag: len(each.files) for tag, each in self.lists.items() if each.files and each.side_file is None}
        return max(lengths, key=lengths.__getitem__) if lengths and len(self._text()) > MAX_VALUE_CHARACTERS else None

    def to_properties(self, source_name: str) -> dict[str, str]:
        """Return all table properties that keep this position."""
        events = {EVENTS_PREFIX + source_name: self.events.to_text()} if self.events else {}
        return {POSITION_PREFIX + source_name: self._text(), **events}

    def _text(self) -> str:
        plain: dict[str, object] = {"generation": self.generation}
        if self.positions:
            plain["positions"] = {kind: position.to_plain() for kind, position in self.positions.items()}
        if self.shape:
            plain["shape"] = dict(self.shape)
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))

    def is_rolled_back(self, newest: int | None) -> bool:
        """Return whether the table was rolled back behind this position.

        :param newest: see :meth:`refuse_rolled_back`.
        """
        return newest is not None and newest < self.generation

    def refuse_rolled_back(self, newest: int | None, source_name: str, table: str) -> None:
        """Refuse to go on when the table was rolled back behind this position.

        :param newest: generation that the newest unexpired ancestor of main says of this source, 0 where surely none
            does; None where nothing is known.
        :raises RolledBackError: the summary says less than the property.
        """
        if not self.is_rolled_back(newest):
            return
        text = f"the newest snapshot that names this source says {source_name}={newest}"
        raise RolledBackError(
            f"{table}: its property says that commit {self.generation} of source {source_name} was applied, but "
            f"{text if newest else 'no snapshot in the history of main is of this source'}: the table was rolled back. "
            "LakeRollbackOperator with the snapshot at which main is moves the position back as well. Otherwise use "
            "on_repeat='apply' to apply the input again, where keys stay that only the lost commits had deleted; or "
            "full_refresh=True where the operator has it."
        )


def positions_in_summary(positions: Mapping[str, SourcePosition]) -> str:
    """Return the value of ``lake.source-position`` in a snapshot summary.

    :param positions: that the commit moves, by source name.
    """
    return ",".join(f"{name}={position.generation}" for name, position in positions.items())


def moved_sources(summary: Mapping[str, str]) -> dict[str, str]:
    """Return the sources that a snapshot's summary names, with their generations as text."""
    # No name of a source has a comma, nor the sign.
    parts = (part.rpartition("=") for part in summary.get(SOURCE_POSITION, "").split(","))
    return {name: generation for name, _, generation in parts if name}


def generation_of(summary: Mapping[str, str], source_name: str) -> int | None:
    """Return the generation to which a commit moved the position of a source; None where it moved none."""
    text = moved_sources(summary).get(source_name, "")
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def newest_generation(summaries: Iterable[Mapping[str, str]], source_name: str) -> int | None:
    """Return the generation of a source in the newest snapshot that names it; None without one.

    Unlike the property, it goes back with main when the table is rolled back. Commits that were cherry-picked count in
    any order, as long as none is missing among them.

    :param summaries: of the unexpired ancestors of main, newest first.
    """
    named = ((generation_of(summary, source_name), PICKED_FROM in summary) for summary in summaries)
    generations = [(generation, is_picked) for generation, is_picked in named if generation is not None]
    picked = {generation for generation, is_picked in generations if is_picked}
    newest = next((generation for generation, is_picked in generations if not is_picked), None)
    newest = min(picked) if newest is None and picked else newest
    while newest is not None and newest + 1 in picked:
        newest += 1
    return newest


def moved_at(snapshots: Iterable[Snapshot], source_name: str) -> datetime | None:
    """Return when a commit moved the position of a source last; None where no snapshot tells.

    :param snapshots: the unexpired ancestors of main, newest first.
    """
    return next((each.committed_at for each in snapshots if source_name in moved_sources(each.summary)), None)


def _tagged(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the positions by tag, also from the form without tags that earlier commits wrote."""
    if "positions" in plain:
        return dict(plain["positions"])
    files = {name: plain[name] for name in _UNTAGGED if name in plain}
    snapshot = {"snapshot": plain["snapshot"]} if "snapshot" in plain else {}
    if snapshot:
        # Ids were Iceberg's numbers then.
        checked_number(plain["snapshot"])
    return {"files": files, **snapshot} if files else snapshot


def _position(kind: str, plain: Any) -> Position:
    position_type = _POSITIONS.get(kind.partition(_OF_INPUT)[0])
    return position_type.from_plain(plain) if position_type else UnreadPosition(plain)


MAX_CHARACTERS = 64
_DIGEST_DIGITS = 16
_CONSUMER_CHARACTERS = 27
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_OF_CONSUMER = re.compile(rf"{_UUID.pattern}\.([A-Za-z0-9_-]{{1,{_CONSUMER_CHARACTERS}}})")
# A name is part of a property's name and of ``name=generation``; a metastore may keep either in Latin-1.
_ALLOWED = re.compile(r"[A-Za-z0-9_.-]+")
_OTHERS = re.compile(r"[^A-Za-z0-9_.-]")


def source_name(text: str) -> str:
    """Return the name of a source as a table keeps it, at most 64 characters.

    :param text: the author's, of ASCII letters, digits, ``_``, ``-`` and ``.``.
    :raises InvalidSpecError: it is empty or has other characters.
    """
    if not _ALLOWED.fullmatch(text):
        raise InvalidSpecError(
            f"the name {text!r} of a source must have one or more ASCII letters, digits, '_', '-' or '.': the table "
            "keeps what it has consumed under this name"
        )
    return text if len(text) <= MAX_CHARACTERS else _digested(text, text)


def default_source_name(dag_id: str, task_id: str) -> str:
    """Return the name of a source that its author did not name; ids of DAGs and tasks may have any letters."""
    text = f"{dag_id}.{task_id}"
    plain = _OTHERS.sub("_", text)
    is_unique = plain == text and text.count(".") == 1
    return source_name(text) if is_unique else _digested(plain, f"{dag_id}\x1f{task_id}")


def consumer_source_name(table_uuid: str, consumer: str) -> str:
    """Return the name under which a target keeps how far a consumer has read a source table.

    :param table_uuid: of the source table; one that is dropped and made again has another.
    :param consumer: name of the cursor.
    """
    return source_name(f"{table_uuid}.{consumer}")


def consumer_of_source(target: str, source_name: str, table: str) -> str:
    """Return the consumer by which a source keeps what it has not read of a table: at most 27 letters and digits.

    :param target: table that the source is loaded into.
    """
    digest = hashlib.sha256(f"{target}\x1f{source_name}\x1f{table}".encode()).hexdigest()[:_DIGEST_DIGITS]
    return f"{source_name.replace('.', '_')[: _CONSUMER_CHARACTERS - _DIGEST_DIGITS - 1]}-{digest}"


def table_of_position(name: str, consumer: str) -> str | None:
    """Return the UUID of the source table whose position a consumer keeps under a name; None for other names.

    :param name: of a position, see :func:`consumer_source_name`; whatever anybody has written there.
    """
    uuid = _UUID.match(name)
    return uuid[0] if uuid is not None and name == consumer_source_name(uuid[0], consumer) else None


def consumer_of_position(name: str) -> str | None:
    """Return the consumer that keeps its position under a name, of whatever table; None for other names."""
    named = _OF_CONSUMER.fullmatch(name)
    return named[1] if named is not None else None


def _digested(plain: str, text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS]
    return f"{plain[: MAX_CHARACTERS - _DIGEST_DIGITS - 1]}-{digest}"
