"""Identity of an input file: path, size and version, so that a corrected file is another one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from airflow_lake_provider.contracts.consumed_files import DIGEST_BYTES

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
