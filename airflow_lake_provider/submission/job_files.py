"""The files of one attempt: the archive of this package, the spec, the report, and settings nobody else may read."""

from __future__ import annotations

import hashlib
import io
import logging
import marshal
import os
import re
import secrets
import shutil
import socket
import stat
import sys
import time
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.submission.private_folder import private_folder, read_own_file, write_private
from airflow_lake_provider.submission.properties_file import properties_text

_log = logging.getLogger(__name__)

_SETTINGS = "spark.properties"
_OWNER = "owner.pid"
_UNFINISHED = ".unfinished"
# A finished attempt is removed by its own task; what a killed one left is kept this long for a look at it.
_KEEP_SECONDS = 24 * 3600
# A folder of a younger age may have no owner yet.
_MAKING_SECONDS = 60
_LONGEST_LABEL = 64
# Linux counts process ids up to 2^22.
_PROCESS = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


@dataclass(frozen=True)
class JobFiles:
    """A folder (mode 0700) that belongs to one attempt of one task, removed by :meth:`close`."""

    folder: Path

    @classmethod
    def open(cls, base: Path, label: str) -> JobFiles:
        """Make the folder of a new attempt, after sweeping what killed attempts left.

        :param base: job directory of this worker.
        :param label: start of the folder's name, for people. Other signs than letters of ASCII, digits, ``-``, ``_``
            and ``.`` become ``_``, and it is cut after 64.
        :raises InvalidSpecError: another user could fill the job directory, or it cannot be made.
        """
        base = _private(base)
        sweep(base)
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", label[:_LONGEST_LABEL])
        folder = base / f"attempt-{plain}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
        write_private(folder / _OWNER, f"{os.getpid()} {socket.gethostname()}".encode())
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
        write_private(self.spec, text.encode())

    def write_settings(self, settings: Mapping[str, str], author_file: str | None = None) -> None:
        """Write Spark properties.

        :param settings: our settings; the author's file comes after them and wins.
        :param author_file: path of the author's own properties file, taken over as it is.
        """
        write_private(self.settings, properties_text(settings, author_file).encode())

    def close(self) -> None:
        """Remove the folder with everything in it."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _private(base: Path) -> Path:
    """Return the job directory without links; the code that drivers run is kept there too."""
    try:
        return private_folder(base)
    except (ValueError, PermissionError, NotADirectoryError, FileNotFoundError) as error:
        raise InvalidSpecError(
            f"job directory {base} cannot be used: {error}. Name a folder in [lake] job_directory that the worker's "
            "own user alone may write to"
        ) from error


def sweep(base: Path) -> None:
    """Remove the secrets of attempts whose task is gone, and after a day their whole folder and cut off archives.

    What is no folder of this user is left alone, and no link is followed. Nothing in one of them fails the task.
    """
    for left in base.glob(f"{PACKAGE.name}-*{_UNFINISHED}"):
        with suppress(OSError):
            if stat.S_ISREG(left.lstat().st_mode) and _age_seconds(left) > _KEEP_SECONDS:
                left.unlink()
    for folder in base.glob("attempt-*"):
        try:
            if _is_own_folder(folder) and not _owner_lives(folder):
                _remove_secrets(folder)
        except OSError as error:
            _log.warning("What an earlier attempt left in %s is not removed: %s", folder, error)


def _is_own_folder(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def _remove_secrets(folder: Path) -> None:
    # Removing a file makes the folder young again.
    age = _age_seconds(folder)
    # A driver that outlived its task has read its settings long ago, but may still leave its report here.
    (folder / _SETTINGS).unlink(missing_ok=True)
    if age > _KEEP_SECONDS:
        shutil.rmtree(folder, ignore_errors=True)


def _owner_lives(folder: Path) -> bool:
    try:
        written = read_own_file(folder / _OWNER, 1024)
    except FileNotFoundError:
        written = b""
    if written == b"":
        # Being made right now, or broken: young ones are left to their owner.
        return _age_seconds(folder) < _MAKING_SECONDS
    process, _, host = (written or b"?").decode("utf-8", "replace").partition(" ")
    if host not in ("", socket.gethostname()) or not _PROCESS.fullmatch(process):
        # Whether a process of another machine lives cannot be seen from here, nor what a broken text stood for.
        return _age_seconds(folder) < _KEEP_SECONDS
    return _is_running(int(process))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _age_seconds(folder: Path) -> float:
    try:
        return time.time() - folder.lstat().st_mtime
    except FileNotFoundError:
        # Another task's sweep, or its own end, took it away just now.
        return 0.0


PACKAGE = Path(__file__).resolve().parents[1]
APPLICATION = PACKAGE / "spark_jobs" / "run_job.py"
_SHIPPED = ("contracts", "iceberg", "spark_jobs")
# A fixed time in every entry: equal code gives an equal archive on every worker.
_ENTRY_TIME = (2020, 1, 1, 0, 0, 0)
# The newest format is shorter, but depends on what else the process has in memory. Python 3.14 has constants that the
# older one lacks.
_EQUAL_EVERYWHERE = 2 if sys.version_info < (3, 14) else marshal.version
# Of the digest at the end of the archive.
_DIGEST_SIGNS = 64
_MOST_BYTES = 64 << 20


def job_archive(folder: Path) -> Path:
    """Write the archive into ``folder`` unless it is there and whole, and return its path.

    It has the bytecode of each file for this worker's Python, which a driver would otherwise compile anew at each
    start. Another Python takes the source.

    :param folder: where archives of this worker are kept, see ``private_folder``.
    :return: ``airflow_lake_provider-<12 hex of the code, of Python's bytecode and of this module>.zip``.
    :raises OSError: it cannot be written.
    """
    sources = {str(path.relative_to(PACKAGE.parent)): path.read_bytes() for path in _sources()}
    archive = folder / f"{PACKAGE.name}-{_digest_of(sources)[:12]}.zip"
    if not _is_whole(archive):
        _log.info("Writing the code of jobs to %s, once for each version", archive)
        _write(archive, _content(sources))
    return archive


def _digest_of(sources: Mapping[str, bytes]) -> str:
    # Made in another way, an archive of equal code is another one.
    digest = hashlib.sha256(MAGIC_NUMBER + Path(__file__).read_bytes())
    for name, source in sources.items():
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()


def _content(sources: Mapping[str, bytes]) -> bytes:
    bundled = io.BytesIO()
    with zipfile.ZipFile(bundled, "w") as bundle:
        for name, source in sources.items():
            bundle.writestr(zipfile.ZipInfo(name, _ENTRY_TIME), source)
            bundle.writestr(zipfile.ZipInfo(f"{name}c", _ENTRY_TIME), _bytecode(name, source))
        bundle.comment = bytes(_DIGEST_SIGNS)
    content = bundled.getvalue()[:-_DIGEST_SIGNS]
    return content + hashlib.sha256(content).hexdigest().encode()


def _bytecode(name: str, source: bytes) -> bytes:
    """Return a ``.pyc`` file that Python takes without a look at the source, as of PEP 552."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    is_unchecked = (1).to_bytes(4, "little")
    return MAGIC_NUMBER + is_unchecked + source_hash(source) + marshal.dumps(code, _EQUAL_EVERYWHERE)


def _sources() -> list[Path]:
    shipped = [path for name in _SHIPPED for path in (PACKAGE / name).rglob("*.py")]
    return sorted([PACKAGE / "__init__.py", *shipped])


def _is_whole(archive: Path) -> bool:
    """Tell whether an archive is as it was written: drivers run it, so a name alone says nothing."""
    try:
        content = read_own_file(archive, _MOST_BYTES)
    except FileNotFoundError:
        return False
    if content is None:
        return False
    return hashlib.sha256(content[:-_DIGEST_SIGNS]).hexdigest().encode() == content[-_DIGEST_SIGNS:]


def _write(archive: Path, content: bytes) -> None:
    # Tasks of one worker start together: each writes its own file and the rename of the last one wins.
    unfinished = archive.with_suffix(f".{secrets.token_hex(8)}{_UNFINISHED}")
    try:
        write_private(unfinished, content)
        unfinished.replace(archive)
    except BaseException:
        # A full disk would be fuller with each try.
        unfinished.unlink(missing_ok=True)
        raise
