"""Identity of an input file by path, size and version, so that a corrected file is another one; and consumed files."""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

PATH_BYTES = 3
# Names of one storage: which of them a path has depends on the cluster's settings, not on the file.
_SAME_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}


@dataclass(frozen=True, order=True)
class InputFile:
    """One file of a batch.

    :param path: full path with scheme.
    :param size: bytes.
    :param version: modification time in epoch milliseconds, which stands for one: no store is asked for more.
    """

    path: str
    size: int
    version: str

    @property
    def identity(self) -> str:
        """Path, size and version in one text; a corrected file under the same name has another identity."""
        return f"{plain_path(self.path)}\x1f{self.size}\x1f{self.version}"

    @property
    def modified(self) -> int | None:
        """Modification time in epoch seconds; None where the version is none."""
        return int(self.version) // 1000 if self.version.isdecimal() else None

    @property
    def digest(self) -> bytes:
        """10 bytes: 3 of the path's SHA-256, so that a corrected file is told from a new one, 7 of the identity's."""
        identity = hashlib.sha256(self.identity.encode()).digest()
        return self.path_digest + identity[: DIGEST_BYTES - PATH_BYTES]

    @property
    def path_digest(self) -> bytes:
        """First 3 bytes of the path's SHA-256; for wording only, never for a decision."""
        return hashlib.sha256(plain_path(self.path).encode()).digest()[:PATH_BYTES]


def plain_path(path: str) -> str:
    """Return a path in the one spelling that all names of its storage have: ``s3a://a/b`` is ``s3://a/b``.

    :param path: with a scheme; ``file:/a`` and ``file:///a`` are one.
    """
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return path
    scheme = scheme.lower()
    if scheme == "file":
        return f"file:/{rest.lstrip('/')}"
    return f"{_SAME_SCHEMES.get(scheme, scheme)}:{rest}"


DIGEST_BYTES = 10
# Two bytes hold the days until 2149.
LAST_DAY = 0xFFFF
_MOST_OF_A_GROUP = 0xFFFF
_GROUP = struct.Struct(">HH")


@dataclass(frozen=True)
class ConsumedFiles:
    """Digests of files.

    :param days: digest to the day, counted from 1970-01-01, on which a listing last showed the file.
    """

    days: Mapping[bytes, int] = field(default_factory=dict)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self.days

    def __len__(self) -> int:
        return len(self.days)

    def seen(self, files: Iterable[tuple[bytes, int]]) -> ConsumedFiles:
        """Add what a listing shows.

        :param files: digest, and the day on which it is seen; one that is known keeps the newer of its two days.
        """
        days = dict(self.days)
        for digest, day in files:
            days[digest] = max(days.get(digest, 0), min(day, LAST_DAY))
        return ConsumedFiles(days)

    def forget(self, before: int) -> tuple[ConsumedFiles, int | None]:
        """Drop the files last seen before a day.

        :return: what is left, and the newest day of a dropped file; None where none was dropped.
        """
        dropped = [day for day in self.days.values() if day < before]
        if not dropped:
            return self, None
        return ConsumedFiles({digest: day for digest, day in self.days.items() if day >= before}), max(dropped)

    def pack(self) -> bytes:
        """Return groups of a day: the day and a count in two bytes each, then so many digests, sorted."""
        by_day: dict[int, list[bytes]] = defaultdict(list)
        for digest, day in self.days.items():
            by_day[day].append(digest)
        return b"".join(_groups(day, sorted(by_day[day])) for day in sorted(by_day))

    @classmethod
    def unpack(cls, packed: bytes) -> ConsumedFiles:
        """Read what :meth:`pack` wrote.

        :raises ValueError: it is cut off.
        """
        days: dict[bytes, int] = {}
        at = 0
        while at < len(packed):
            if at + _GROUP.size > len(packed):
                raise ValueError("a list of consumed files is cut off")
            day, count = _GROUP.unpack_from(packed, at)
            at += _GROUP.size
            end = at + count * DIGEST_BYTES
            if end > len(packed):
                raise ValueError("a list of consumed files is cut off")
            days.update((packed[i : i + DIGEST_BYTES], day) for i in range(at, end, DIGEST_BYTES))
            at = end
        return cls(days)


def _groups(day: int, digests: list[bytes]) -> bytes:
    parts = (digests[i : i + _MOST_OF_A_GROUP] for i in range(0, len(digests), _MOST_OF_A_GROUP))
    return b"".join(_GROUP.pack(day, len(part)) + b"".join(part) for part in parts)
