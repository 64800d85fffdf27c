"""Airflow's command line in a process of its own, as a user runs it."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DAGS = Path(__file__).parent / "dags"


def dag_run(dag: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a DAG of ``DAGS``; no file but its own is parsed."""
    return ("dags", "test", dag, *arguments, "--dagfile-path", str(DAGS / f"{dag}.py"))


@dataclass
class AirflowCommand:
    """A running ``airflow ...`` whose output is kept.

    :param environment: complete environment of the process.
    """

    environment: Mapping[str, str]
    arguments: tuple[str, ...]
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            ["airflow", *self.arguments],
            env=dict(self.environment),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.append(line)

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def wait_for(self, text: str, seconds: float = 900) -> None:
        """Wait until the output has a text."""
        deadline = time.monotonic() + seconds
        while text not in self.output:
            assert self.process.poll() is None, f"ended before it said {text!r}:\n{self.output[-5000:]}"
            assert time.monotonic() < deadline, f"did not say {text!r}:\n{self.output[-5000:]}"
            time.sleep(0.1)

    def wait(self, seconds: float = 1800, *, may_tasks_fail: bool = False) -> str:
        """Wait for the end and return the output; a failed command is a failed test, and a failed task is one, too.

        :param may_tasks_fail: the test expects tasks that fail in a run that does not.
        """
        self.process.wait(seconds)
        self._reader.join(30)
        assert self.process.returncode == 0, self.output[-8000:]
        assert may_tasks_fail or "state=failed" not in self.output, self.output[-8000:]
        return self.output


def processes(text: str) -> dict[int, str]:
    """Command lines of all processes that hold a text, by process id."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in command:
            found[int(folder.name)] = command
    return found
