"""Archive of the classes of Spark and the catalog, which a driver's JVM maps into memory (class data sharing, CDS).

A driver loads and checks some 20,000 classes, at each start. The JVM writes the archive when a first driver ends, and
rejects one of another Java, or of another class path. It is code: a folder that others may write to is refused.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_lake_provider.submission.private_folder import is_private, private_folder, read_own_file, write_private
from airflow_lake_provider.submission.spark_installation import settings_folder

_PREFIX = "spark-classes-"
# A driver that ends later, or never, leaves the archive to the next one.
_MAKING_SECONDS = 3600
_UNUSED_SECONDS = 30 * 24 * 3600
_WITHOUT_WARNINGS = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
ARCHIVE_AT_EXIT = "ArchiveClassesAtExit"
_OF_JAVA = ("SharedArchiveFile", ARCHIVE_AT_EXIT)


@dataclass(frozen=True, kw_only=True)
class ClassArchive:
    """Archive for one Java and one class path.

    :param folder: of archives, see :func:`archive_folder`.
    :param digest: of all that makes its content.
    :param class_path: beginning of the driver's class path; empty for that of ``spark-submit``.
    """

    folder: Path
    digest: str
    class_path: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, folder: Path, java: Path, spark_home: Path, jars: Sequence[Path], environment: Mapping[str, str]
    ) -> ClassArchive:
        """Name the archive by everything that makes its content.

        :param java: the ``java`` that drivers run with.
        :param jars: of the table format and the catalog, that go on the class path after Spark's own.
        :param environment: of ``spark-submit``.
        """
        of_spark = spark_home / "jars"
        conf = settings_folder(spark_home, environment)
        # An archive has no class from behind a folder on the class path, and ``spark-submit`` begins it with this one.
        moved = bool(jars) or (conf.is_dir() and any(conf.iterdir()))
        class_path = (f"{of_spark}/*", *map(str, jars)) if moved else ()
        home = java.resolve().parents[1]
        parts = [
            *(_identity(path) for path in (java.resolve(), home / "lib" / "server" / "libjvm.so", home / "release")),
            *(_identity(jar) for jar in sorted(of_spark.glob("*.jar"))),
            *(_identity(jar) for jar in jars),
            environment.get("SPARK_SUBMIT_OPTS", ""),
        ]
        digest = hashlib.sha256("\n".join([*class_path, *parts]).encode()).hexdigest()[:16]
        return cls(folder=folder, digest=digest, class_path=class_path)

    @property
    def file(self) -> Path | None:
        """Path of the archive; None where there is none that is whole and of this user alone."""
        for path in self._files():
            # A JVM dies of an archive that is cut off.
            size = path.lstat().st_size
            if size and path.stem.endswith(f"-{size}") and is_private(path) and path.is_file():
                return path
        return None

    def options(self, attempt: str) -> str:
        """Return the JVM's options: to use the archive, to make it, or none where another driver makes it now.

        :param attempt: text of letters and digits that no other attempt has.
        """
        self._remove_leftovers()
        file = self.file
        if file is not None:
            # Its age is that of its last use.
            os.utime(file)
            return f"-XX:SharedArchiveFile={file} -Xshare:auto {_WITHOUT_WARNINGS}"
        if self._files() or not self._take_turn(attempt):
            return ""
        return f"-XX:{ARCHIVE_AT_EXIT}={self._unfinished(attempt)} {_WITHOUT_WARNINGS}"

    def accept(self, attempt: str, *, is_whole: bool) -> None:
        """Put the archive of a driver that has ended in its place.

        An empty one says that this Java makes none, so that drivers do not try each time.

        :param attempt: that of :meth:`options`.
        :param is_whole: whether the JVM ended well, which it does after it has written the archive.
        """
        if not self._has_turn(attempt):
            return
        made = self._unfinished(attempt)
        if not is_whole or not made.exists():
            made.unlink(missing_ok=True)
            write_private(made, b"")
        made.replace(self.folder / f"{_PREFIX}{self.digest}-{made.stat().st_size}.jsa")
        self._remove_unused()

    def release(self, attempt: str) -> None:
        """Give up the turn of an attempt, and remove what it left; the next driver may try."""
        if self._has_turn(attempt):
            self._turn.unlink(missing_ok=True)
        self._unfinished(attempt).unlink(missing_ok=True)

    @property
    def _turn(self) -> Path:
        return self.folder / f"{_PREFIX}{self.digest}.turn"

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob(f"{_PREFIX}{self.digest}-*.jsa"))

    def _unfinished(self, attempt: str) -> Path:
        return self.folder / f"{_PREFIX}{self.digest}.{attempt}.new"

    def _take_turn(self, attempt: str) -> bool:
        """Let one driver make the archive; writing it takes seconds of all the cores."""
        try:
            self._turn.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            return False
        write_private(self._turn, attempt.encode())
        return True

    def _has_turn(self, attempt: str) -> bool:
        try:
            return read_own_file(self._turn, 1024) == attempt.encode()
        except FileNotFoundError:
            return False

    def _remove_leftovers(self) -> None:
        """Remove what killed attempts have left of any Java: their turns, and archives that are not finished."""
        for pattern in ("*.turn", "*.new"):
            for path in self.folder.glob(f"{_PREFIX}{pattern}"):
                if _age(path) > _MAKING_SECONDS:
                    path.unlink(missing_ok=True)

    def _remove_unused(self) -> None:
        for path in self.folder.glob(f"{_PREFIX}*"):
            if not path.name.startswith(f"{_PREFIX}{self.digest}") and _age(path) > _UNUSED_SECONDS:
                path.unlink(missing_ok=True)


def archive_folder(setting: str) -> Path | None:
    """Return the folder of archives, made where it is missing; None where the setting says ``off``.

    :raises OSError: it cannot be made.
    :raises ValueError: other users may write to it, or its name has what the JVM's options cannot.
    """
    if setting.strip() in ("", "off"):
        return None
    folder = _fit_for_options(Path(setting.strip()).expanduser())
    # A link may lead to another name.
    folder = _fit_for_options(private_folder(folder))
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{folder} cannot be written to")
    return folder


def _fit_for_options(folder: Path) -> Path:
    if not folder.is_absolute() or any(sign.isspace() or sign in "\"'\\,:" for sign in str(folder)):
        raise ValueError(f"{folder} has to be an absolute path without spaces, quotes, commas and colons")
    return folder


def driver_java(environment: Mapping[str, str]) -> Path | None:
    """Return the ``java`` that ``spark-submit`` takes; None where there is none."""
    home = environment.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))
    return Path(java) if java and Path(java).exists() else None


def has_own_archive(options: Iterable[str]) -> bool:
    """Return whether a deployment names an archive of its own."""
    return any(name in text for text in options for name in _OF_JAVA)


def _identity(path: Path) -> str:
    if not path.exists():
        return f"{path} is missing"
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
