"""The files of one attempt: the spec that goes in, the report that comes back, settings nobody else may read."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.submission.settings_file import properties_text, write_private

_SETTINGS = "spark.properties"
_OWNER = "owner.pid"
# A finished attempt is removed by its own task; what a killed one left is kept this long for a look at it.
_KEEP_SECONDS = 24 * 3600


@dataclass(frozen=True)
class JobFiles:
    """A folder (mode 0700) that belongs to one attempt of one task.

    :param folder: removed by :meth:`close`.
    """

    folder: Path

    @classmethod
    def open(cls, base: Path, label: str) -> JobFiles:
        """Make the folder of a new attempt, after sweeping what killed attempts left.

        :param base: job directory of this worker.
        :param label: start of the folder's name, for people.
        """
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_foreign(base)
        sweep(base)
        folder = base / f"attempt-{label}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
        (folder / _OWNER).write_text(f"{os.getpid()} {socket.gethostname()}")
        return cls(folder)

    @property
    def spec(self) -> Path:
        """Path of the spec."""
        return self.folder / "spec.json"

    @property
    def report(self) -> Path:
        """Path where a driver on this machine leaves its report."""
        return self.folder / "report.json"

    @property
    def settings(self) -> Path:
        """Spark properties with secrets, mode 0600."""
        return self.folder / _SETTINGS

    def write_spec(self, text: str) -> None:
        """Write the spec, readable by this user only."""
        write_private(self.spec, text)

    def write_settings(self, settings: Mapping[str, str], author_file: str | None = None) -> None:
        """Write Spark properties.

        :param settings: our settings; the author's file comes after them and wins.
        :param author_file: path of the author's own properties file, taken over as it is.
        """
        write_private(self.settings, properties_text(settings, author_file))

    def close(self) -> None:
        """Remove the folder with everything in it."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _refuse_foreign(base: Path) -> None:
    """Refuse a folder that another user could fill: the code that drivers run is kept there too.

    :raises InvalidSpecError: it belongs to another user, or everybody may write to it.
    """
    state = base.stat()
    if state.st_uid != os.getuid() or state.st_mode & stat.S_IWOTH:
        raise InvalidSpecError(
            f"job directory {base} belongs to another user or can be written by everybody; name a folder of the "
            "worker's own user in [lake] job_directory"
        )


def sweep(base: Path) -> None:
    """Remove the secrets of attempts whose task is gone, and their whole folder after a day."""
    for folder in base.glob("attempt-*"):
        if _owner_lives(folder):
            continue
        # Removing a file makes the folder young again.
        age = _age_seconds(folder)
        # A driver that outlived its task has read its settings long ago, but may still leave its report here.
        (folder / _SETTINGS).unlink(missing_ok=True)
        if age > _KEEP_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _owner_lives(folder: Path) -> bool:
    try:
        pid, _, host = (folder / _OWNER).read_text().partition(" ")
        if host not in ("", socket.gethostname()):
            # Whether a process of another machine lives cannot be seen from here.
            return _age_seconds(folder) < _KEEP_SECONDS
        os.kill(int(pid), 0)
    except (FileNotFoundError, ValueError):
        # Being made right now, or broken: young ones are left to their owner.
        return _age_seconds(folder) < 60
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _age_seconds(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except FileNotFoundError:
        # Another task's sweep, or its own end, took it away just now.
        return 0.0
