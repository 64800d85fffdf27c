"""A whole Airflow, `airflow standalone`, that listens on loopback only, and its REST API."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil

from tests.end_to_end.airflow_command import AirflowCommand

T = TypeVar("T")

# A machine with few cores, busy with other things, is slow but not broken.
WAIT_SECONDS = 900
_MOST_LOCKS = 30
_COMPONENTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")

# No setting keeps the log servers of scheduler and triggerer from listening on all interfaces, and standalone passes no
# arguments on; it looks its parts up as `airflow` on PATH, though, where this one comes first.
_LAUNCHER = """#!/bin/sh
case "$1" in scheduler | triggerer) set -- "$@" --skip-serve-logs ;; esac
exec "{airflow}" "$@"
"""


class StandaloneAirflow:
    """A running ``airflow standalone`` with a home of its own and every user an administrator.

    ``listened_on`` has the addresses that any of its processes was seen to listen on.

    :param environment: complete environment of a command of Airflow; home, ports and limits are set here.
    :param home: empty folder.
    :param port: free port of the API server.
    """

    def __init__(self, environment: Mapping[str, str], home: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.home = home
        self.listened_on: set[str] = set()
        self._known_sockets: set[str] = set()
        home.mkdir(parents=True)
        self._command = AirflowCommand(_environment(environment, home, self.url, port), ("standalone",))
        self._api = httpx.Client(base_url=f"{self.url}/api/v2", timeout=120)

    def wait_until_healthy(self) -> None:
        """Wait until all four parts say that they are well."""
        wait_for("a healthy Airflow", lambda: self._is_healthy() or None, self.output)

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        """Return what the REST API answers to a GET; any failure fails the test."""
        answer = self._api.get(path, params=parameters)
        for _ in range(_MOST_LOCKS):
            if answer.status_code != 500 or "Database error" not in answer.text:
                break
            # Airflow's SQLite is locked for longer than it waits, on a machine that is busy.
            time.sleep(1)
            answer = self._api.get(path, params=parameters)
        assert answer.status_code == 200, f"GET {path}: {answer.status_code} {answer.text}"
        found: dict[str, Any] = answer.json()
        return found

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """Send JSON and return the answer, whatever its status."""
        return self._api.request(method, path, json=dict(body))

    def unpause(self, dag_id: str) -> None:
        """Let a DAG run."""
        self._set_paused(dag_id, is_paused=False)

    def pause(self, dag_id: str) -> None:
        """Let no new run of a DAG begin."""
        self._set_paused(dag_id, is_paused=True)

    def parse_again(self, dag_id: str) -> None:
        """Let the file of a DAG be parsed now, and not when it is due."""
        token = self.get(f"/dags/{dag_id}")["file_token"]
        answer = self.send("PUT", f"/parseDagFile/{token}", {})
        assert answer.status_code == 201, answer.text

    def trigger(self, dag_id: str, conf: Mapping[str, Any]) -> httpx.Response:
        """Start a run as the form does."""
        return self.send("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": dict(conf)})

    def clear(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear a task that has ended, which starts it again."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task_id], "only_failed": False}
        answer = self.send("POST", f"/dags/{dag_id}/clearTaskInstances", body)
        assert answer.status_code == 200, answer.text

    def backfill(self, dag_id: str, first: str, last: str, **more: Any) -> None:
        """Load days, as ``airflow backfill create`` does, and wait until all runs of the DAG are a success."""
        body = {"dag_id": dag_id, "from_date": f"{first}T00:00:00Z", "to_date": f"{last}T00:00:00Z", **more}

        def started() -> int | None:
            # With SQLite, Airflow answers 503 where the scheduler writes at the same moment.
            answer = self.send("POST", "/backfills", body)
            assert answer.status_code in (200, 503), answer.text
            return int(answer.json()["id"]) if answer.status_code == 200 else None

        number = wait_for("a backfill", started, self.output)
        wait_for("the end of a backfill", lambda: self.get(f"/backfills/{number}")["completed_at"], self.output)
        for run in self.runs(dag_id):
            self.wait_for_success(dag_id, run["dag_run_id"])

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Return the runs of a DAG, oldest first."""
        return list(self.get(f"/dags/{dag_id}/dagRuns", order_by="run_after")["dag_runs"])

    def wait_for_runs(self, dag_id: str, number: int) -> None:
        """Wait until a DAG has this many runs, all of which must be a success; more are a failure."""
        wait_for(f"run {number} of {dag_id}", lambda: len(self.runs(dag_id)) >= number or None, self.output)
        for run in self.runs(dag_id):
            self.wait_for_success(dag_id, run["dag_run_id"])
        assert len(self.runs(dag_id)) == number

    def wait_for_success(self, dag_id: str, run_id: str) -> None:
        """Wait for a run's end, which must be a success."""
        state = self.wait_for_end(dag_id, run_id)
        assert state == "success", f"{dag_id} {run_id} failed:\n{self.task_logs(dag_id, run_id)}"

    def wait_for_end(self, dag_id: str, run_id: str) -> str:
        """Wait for a run's end and return its state."""

        def ended() -> str | None:
            self.note_listeners()
            state: str = self.get(f"/dags/{dag_id}/dagRuns/{run_id}")["state"]
            return state if state in ("success", "failed") else None

        return wait_for(f"the end of {dag_id} {run_id}", ended, self.output)

    def wait_for_process_end(self, dag_id: str, task_id: str, run_id: str) -> None:
        """Wait until the scheduler has seen a process of a task end, whatever the task waits for."""
        task = f"TaskInstance Finished: dag_id={dag_id}, task_id={task_id}, run_id={run_id},"
        self._command.wait_for(task)

    def returned(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """Return what a task returned, or what it left in XCom under another key."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        value = self.get(path)["value"]
        return json.loads(value) if isinstance(value, str) else value

    def task_logs(self, dag_id: str, run_id: str) -> str:
        """Return the ends of the logs of a run's tasks."""
        folder = self.home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}"
        return "\n".join(f"{log}\n{log.read_text()[-6000:]}" for log in sorted(folder.rglob("*.log")))

    def output(self) -> str:
        """Return the end of what its parts printed."""
        return self._command.output[-6000:]

    def processes(self) -> list[psutil.Process]:
        """Return its processes and those of its tasks: all of one session, whatever their process group."""
        found = []
        for process in psutil.process_iter():
            with suppress(ProcessLookupError, psutil.NoSuchProcess):
                if os.getsid(process.pid) == self._command.process.pid:
                    found.append(process)
        return found

    def note_listeners(self) -> None:
        """Add the addresses on which any of its processes listens at this moment to ``listened_on``."""
        listening = listening_sockets()
        if listening <= self._known_sockets:
            # To look into each process took a twentieth of a core.
            return
        self._known_sockets |= listening
        for process in self.processes():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                sockets = process.net_connections("inet")
                self.listened_on |= {str(s.laddr[0]) for s in sockets if s.status == psutil.CONN_LISTEN}

    def stop(self) -> None:
        """Stop it as Ctrl-C does, and then whatever is left."""
        with suppress(ProcessLookupError):
            os.killpg(self._command.process.pid, signal.SIGINT)
        psutil.wait_procs(self.processes(), timeout=5)
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._command.process.wait()
        self._api.close()

    def _set_paused(self, dag_id: str, *, is_paused: bool) -> None:
        answer = self.send("PATCH", f"/dags/{dag_id}", {"is_paused": is_paused})
        assert answer.status_code == 200, answer.text

    def _is_healthy(self) -> bool:
        assert self._command.process.poll() is None, f"airflow standalone ended:\n{self.output()}"
        try:
            health = self.get("/monitor/health")
        except httpx.TransportError:
            return False
        return all((health.get(name) or {}).get("status") == "healthy" for name in _COMPONENTS)


