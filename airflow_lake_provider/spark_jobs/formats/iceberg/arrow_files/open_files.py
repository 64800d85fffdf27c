"""Open files of a table in a Python worker, which has no JVM: those of a mounted folder, and those of S3."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyarrow import fs

from airflow_lake_provider.contracts.errors import UnsupportedError

_LOCAL = re.compile(r"(?:file:)?/+(?!/)(.*)", re.DOTALL)
# Iceberg has cut locations at a question mark, as if it began a query.
_S3 = re.compile(r"s3[an]?://([^/?#]+/[^?#]+)", re.DOTALL)


def is_local(location: str) -> bool:
    """Return True for a file of the machine, or of a folder that all machines have mounted."""
    return _LOCAL.fullmatch(location) is not None


def local_path(location: str) -> str | None:
    """Return the path of a local file, which Hadoop writes without percent signs of its own; None of any other."""
    local = _LOCAL.fullmatch(location)
    return None if local is None else f"/{local[1]}"


@dataclass
class TableFiles:
    """Files of a table, which Python workers open.

    :param s3: arguments of ``S3FileSystem`` by the beginning of locations. They have credentials, so an object of this
        class goes to workers by a broadcast only.
    """

    s3: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    _systems: dict[str, fs.FileSystem] = field(default_factory=dict, init=False, repr=False)

    def opens(self, location: str) -> bool:
        """Return True for a file that workers open."""
        return is_local(location) or (self._prefix(location) is not None and _S3.fullmatch(location) is not None)

    def place_of(self, location: str) -> tuple[fs.FileSystem, str]:
        """Return the file system of a file, and its path there.

        :raises UnsupportedError: workers do not open it.
        """
        if (path := local_path(location)) is not None:
            return self._systems.setdefault("", fs.LocalFileSystem()), path
        key, prefix = _S3.fullmatch(location), self._prefix(location)
        if key is None or prefix is None:
            scheme = location.partition(":")[0]
            raise UnsupportedError(
                f"a file of {scheme}: is not opened by Python workers, expected file: or s3: by keys of the table's "
                "FileIO; Spark reads it"
            )
        if prefix not in self._systems:
            self._systems[prefix] = fs.S3FileSystem(**self.s3[prefix])
        return self._systems[prefix], key[1]

    def _prefix(self, location: str) -> str | None:
        """Return the longest beginning of the location, as Iceberg's ``S3FileIO`` chooses its client."""
        return max((prefix for prefix in self.s3 if location.startswith(prefix)), key=len, default=None)
