"""Eyes on command lines, Spark's pages and settings files while jobs run."""

from __future__ import annotations

import json
import secrets
import stat
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.end_to_end.airflow_command import processes


def new_mark() -> str:
    """Return what the secrets of one test have in them, and those of a test that runs beside it have not."""
    return f"hush-{secrets.token_hex(6)}-"


class SecretWatch:
    """Looks at every process, Spark's environment page and the settings file while jobs run.

    :param mark: of this test's secrets, from ``new_mark``.
    :param jobs: folder of the jobs' files.
    :param applications: gives the addresses of the REST APIs of Spark applications that run now, see ``pages_at``.
    """

    def __init__(self, mark: str, jobs: Path, applications: Callable[[], Sequence[str]]) -> None:
        self.mark, self.jobs, self._applications = mark, jobs, applications
        self.command_lines: list[str] = []
        self.environments: set[str] = set()
        self.modes: set[int] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(30)

    def _look(self) -> None:
        while not self._stopped.is_set():
            self.command_lines += processes(self.mark).values()
            for file in self.jobs.glob("*/spark.properties"):
                # It goes with its task.
                with suppress(FileNotFoundError):
                    self.modes.add(stat.S_IMODE(file.stat().st_mode))
            self._read_environment()
            time.sleep(0.5)

    def _read_environment(self) -> None:
        # Applications end while they are looked at.
        with suppress(OSError, IndexError, ValueError):
            for application in self._applications():
                with urllib.request.urlopen(f"{application}/environment", timeout=5) as answer:
                    self.environments.add(answer.read().decode())


def pages_at(ui_port: int) -> list[str]:
    """Return the address of the REST API of the application whose driver shows its pages at a port of this machine."""
    base = f"http://127.0.0.1:{ui_port}/api/v1/applications"
    with urllib.request.urlopen(base, timeout=5) as answer:
        return [f"{base}/{json.load(answer)[0]['id']}"]


def assert_no_secret_was_seen(watch: SecretWatch, output: str, events: Path, folders: Sequence[Path]) -> None:
    """Look through all that the jobs showed and left.

    :param output: of Airflow.
    :param events: folder of Spark's event logs, which are plain text.
    :param folders: other folders that were written to.
    """
    assert watch.mark not in output
    assert watch.command_lines == []
    assert watch.modes == {0o600}
    assert any("spark.sql.catalog.lake_default" in page for page in watch.environments)
    assert not any(watch.mark in page for page in watch.environments)
    assert list(watch.jobs.glob("attempt-*")) == [], "the settings outlived the task"
    logs = [file for file in events.rglob("*") if file.is_file()]
    assert any(b"spark.sql.catalog.lake_default" in file.read_bytes() for file in logs), f"no plain log among {logs}"
    written = [*logs, *(file for folder in folders for file in folder.rglob("*") if file.is_file())]
    # The database of Airflow holds XCom and rendered templates; the connection itself is in the environment only.
    assert [file for file in written if watch.mark.encode() in file.read_bytes()] == []