def listening_sockets() -> set[str]:
    """Return what Linux says of each socket of TCP that listens, whosever it is."""
    lines = [line for table in ("tcp", "tcp6") for line in Path("/proc/net", table).read_text().splitlines()[1:]]
    # Address, state, and the number of the socket.
    parts = [line.split() for line in lines]
    return {f"{part[1]} {part[9]}" for part in parts if part[3] == "0A"}


def wait_for(what: str, look: Callable[[], T | None], explain: Callable[[], str]) -> T:
    """Look each second until there is something to see.

    :param explain: what to show when there never was.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while (seen := look()) is None:
        assert time.monotonic() < deadline, f"waited {WAIT_SECONDS} s for {what}:\n{explain()}"
        time.sleep(1)
    return seen


def _environment(environment: Mapping[str, str], home: Path, url: str, port: int) -> dict[str, str]:
    return {
        **environment,
        "PATH": os.pathsep.join([str(_launcher(environment, home)), environment["PATH"]]),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        # Tasks talk to the server at this address; the port alone would leave them with the default one.
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        # The defaults of half a minute and five seconds are for machines that do nothing else.
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
        "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "600",
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
    }


def _launcher(environment: Mapping[str, str], home: Path) -> Path:
    airflow = shutil.which("airflow", path=environment["PATH"])
    assert airflow is not None, f"no airflow on PATH {environment['PATH']}"
    folder = home / "bin"
    folder.mkdir()
    launcher = folder / "airflow"
    launcher.write_text(_LAUNCHER.format(airflow=airflow))
    launcher.chmod(0o755)
    return folder
