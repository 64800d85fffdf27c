"""A MariaDB server on loopback, in a folder of its own."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.end_to_end.kafka_broker import jars_of

_DRIVER = "org.mariadb.jdbc:mariadb-java-client:3.5.6"
_SECONDS = 60
_SBIN = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"


@dataclass(frozen=True)
class MariaDbServer:
    """A running server, with an empty database ``shop``."""

    port: int
    user: str
    password: str

    def run(self, statements: str) -> list[tuple[str, ...]]:
        """Run statements of SQL by the server's own client, and return the rows of queries as text."""
        command = [
            _program("mariadb"),
            "--no-defaults",
            "--host=127.0.0.1",
            f"--port={self.port}",
            f"--user={self.user}",
        ]
        command += ["--skip-column-names", "--batch", f"--execute={statements}", "shop"]
        # Here, and not in the command, which others see.
        env = {**os.environ, "MYSQL_PWD": self.password}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]


def driver_jars() -> list[Path]:
    """Bring the driver of JDBC that a job needs."""
    return jars_of(Path(__file__).with_name("mariadb_driver.lock"), "mariadb-driver", _DRIVER)


def is_installed() -> bool:
    """Tell whether a server can be started here."""
    return all(map(_place, ("mariadbd", "mariadb-install-db", "mariadb")))


def _place(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_SBIN)


def _program(name: str) -> str:
    place = _place(name)
    if place is None:
        pytest.skip(f"no {name} on PATH; install it: apt-get install mariadb-server-core mariadb-client-core")
    return place


@contextmanager
def mariadb_server() -> Iterator[MariaDbServer]:
    """Serve on a free port of loopback."""
    server, install = _program("mariadbd"), _program("mariadb-install-db")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = MariaDbServer(port, "lake", f"p@ss/{secrets.token_hex(8)}:%")
    with TemporaryDirectory(prefix="lake-mariadb-") as name:
        folder = Path(name)
        own = ["--no-defaults", f"--user={getpass.getuser()}", f"--datadir={folder / 'data'}"]
        first = [install, *own, "--auth-root-authentication-method=normal", "--skip-test-db"]
        done = subprocess.run(first, capture_output=True, text=True, timeout=_SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        # Here, and not by a client, so that no command line has the password.
        start = folder / "start.sql"
        start.touch(0o600)
        start.write_text(
            "CREATE DATABASE shop;\n"
            f"CREATE USER {made.user}@'127.0.0.1' IDENTIFIED BY '{made.password}';\n"
            f"GRANT ALL ON *.* TO {made.user}@'127.0.0.1' WITH GRANT OPTION;\n"
        )
        options = [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder / 'socket'}"]
        options += [f"--init-file={start}", "--innodb-flush-log-at-trx-commit=0", "--default-time-zone=+09:00"]
        with (folder / "log").open("w") as log:
            running = subprocess.Popen([server, *own, *options], stdout=log, stderr=log)
        try:
            _wait_for(port, running, folder / "log")
            yield made
        finally:
            running.kill()
            running.wait(_SECONDS)


def _wait_for(port: int, running: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until and running.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(log.read_text())
