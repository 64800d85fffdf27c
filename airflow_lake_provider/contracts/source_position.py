"""How far a table has consumed a source: files by identity, tables by snapshot.

A position is one JSON text in the table property ``lake.position.<source name>``, set in the same transaction as the
rows. Its generation counts the commits that moved it; the snapshot summary carries ``<source name>=<generation>``, so a
table that was rolled back behind its own position is recognised.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from airflow_lake_provider.contracts.errors import RolledBackError
from airflow_lake_provider.contracts.event_marks import EventMarks
from airflow_lake_provider.contracts.table_properties import EVENTS_PREFIX, POSITION_PREFIX, SOURCE_POSITION

# 10 bytes of digest per file: 250 of them are 3,336 characters of base64, below the 3,500 of a property.
MAX_INLINE_FILES = 250
_PATH_BYTES = 3
_DIGEST_BYTES = 10


@dataclass(frozen=True, order=True)
class InputFile:
    """One file of a batch.

    :param path: full path with scheme.
    :param size: bytes.
    :param version: modification time in epoch milliseconds, or an ETag.
    """

    path: str
    size: int
    version: str

    @property
    def identity(self) -> str:
        """Path, size and version in one text; a corrected file under the same name has another identity."""
        return f"{self.path}\x1f{self.size}\x1f{self.version}"

    @property
    def digest(self) -> bytes:
        """10 bytes: 3 of the path's SHA-256, so that a corrected file is told from a new one, 7 of the identity's."""
        identity = hashlib.sha256(self.identity.encode()).digest()
        return self.path_digest + identity[: _DIGEST_BYTES - _PATH_BYTES]

    @property
    def path_digest(self) -> bytes:
        """First 3 bytes of the path's SHA-256; for wording only, never for a decision."""
        return hashlib.sha256(self.path.encode()).digest()[:_PATH_BYTES]


@dataclass(frozen=True, kw_only=True)
class SourcePosition:
    """What a table has consumed of one source.

    :param generation: how many commits moved this position; 0 for a source never consumed.
    :param files: digests of the consumed files that still exist in the source; None when ``side_file`` has them.
    :param side_file: path of a file of concatenated digests, for more than 250 files.
    :param snapshot: consumed snapshot id of a source table, as text.
    :param events: what was applied of a change stream, kept in a property of its own.
    """

    generation: int = 0
    files: frozenset[bytes] | None = None
    side_file: str | None = None
    snapshot: str | None = None
    events: EventMarks | None = None

    @classmethod
    def read(cls, properties: Mapping[str, str], source_name: str) -> SourcePosition:
        """Read the position of a source from a table's properties; absent means nothing was consumed."""
        text = properties.get(POSITION_PREFIX + source_name)
        if text is None:
            return cls()
        plain = json.loads(text)
        files = unpack_digests(base64.b64decode(plain["files"])) if "files" in plain else None
        return cls(
            generation=plain["generation"],
            files=files,
            side_file=plain.get("side_file"),
            snapshot=plain.get("snapshot"),
            events=EventMarks.read(properties.get(EVENTS_PREFIX + source_name)),
        )

    def unconsumed(self, files: Iterable[InputFile]) -> tuple[InputFile, ...]:
        """Return the files that this position has not consumed, in their order."""
        consumed = self.files or frozenset()
        return tuple(file for file in files if file.digest not in consumed)

    def corrected(self, files: Iterable[InputFile]) -> tuple[InputFile, ...]:
        """Return the unconsumed files of which an earlier version was consumed under the same path."""
        paths = {digest[:_PATH_BYTES] for digest in self.files or ()}
        return tuple(file for file in self.unconsumed(files) if file.path_digest in paths)

    def next_files(self, files: Iterable[InputFile]) -> SourcePosition:
        """Return the position after consuming ``files``, the whole present listing of the source."""
        digests = frozenset(file.digest for file in files)
        return SourcePosition(generation=self.generation + 1, files=digests, events=self.events)

    def next_snapshot(self, snapshot_id: str) -> SourcePosition:
        """Return the position after consuming a source table up to ``snapshot_id``."""
        return SourcePosition(generation=self.generation + 1, snapshot=snapshot_id)

    def with_side_file(self, path: str) -> SourcePosition:
        """Move the digests to a side file; the caller has written :attr:`packed_files` there."""
        return replace(self, files=None, side_file=path)

    @property
    def needs_side_file(self) -> bool:
        """Whether the digests do not fit in a property."""
        return self.files is not None and len(self.files) > MAX_INLINE_FILES

    @property
    def packed_files(self) -> bytes:
        """Digests one after another, sorted."""
        return b"".join(sorted(self.files or ()))

    def to_properties(self, source_name: str) -> dict[str, str]:
        """Return all table properties that keep this position."""
        plain: dict[str, object] = {"generation": self.generation}
        if self.files is not None:
            plain["files"] = base64.b64encode(self.packed_files).decode()
        if self.side_file is not None:
            plain["side_file"] = self.side_file
        if self.snapshot is not None:
            plain["snapshot"] = self.snapshot
        position = {POSITION_PREFIX + source_name: json.dumps(plain, sort_keys=True, separators=(",", ":"))}
        return {**position, **({EVENTS_PREFIX + source_name: self.events.to_text()} if self.events else {})}

    def to_summary(self, source_name: str) -> str:
        """Return the value of ``lake.source-position`` in a snapshot summary."""
        return f"{source_name}={self.generation}"

    def is_rolled_back(self, newest_summary: str | None, source_name: str) -> bool:
        """Whether the table was rolled back behind this position.

        :param newest_summary: see :meth:`refuse_rolled_back`.
        """
        if newest_summary is None:
            return False
        return int(newest_summary.removeprefix(f"{source_name}=")) < self.generation

    def refuse_rolled_back(self, newest_summary: str | None, source_name: str, table: str) -> None:
        """Refuse to go on when the table was rolled back behind this position.

        :param newest_summary: ``lake.source-position`` of the newest unexpired ancestor of main that names this
            source; None when there is none, which proves nothing.
        :raises RolledBackError: the summary says less than the property.
        """
        if self.is_rolled_back(newest_summary, source_name):
            raise RolledBackError(
                f"{table}: its property says that commit {self.generation} of source {source_name} was applied, but "
                f"the newest snapshot that names this source says {newest_summary}: the table was rolled back. "
                "Use on_repeat='apply' to apply the input again, or full_refresh=True where the operator has it."
            )


def newest_position(summaries: Iterable[Mapping[str, str]], source_name: str) -> str | None:
    """Return the newest ``lake.source-position`` that names a source; None without one.

    Unlike the property, it goes back with main when the table is rolled back.

    :param summaries: of the unexpired ancestors of main, newest first.
    """
    said = (summary.get(SOURCE_POSITION, "") for summary in summaries)
    return next((text for text in said if text.startswith(f"{source_name}=")), None)


def unpack_digests(packed: bytes) -> frozenset[bytes]:
    """Split concatenated 10-byte digests."""
    return frozenset(packed[i : i + _DIGEST_BYTES] for i in range(0, len(packed), _DIGEST_BYTES))
