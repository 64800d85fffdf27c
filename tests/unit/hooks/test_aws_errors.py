"""Errors of Glue's client, which a hook translates: AWS was not reached, was busy, or refused the keys."""

from __future__ import annotations

import importlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from airflow_lake_provider.contracts.errors import AccessDeniedError, CatalogUnavailableError, InvalidConnectionError

KEYS = {"AWS_ACCESS_KEY_ID": "some-key-id", "AWS_SECRET_ACCESS_KEY": "some-secret-key"}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take away the keys that this machine may have."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    # Airflow makes its home when it is imported; here that is never the user's own.
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys where both sides look for them."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


def look_at(port: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Look for a table in the Glue at a port of this machine."""
    extra = {
        "type": "glue",
        "warehouse": "s3://bucket/warehouse",
        "glue.region": "eu-west-1",
        "glue.endpoint": f"http://127.0.0.1:{port}",
        "pyiceberg": {"glue.max-retries": 1},
    }
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "iceberg", "extra": extra}))
    hook = importlib.import_module("airflow_lake_provider.hooks.lake_catalog").LakeCatalogHook()
    return hook.load_table("shop.orders")


@contextmanager
def answering(status: int, code: str) -> Iterator[int]:
    """Serve a Glue that answers each request with an error, and return its port."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps({"__type": code, "message": "because"}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Keep the output of tests short."""

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.usefixtures("keys")
def test_a_glue_that_nobody_serves_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # bound, not listening: every connection is refused
        with pytest.raises(CatalogUnavailableError, match=r"connection 'lake_default'.*did not answer: Endpoint"):
            look_at(reserved.getsockname()[1], monkeypatch)


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "ThrottlingException"), (400, "ExpiredTokenException"), (500, "InternalServiceException"), (503, "Odd")],
)
def test_a_glue_that_is_busy_or_wants_newer_keys_is_unavailable(
    status: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(status, code) as port, pytest.raises(CatalogUnavailableError, match=code):
        look_at(port, monkeypatch)


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("code", ["UnrecognizedClientException", "InvalidSignatureException"])
def test_a_glue_that_refuses_the_keys_makes_the_connection_invalid(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(400, code) as port, pytest.raises(InvalidConnectionError, match=rf"refused the credentials.*{code}"):
        look_at(port, monkeypatch)


@pytest.mark.usefixtures("keys")
def test_a_table_that_a_policy_of_glue_denies_says_nothing_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(400, "AccessDeniedException") as port, pytest.raises(AccessDeniedError, match=r"table shop\.orders"):
        look_at(port, monkeypatch)


def test_a_worker_without_keys_is_told_so_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidConnectionError, match="Unable to locate credentials"):
        look_at(1, monkeypatch)


@pytest.mark.usefixtures("keys")
def test_an_answer_that_says_neither_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(400, "InvalidInputException") as port, pytest.raises(ClientError, match="InvalidInputException"):
        look_at(port, monkeypatch)
