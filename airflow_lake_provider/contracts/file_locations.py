"""Locations of files in the one spelling in which they are compared: one store has many names.

Nothing is looked up but links of this machine's disk. Two locations that may be one file count as one.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from posixpath import normpath

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
# One store by several names.
SAME_STORES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs", "gcs": "gs", "local": "file"}


def normalised(location: str, default_root: str = "file:///") -> str:
    """Return a location in the one spelling in which locations are compared: no ``..``, links of a local disk followed.

    :param default_root: what a location without a scheme is below of: Hadoop's ``fs.defaultFS``.
    """
    matched = _SCHEME.fullmatch(location)
    if matched is None:
        return normalised(f"{default_root.rstrip('/')}/{location.lstrip('/')}") if "://" in default_root else location
    scheme, rest = matched[1].lower(), matched[2]
    scheme = SAME_STORES.get(scheme, scheme)
    authority, path = _split(rest)
    path = normpath(f"/{path.lstrip('/')}")
    if scheme == "file":
        folder, _, name = path.rpartition("/")
        authority, path = "", f"{_followed(folder)}/{name}".replace("//", "/")
    return f"{scheme}://{authority}{path}".rstrip("/") if path != "/" or authority else f"{scheme}:///"


def normalised_folder(location: str, default_root: str = "file:///") -> str:
    """Return the location of a folder in that spelling; one that is a link itself counts as what it leads to.

    :param default_root: see :func:`normalised`.
    """
    folder = normalised(f"{location.rstrip('/')}/_", default_root).rpartition("/")[0]
    return f"{folder}/" if folder.endswith("//") else folder


def _split(rest: str) -> tuple[str, str]:
    if not rest.startswith("//"):
        return "", rest
    authority, _, path = rest[2:].partition("/")
    # Azure serves one container by two names.
    return authority.lower().replace(".blob.core.", ".dfs.core."), path


@lru_cache(maxsize=4096)
def _followed(folder: str) -> str:
    try:
        return os.path.realpath(folder or "/")
    except ValueError:
        # Anybody may write a location that is no path: of a NUL, or of half a surrogate pair. No disk has a link there.
        return folder or "/"


def is_below(location: str, root: str) -> bool:
    """Tell whether a normalised location is a folder, or lies in it."""
    return location == root or location.startswith(f"{root.rstrip('/')}/")


def is_root(location: str) -> bool:
    """Tell whether a normalised location is the whole of a file system; a bucket may be one table's."""
    return location.endswith(":///")


def folders_of_metadata(metadata_location: str | None) -> tuple[str, ...]:
    """Return the folders that a table has by the place of its metadata file; none where that is not known."""
    if not metadata_location:
        return ()
    folder = metadata_location.rpartition("/")[0]
    table, _, name = folder.rpartition("/")
    return (table,) if name == "metadata" and table else (folder,)
