"""A PostgreSQL server on loopback, in a folder of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

_DEBIAN_FOLDERS = "/usr/lib/postgresql"


@dataclass(frozen=True)
class PostgresqlServer:
    """A running server.

    :param control: of ``pg_ctl``, without what it is to do.
    """

    port: int
    user: str
    password: str
    folder: Path
    control: tuple[str, ...]
    options: str

    def stop(self) -> None:
        """End it, and every connection with it."""
        _as_postgres([*self.control, "-m", "immediate", "stop"], self.folder)

    def start(self) -> None:
        """Serve on the same port."""
        _as_postgres([*self.control, "-l", str(self.folder / "log"), "-o", self.options, "start"], self.folder)


def _binaries() -> Path:
    found = sorted(Path(_DEBIAN_FOLDERS).glob("*/bin/initdb")) + [Path(p) for p in [shutil.which("initdb")] if p]
    if not found:
        pytest.skip(f"no PostgreSQL server under {_DEBIAN_FOLDERS} or on PATH; install it: apt-get install postgresql")
    return found[-1].parent


def _as_postgres(command: list[str], folder: Path) -> None:
    # The server refuses to run as root; Debian's package brings the user.
    program = shutil.which("runuser", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])) or "runuser"
    runuser = [program, "-u", "postgres", "--"] if os.geteuid() == 0 else []
    done = subprocess.run([*runuser, *command], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}"


@contextmanager
def postgresql_server(password: str | None = None) -> Iterator[PostgresqlServer]:
    """Serve an empty database ``postgres`` on loopback.

    :param password: of the user; by default one with characters that a URI must escape.
    """
    # Whatever fails, the folder goes.
    with TemporaryDirectory(prefix="lake-postgresql-") as folder:
        yield from _served(Path(folder), password)


def _served(folder: Path, password: str | None) -> Iterator[PostgresqlServer]:
    binaries = _binaries()
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Hex keeps it quotable in a file.
    password = password or f"p@ss/{secrets.token_hex(8)}:%"
    password_file = folder / "password"
    password_file.write_text(password)
    data = folder / "data"
    _as_postgres(
        [f"{binaries}/initdb", "-D", str(data), "-U", "lake", "-A", "scram-sha-256", f"--pwfile={password_file}", "-N"],
        folder,
    )
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories='' -c fsync=off"
    control = (f"{binaries}/pg_ctl", "-D", str(data), "-w")
    server = PostgresqlServer(port, "lake", password, folder, control, options)
    server.start()
    try:
        yield server
    finally:
        server.stop()
