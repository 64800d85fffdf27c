"""Folders of other users, and of a mode, that tests of private folders begin with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

NOBODY = 65534


def give_away(path: Path, group: int = NOBODY) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(path, NOBODY, group, follow_symlinks=False)


def made(path: Path, mode: int) -> Path:
    path.mkdir()
    path.chmod(mode)
    return path
