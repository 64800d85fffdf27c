"""Airflow commands run one after another in one process: each of its own would spend most of its time on imports.

Run as a script it is that process: standard input holds a JSON array per line, as ``["dags", "test", "ingest"]``, and
after a command's output follows a line of ``DONE`` and its exit code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

DONE = "airflow command done:"
# Of a failed command that many lines are told; all are in the log.
TAIL_LINES = 60


class AirflowProcess:
    """A running process that takes Airflow commands.

    :param environment: of the process.
    :param log: file that all output is added to.
    :param show: called with each line of output.
    """

    def __init__(self, environment: Mapping[str, str], log: Path, show: Callable[[str], None]) -> None:
        self._log = log
        self._show = show
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env=dict(environment),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, *arguments: str) -> None:
        """Run ``airflow`` with these arguments.

        :raises SystemExit: when it fails, or a task of its DAG run does, with the end of its output.
        """
        print(json.dumps(arguments), file=self._process.stdin, flush=True)
        line, lines = "", []
        with self._log.open("a", encoding="utf-8") as log:
            for line in self._process.stdout or ():
                log.write(line)
                if line.startswith(DONE):
                    break
                lines.append(line)
                self._show(line)
        if line.split() != [*DONE.split(), "0"] or any("state=failed" in each for each in lines):
            self._process.kill()
            tail = "".join(lines[-TAIL_LINES:])
            sys.exit(f"{tail}\nairflow {' '.join(arguments)} failed; the whole output is in {self._log}")

    def close(self) -> None:
        """End the process and wait for it."""
        self._process.communicate()


def take_commands() -> None:
    """Run what standard input says, until it ends."""
    from airflow.cli.cli_parser import get_parser

    parser = get_parser()
    for line in sys.stdin:
        try:
            arguments = parser.parse_args(json.loads(line))
            arguments.func(arguments)
            code = 0
        except SystemExit as ended:
            # As the interpreter does: any text is told, and counts as 1.
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            print(ended.code)
        # On a line of its own, however the command ended its last one.
        print(f"\n{DONE} {code}", flush=True)


if __name__ == "__main__":
    take_commands()
