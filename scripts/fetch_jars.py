"""Bring the jars of a lock (``jars.lock``) into one folder, once, and check their SHA-256.

Standard library only: the images run it with whatever Python they have. Spark's own resolver does the download, so a
mirror that is set for Spark (``DEFAULT_ARTIFACT_REPOSITORY``, or ``LAKE_IVY_SETTINGS`` for a settings file) is used.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LOCK = Path(__file__).parent / "jars.lock"
# What the jars name as dependencies but nothing uses, unless a lock has it.
NOT_NEEDED = (
    "org.slf4j:slf4j-api",
    "org.checkerframework:checker-qual",
    # Of what reads Kafka; Spark has them.
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
)
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Jar:
    """One line of the lock.

    :param coordinate: ``group:artifact:version``.
    :param sha256: hexadecimal.
    """

    coordinate: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Name of the jar in a Maven repository."""
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"

    @property
    def ivy_name(self) -> str:
        """Name under which Spark's resolver leaves the jar."""
        return f"{self.coordinate.split(':')[0]}_{self.file_name}"

    def is_in(self, folder: Path) -> bool:
        """Tell whether the folder has this jar, byte for byte."""
        path = folder / self.file_name
        return path.is_file() and sha256_of(path) == self.sha256


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_lock(lock: Path = LOCK) -> list[Jar]:
    """Return the jars of a lock, in its order."""
    lines = (line.split() for line in lock.read_text().splitlines() if line.strip() and not line.startswith("#"))
    return [Jar(coordinate, sha256) for coordinate, sha256 in lines]


def fetch_missing(jars: list[Jar], folder: Path, roots: Sequence[str] = ()) -> None:
    """Download those of ``jars`` that a folder lacks.

    :param roots: as of :func:`fetch`.
    :raises SystemExit: as :func:`fetch`.
    """
    missing = [jar for jar in jars if not jar.is_in(folder)]
    if not missing:
        return
    print(f"Fetching {', '.join(jar.file_name for jar in missing)} into {folder}", flush=True)
    fetch(missing, folder, roots)
    print("Jars fetched, SHA-256 as in the lock", flush=True)


def fetch(jars: list[Jar], folder: Path, roots: Sequence[str] = ()) -> None:
    """Download ``jars`` and put them into ``folder`` under their plain names.

    :param roots: coordinates that need all the jars; without them each jar is asked for by itself.
    :raises SystemExit: the download failed, or a jar is not the one of the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lake-jars-", dir=folder.parent) as scratch:
        resolve(jars, Path(scratch), roots)
        for jar in jars:
            place(jar, Path(scratch) / "ivy" / "jars" / jar.ivy_name, folder)


def place(jar: Jar, fetched: Path, folder: Path) -> None:
    """Check a fetched jar and move it into the folder, whole or not at all."""
    digest = sha256_of(fetched)
    if digest != jar.sha256:
        sys.exit(f"{jar.coordinate}: SHA-256 is {digest}, the lock says {jar.sha256}; the jar was not kept.")
    shutil.move(fetched, folder / jar.file_name)


def resolve(jars: list[Jar], scratch: Path, roots: Sequence[str] = ()) -> None:
    """Let spark-submit resolve ``jars`` below ``scratch``, showing how much has arrived."""
    log = scratch / "resolve.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            resolve_command(jars, scratch, roots), env=resolve_environment(scratch), stdout=output, stderr=output
        )
        show_progress(process, scratch)
    if process.returncode:
        tail = "\n".join(log.read_text().splitlines()[-25:])
        sys.exit(
            f"{tail}\nThe jars could not be fetched (spark-submit exited with {process.returncode}, its last lines are "
            "above). Behind a mirror set DEFAULT_ARTIFACT_REPOSITORY to its address, or put the jars "
            "into a folder yourself and set LAKE_JARS to it: " + ", ".join(jar.coordinate for jar in jars)
        )


def resolve_command(jars: list[Jar], scratch: Path, roots: Sequence[str] = ()) -> list[str]:
    """Return the spark-submit command; its application is empty, because the packages are resolved before it."""
    application = scratch / "nothing.py"
    application.write_text("")
    settings = os.environ.get("LAKE_IVY_SETTINGS")
    wanted = [jar.coordinate for jar in jars]
    left_out = [name for name in NOT_NEEDED if not any(coordinate.startswith(f"{name}:") for coordinate in wanted)]
    return [
        os.environ.get("SPARK_SUBMIT", "spark-submit"),
        *("--master", "local[1]"),
        *("--packages", ",".join(roots or wanted)),
        *(("--exclude-packages", ",".join(left_out)) if left_out else ()),
        *("--conf", f"spark.jars.ivy={scratch / 'ivy'}"),
        *(("--conf", f"spark.jars.ivySettings={settings}") if settings else ()),
        str(application),
    ]


def resolve_environment(scratch: Path) -> dict[str, str]:
    """Return the environment of spark-submit."""
    # A local Maven repository that holds POMs without their jars makes the resolver fail: it is not shown one.
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Duser.home={scratch}".strip()
    return {**os.environ, "SPARK_SUBMIT_OPTS": options}


def show_progress(process: subprocess.Popen[bytes], scratch: Path) -> None:
    """Print the megabytes that have arrived: in place on a terminal, else a line every five seconds."""
    terminal = sys.stdout.isatty()
    started = time.monotonic()
    while process.poll() is None:
        time.sleep(0.5 if terminal else 5)
        line = f"  {arrived(scratch) / MEGABYTE:5.1f} MB after {time.monotonic() - started:3.0f} s"
        print(f"\r{line}" if terminal else line, end="" if terminal else "\n", flush=True)
    if terminal:
        print()


def arrived(scratch: Path) -> int:
    """Return the bytes of all jars below a folder, finished or not; a file that moves meanwhile counts as nothing."""
    total = 0
    for path in scratch.glob("ivy/cache/**/*.jar*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def main() -> None:
    """Fetch what the folder lacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the jars go")
    parser.add_argument("--lock", type=Path, nargs="+", default=[LOCK], help="default: jars.lock beside this file")
    parser.add_argument("--resolve", nargs="+", default=[], help="coordinates that need all jars of the lock")
    arguments = parser.parse_args()
    jars = [jar for lock in arguments.lock for jar in read_lock(lock)]
    fetch_missing(jars, arguments.folder.resolve(), arguments.resolve)


if __name__ == "__main__":
    main()
