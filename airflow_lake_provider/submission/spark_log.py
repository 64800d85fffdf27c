"""Sort the output of ``spark-submit``, and keep Spark's own lines in a file for each try, which outlives the task.

Whatever the disk does, no task fails over it: a file that cannot be made or written to ends, and says so once.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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


_LEVEL = "TRACE|DEBUG|INFO|WARN|ERROR|FATAL"
# ``26/11/26 00:05:12 WARN Utils: ...``, or a line of JSON. Python's own logging writes years of four digits.
_LOG4J = rf"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:{_LEVEL}) [\w.$-]+: |\{{\"ts\":\"[^\"]+\",\"level\":\"(?:{_LEVEL})\""
_JVM = (
    r"WARNING: (?:Using incubator modules|A terminally deprecated method|A restricted method|Restricted methods|"
    r"An illegal reflective access|Illegal reflective access|All illegal access operations|Please consider reporting|"
    r"Use --(?:enable-native-access|illegal-access|add-opens)|\S+::\S+ (?:has been|will be))|"
    r"Picked up (?:_JAVA_OPTIONS|JAVA_TOOL_OPTIONS|JDK_JAVA_OPTIONS): |NOTE: Picked up JDK_JAVA_OPTIONS: |"
    r"\S+ (?:64-Bit )?Server VM warning: (?:Sharing is only supported|Archived |.*(?:CDS|shared archive))|"
    r"\[[\d.]+s\]\[\w+ *\]\[cds"
)
_LOGGING = (
    r"Using Spark's default log4j profile: |Setting (?:Spark|default) log level to |To adjust logging level use |"
    r"log4j:(?:WARN|ERROR) |SLF4J(?:\([WEI]\))?: |Using properties file: "
)
_IVY = (
    r":: |:: ?(?:loading settings|resolving dependencies|resolution report|retrieving|problems summary)|::::|"
    r"Ivy Default Cache set to: |The jars for the packages stored in: |[^\s#]+#[^\s#]+ added as a dependency|"
    r"\S+ added as a remote repository with the name: |downloading https?://|Loading (?:Ivy )?settings|"
    r"You probably access the destination server through a proxy "
)
_PROGRESS = r"\[Stage \d+:"
_OWN = re.compile(f"{_LOG4J}|{_JVM}|{_LOGGING}|{_IVY}|{_PROGRESS}")
# What belongs to the line before it: a stack trace, the cause of an exception, the lines of a table.
_CONTINUES = re.compile(
    r"\s|$|Caused by: |Suppressed: |-{10,}$|(?:[\w$]+\.)*[\w$]*(?:Exception|Error|Throwable)\b(?::|$)"
)
# Waits that nothing else tells of. Of a state of YARN or Kubernetes only the change is told.
_WAIT = re.compile(
    r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:WARN Tasks: (?=Retrying task after failure: )|INFO HttpRequestRetryExec: \S+ |"
    r"WARN (?:TaskSchedulerImpl|YarnScheduler): (?=Initial job has not accepted any resources)|"
    r"INFO Client: (?=Application report for )|INFO LoggingPodStatusWatcherImpl: (?=Application status for ))(.*)"
)
_STATE = "Application "


@dataclass
class SparkOutput:
    """Sorts the lines of one ``spark-submit``, in their order."""

    _is_own: bool = False
    _states: set[str] = field(default_factory=set)

    def is_own(self, line: str) -> bool:
        """Tell whether a line is Spark's own.

        :param line: as it came, with the spaces that it begins with.
        """
        if not _CONTINUES.match(line):
            self._is_own = _OWN.match(line) is not None
        return self._is_own

    def wait(self, line: str) -> str | None:
        """Return what a line of Spark's own says about a wait that begins; None where it says nothing new."""
        match = _WAIT.match(line)
        text = None if match is None else str(match[1])
        if text is None or not text.startswith(_STATE):
            return text
        if text in self._states:
            return None
        self._states.add(text)
        return text
