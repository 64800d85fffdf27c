"""Open files of a table in a Python worker, which has neither the JVM nor the secrets of its catalog."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_lake_provider.contracts.errors import UnsupportedError

_LOCAL = re.compile(r"(?:file:)?/+(?!/)(.*)", re.DOTALL)


def is_local(location: str) -> bool:
    """Return True for a file of the machine, or of a folder that all machines have mounted."""
    return _LOCAL.fullmatch(location) is not None


def path_of(location: str) -> Path:
    """Return the path of a file, which Hadoop writes without percent signs of its own.

    :raises UnsupportedError: it is in a store.
    """
    local = _LOCAL.fullmatch(location)
    if local is None:
        scheme = location.partition(":")[0]
        raise UnsupportedError(f"files of {scheme}: are not opened by Python workers, expected file:; Spark reads them")
    return Path("/", local[1])
