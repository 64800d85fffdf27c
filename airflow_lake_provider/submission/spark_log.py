"""File of Spark's own lines, one for each try, which outlives the task.

Whatever the disk does, no task fails over it: a file that cannot be made or written to ends, and says so once.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TextIO

from airflow_lake_provider.submission.private_folder import is_private

# Two pieces: of a file that grows beyond it, the older half is given up.
MOST_BYTES = 32 << 20
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LONGEST_LABEL = 160


class SparkLog:
    """A file (mode 0600) that takes lines; without a path it takes none.

    :param path: of the file; None where all lines shall stay in the task's log.
    :param mask: hides secrets in a text.
    """

    def __init__(self, path: Path | None = None, mask: Callable[[str], str] = str) -> None:
        self.path = path
        self._mask = mask
        self._file: TextIO | None = None
        self._written = 0
        self.trouble = ""
        # Whether its last lines are to be put into the task's log at the end: the file may go with the worker.
        self.is_replayed = False
        if path is not None:
            self._file = _opened(path)

    @classmethod
    def open(cls, folder: Path, label: str, mask: Callable[[str], str], keep_days: int) -> SparkLog:
        """Make a file in the folder of this day, after removing the folders of days that are over.

        :param label: start of the file's name, for people.
        :param keep_days: days after which a folder is removed; 0 keeps all.
        :raises OSError: it cannot be made.
        :raises ValueError: another user may write to the folder.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(folder):
            raise ValueError(f"{folder} belongs to another user, or other users may write to it")
        today = datetime.now(UTC).date()
        if keep_days:
            _sweep(folder, today - timedelta(days=keep_days))
        day = folder / today.isoformat()
        day.mkdir(mode=0o700, exist_ok=True)
        plain = re.sub(r"[^A-Za-z0-9_.=-]", "_", label)[-_LONGEST_LABEL:].lstrip(".")
        return cls(day / f"{plain}-{secrets.token_hex(3)}.log", mask)

    def write(self, line: str) -> bool:
        """Take a line, with its end; return False where the file takes none."""
        if self._file is None or self.path is None:
            return False
        try:
            if self._written > MOST_BYTES:
                self._begin_again(self.path)
            self._written += self._file.write(self._mask(line))
        # A disk that is full, or a mask that does not like the text.
        except Exception as error:  # noqa: BLE001
            self.trouble = str(error)
            self.close()
            return False
        return True

    def close(self) -> None:
        """Close the file; it stays."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self.trouble = str(error)

    def last_lines(self, most: int) -> list[str]:
        """Return its last lines."""
        if self.path is None:
            return []
        try:
            return self.path.read_text(encoding="utf-8", errors="replace").splitlines()[-most:]
        except OSError:
            return []

    def _begin_again(self, path: Path) -> None:
        self.close()
        path.replace(path.with_suffix(".earlier.log"))
        self._file, self._written = _opened(path), 0


def _opened(path: Path) -> TextIO:
    # Each line at once: the end of a driver that is killed is what one looks for.
    return os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600),
        "w",
        encoding="utf-8",
        errors="backslashreplace",
        buffering=1,
    )


def _sweep(folder: Path, before: date) -> None:
    for old in _days(folder):
        if old.name < before.isoformat() and is_private(old):
            shutil.rmtree(old, ignore_errors=True)


def _days(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if _DAY.fullmatch(path.name))
