"""Symbolic links of a local disk: a file that a link shows once more is the same file, and no other rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from os.path import realpath
from pathlib import Path

from airflow_lake_provider.contracts.input_file import InputFile

_SCHEME = "file:"


def leads_back(address: str) -> bool:
    """Return whether a folder is a link to one that it is in, below which its own tree begins again.

    :param address: of the folder, as Hadoop writes it.
    """
    path = Path(address.removeprefix(_SCHEME))
    return path.is_symlink() and Path(realpath(path.parent)).is_relative_to(realpath(path))


def without_linked_twins(files: Sequence[InputFile]) -> Iterator[InputFile]:
    """Yield each file of the disk once: by its own path, or by the first one if only links show it."""
    real_folder = cache(realpath)
    shown: dict[str, list[InputFile]] = {}
    for file in files:
        path = Path(file.path.removeprefix(_SCHEME))
        real = realpath(path) if path.is_symlink() else f"{real_folder(path.parent)}/{path.name}"
        shown.setdefault(real, []).append(file)
    chosen = {
        min(same, key=lambda file: (file.path.removeprefix(_SCHEME) != real, file)) for real, same in shown.items()
    }
    return (file for file in files if file in chosen)
