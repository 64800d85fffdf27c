"""A real Spark driver in a process group of its own, which carries out one spec after another."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.reports.report_codec import JobFailure, reports_from_plain
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.spec_codec import Job, job_to_json
from tests.soak.lake import Lake
from tests.spark.conftest import REPOSITORY, lake_jars

# Far more than any of these jobs takes on a slow machine: a driver that hangs ends the soak.
_LONGEST_JOB = 300.0


class DriverDiedError(Exception):
    """A driver ended, or hung, without an answer."""


class Driver:
    """One driver of ``local[1]``; its session starts while the caller goes on.

    :param lake: catalog that its session has.
    :param name: of its log, below the lake's home.
    :param serve: ``module:function`` that the process runs.
    :param environment: added to this process's.
    """

    def __init__(self, lake: Lake, name: str, serve: str = "tests.soak.served_specs:serve", **environment: str) -> None:
        self.log = lake.home / f"{name}.log"
        self._specs = lake.home / "specs"
        self._specs.mkdir(exist_ok=True)
        module, _, function = serve.partition(":")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", f"from {module} import {function}; {function}()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                cwd=REPOSITORY,
                env={**session_environment(lake), **environment},
                # The JVM is its child: one signal to the group kills both.
                start_new_session=True,
            )

    def start(self, request: JobSpec | Job | str) -> None:
        """Send a spec, a job of several, or a SQL text, without waiting for the answer."""
        if isinstance(request, str):
            line = {"sql": request}
        else:
            file = self._specs / f"{uuid.uuid4().hex}.json"
            file.write_text(job_to_json(request if isinstance(request, Job) else Job({"task": request})))
            line = {"spec": str(file)}
        assert self.process.stdin
        self.process.stdin.write(json.dumps(line) + "\n")

    def answer(self) -> JobReport | JobFailure:
        """Wait for the answer to a spec.

        :raises DriverDiedError: there will be none.
        """
        (report,) = self.answers().values()
        return report

    def answers(self) -> dict[str, JobReport | JobFailure]:
        """Wait for the answer to a job, and return its reports by task.

        :raises DriverDiedError: there will be none.
        """
        return reports_from_plain(self._line())

    def run(self, spec: JobSpec) -> JobReport | JobFailure:
        """Send a spec and wait for its answer."""
        self.start(spec)
        return self.answer()

    def sql(self, statement: str) -> None:
        """Run a SQL text to its end."""
        self.start(statement)
        failure = self._line().get("failure")
        assert failure is None, f"{statement}: {failure}"

    def said(self, pattern: str) -> int:
        """Count the matches of a regular expression in its log."""
        return len(re.findall(pattern, self.log.read_text(errors="replace")))

    @property
    def has_answered(self) -> bool:
        """True when the answer to what was sent can be read, or the process has ended."""
        assert self.process.stdout
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def kill(self) -> None:
        """Kill the process and its JVM."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Stopping a session properly takes a second, and nothing of it is needed any more.
        self.kill()

    def _line(self) -> dict[str, Any]:
        pipe = self.process.stdout
        assert pipe
        # Nothing is left in the buffer of the pipe: each request has one line for an answer.
        ready, _, _ = select.select([pipe], [], [], _LONGEST_JOB)
        line = pipe.readline() if ready else ""
        if not line:
            tail = self.log.read_text(errors="replace")[-4000:]
            state = f"ended with {self.process.poll()}" if ready else f"has not answered for {_LONGEST_JOB:.0f} s"
            raise DriverDiedError(f"{self.log.stem} {state}:\n{tail}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def session_environment(lake: Lake) -> dict[str, str]:
    jars = "".join(f"{Path(jar).resolve()}:" for jar in lake_jars().split(","))
    # Jars on the class path are not copied by each driver, as those of spark.jars are.
    return {
        "SPARK_DIST_CLASSPATH": jars,
        "SPARK_LOCAL_IP": "127.0.0.1",
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--master local[1] --driver-memory 1500m --properties-file {lake.properties} "
        "pyspark-shell",
    }
