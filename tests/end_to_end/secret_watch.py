"""Eyes on everything that a secret could be seen in while jobs run."""

from __future__ import annotations

import json
import stat
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.end_to_end.airflow_command import processes

# Every secret of these tests begins with it.
MARK = "hush-"


class SecretWatch:
    """Looks at every process, Spark's environment page and the settings file while jobs run.

    :param jobs: folder of the jobs' files.
    :param ui_port: port of Spark's pages.
    """

    def __init__(self, jobs: Path, ui_port: int) -> None:
        self.jobs, self.ui_port = jobs, ui_port
        self.command_lines: list[str] = []
        self.environment = ""
        self.modes: set[int] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        self._thread.join(30)

    def _look(self) -> None:
        while not self._stopped.is_set():
            self.command_lines += processes(MARK).values()
            self.modes |= {stat.S_IMODE(file.stat().st_mode) for file in self.jobs.glob("*/spark.properties")}
            self._read_environment()
            time.sleep(0.5)

    def _read_environment(self) -> None:
        base = f"http://127.0.0.1:{self.ui_port}/api/v1/applications"
        try:
            with urllib.request.urlopen(base, timeout=5) as answer:
                application = json.load(answer)[0]["id"]
            with urllib.request.urlopen(f"{base}/{application}/environment", timeout=5) as answer:
                self.environment = answer.read().decode()
        except (OSError, urllib.error.URLError, IndexError, ValueError):
            return
