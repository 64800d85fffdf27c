"""Folders and files that no other user can fill, swap or read: code that drivers run is kept there, and secrets are.

A path is looked at from its root downwards. In a folder that is found safe nobody else can swap an entry. So what was
seen of an entry stays true, and a file below may be looked at first and used later.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

# As many as Linux follows.
_MOST_LINKS = 40
_WRITERS = stat.S_IWGRP | stat.S_IWOTH


def private_folder(folder: Path) -> Path:
    """Make a folder of this user alone where it is missing, and return its path without links.

    A link of this user or of root counts as what it leads to, and the folders on that way are looked at as well.

    :raises ValueError: another user may write to the folder, or could put another one in its place.
    :raises OSError: it cannot be made, or cannot be looked at.
    """
    given = folder.absolute()
    here, left, links = Path(given.anchor), list(reversed(given.parts[1:])), 0
    while left:
        _refuse_swappable(here)
        part = left.pop()
        entry = here.parent if part == ".." else here / part
        if not stat.S_ISLNK(_status_or_made(entry).st_mode):
            here = entry
            continue
        links += 1
        target = _target(entry, links)
        here = Path(target.anchor) if target.is_absolute() else here
        left.extend(part for part in reversed(target.parts) if part != target.anchor)
    if not here.is_dir():
        raise NotADirectoryError(f"{here} is no folder")
    if not is_private(here):
        raise ValueError(f"{here} belongs to another user, or other users may write to it")
    return here


def is_private(path: Path) -> bool:
    """Return True if a file or folder is of this user, nobody else may write to it, and it is no link."""
    status = path.lstat()
    return not stat.S_ISLNK(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & _WRITERS


def read_own_file(path: Path, at_most: int) -> bytes | None:
    """Return the first bytes of a file; None where a link, a pipe or a folder is there, or others may write to it.

    :param at_most: bytes.
    :raises OSError: there is none, or it cannot be read.
    """
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or not is_private(path):
        return None
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return file.read(at_most)


def write_private(path: Path, content: bytes) -> None:
    """Write a file of mode 0600; what has its name is not followed."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(content)


def _status_or_made(folder: Path) -> os.stat_result:
    try:
        return folder.lstat()
    except FileNotFoundError:
        # Another task may make it at the same time, and another user may be quicker: what is there is looked at.
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder.lstat()


def _refuse_swappable(folder: Path) -> None:
    """Refuse a folder in which another user could rename what is below it."""
    status = folder.lstat()
    # In images of containers group 0 writes to everything of the only user. For root itself it is a group of others.
    by_group = status.st_mode & stat.S_IWGRP and (status.st_gid != 0 or os.getuid() == 0)
    is_sticky = status.st_mode & stat.S_ISVTX
    if not _is_trusted(status) or ((by_group or status.st_mode & stat.S_IWOTH) and not is_sticky):
        raise ValueError(
            f"folder {folder} belongs to another user, or other users may write to it, who could put a folder of "
            f"theirs in the place of one below it; take the right to write away (chmod go-w {folder})"
        )


def _target(link: Path, links: int) -> Path:
    if not _is_trusted(link.lstat()):
        raise ValueError(f"{link} is a link of another user")
    if links > _MOST_LINKS:
        raise ValueError(f"{link} is one of more than {_MOST_LINKS} links")
    return link.readlink()


def _is_trusted(status: os.stat_result) -> bool:
    # In a container whose users are not those of the machine, the owner of the root folder stands for root.
    return status.st_uid in (0, os.getuid(), Path("/").lstat().st_uid)
