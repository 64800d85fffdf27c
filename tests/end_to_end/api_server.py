"""Airflow's api-server alone, under a path, with users that log in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from tests.end_to_end.airflow_command import AirflowCommand
from tests.end_to_end.standalone_airflow import wait_for

# Each user's password is the name.
USERS = ("admin", "viewer")


class ApiServer:
    """A running api-server.

    :param url: of ``[api] base_url``.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def token(self, user: str) -> str:
        """Log a user in, and return the token."""
        answer = httpx.post(f"{self.url}/auth/token", json={"username": user, "password": user}, timeout=60)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["access_token"])

    def get(self, path: str, user: str | None = None) -> httpx.Response:
        """Return the answer to a GET of a user with a session, or of nobody."""
        cookies = {"_token": self.token(user)} if user else {}
        with httpx.Client(cookies=cookies, timeout=60, follow_redirects=False) as client:
            return client.get(f"{self.url}{path}")


@contextmanager
def api_server(environment: Mapping[str, str], home: Path, port: int, path: str = "") -> Iterator[ApiServer]:
    """Start an api-server with a database that is migrated, and end it at the end.

    :param environment: of Airflow's commands.
    :param home: folder for passwords.
    :param port: free port of loopback.
    :param path: of ``[api] base_url``.
    """
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps({user: user for user in USERS}))
    url = f"http://127.0.0.1:{port}{path}"
    settings = {
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{user}" for user in USERS),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__CORE__AUTH_MANAGER": "tests.end_to_end.one_dag_auth_manager.OneDagAuthManager",
    }
    command = AirflowCommand({**environment, **settings}, ("api-server",))

    def is_up() -> bool | None:
        assert command.process.poll() is None, f"airflow api-server ended:\n{command.output[-4000:]}"
        try:
            return httpx.get(f"{url}/api/v2/version", timeout=10).status_code == 200 or None
        except httpx.TransportError:
            return None

    try:
        wait_for("the api-server", is_up, lambda: command.output[-4000:])
        yield ApiServer(url)
    finally:
        processes = psutil.Process(command.process.pid).children(recursive=True)
        command.process.terminate()
        _, alive = psutil.wait_procs(processes, timeout=10)
        for process in alive:
            process.kill()
        command.process.wait(30)
