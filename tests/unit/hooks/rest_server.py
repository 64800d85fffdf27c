"""A REST catalog on loopback that answers as it is told, and notes what it was sent."""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

THIEF = "http://thief.example.com"
# Of the connection.
OWN = {
    "s3.access-key-id": "OWN-KEY",
    "s3.secret-access-key": "OWN-SECRET",
    "s3.session-token": "OWN-SESSION",
    "s3.region": "eu-west-1",
    "gcs.oauth2.token": "OWN-GCS",
    "adls.account-name": "acct",
    "adls.account-key": "OWN-ADLS",
}
METADATA: dict[str, Any] = {
    "format-version": 2,
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "location": "s3://bucket/shop/orders",
    "last-sequence-number": 0,
    "last-updated-ms": 1764000000000,
    "last-column-id": 1,
    "current-schema-id": 0,
    "schemas": [
        {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    ],
    "default-spec-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "last-partition-id": 999,
    "default-sort-order-id": 0,
    "sort-orders": [{"order-id": 0, "fields": []}],
}


@dataclass
class Answers:
    """What a server says.

    :param redirect: address to which each request is sent on; None answers.
    :param redirects: status and address for a path alone; such an answer has a body of JSON.
    :param seen: every request: line, headers and body.
    """

    defaults: dict[str, Any] = field(default_factory=dict)
    overrides: dict[str, Any] = field(default_factory=dict)
    table: dict[str, Any] = field(default_factory=dict)
    credentials: list[dict[str, Any]] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    redirect: str | None = None
    redirects: dict[str, tuple[int, str]] = field(default_factory=dict)
    uri: str = ""
    seen: list[str] = field(default_factory=list)

    def body(self, path: str) -> dict[str, Any]:
        if path.endswith("/config"):
            return {"defaults": self.defaults, "overrides": self.overrides}
        if path.endswith("/tokens"):
            return {"access_token": "token-of-the-server", "token_type": "bearer", "expires_in": 3600}
        metadata = {**METADATA, "properties": self.properties}
        location = f"{METADATA['location']}/metadata/1.metadata.json"
        found: dict[str, Any] = {"metadata-location": location, "metadata": metadata, "config": self.table}
        return {**found, "storage-credentials": self.credentials} if self.credentials else found


@contextmanager
def serve(answers: Answers) -> Iterator[Answers]:
    """Serve, and say where."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            answers.seen.append(f"{self.requestline} {dict(self.headers)} {sent}")
            if answers.redirect is not None:
                self.send_response(307)
                self.send_header("Location", answers.redirect)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path = self.path.partition("?")[0]
            status, target = answers.redirects.get(path, (200, ""))
            text = b"{}" if target else json.dumps(answers.body(path.rstrip("/"))).encode()
            self.send_response(status)
            if target:
                self.send_header("Location", target)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_GET  # noqa: N815  # as http.server names it

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True).start()
    answers.uri = f"http://127.0.0.1:{listening.server_port}"
    try:
        yield answers
    finally:
        listening.shutdown()
        listening.server_close()


@contextmanager
def serve_json(answer: Callable[[str], tuple[int, Any]]) -> Iterator[str]:
    """Serve the status and the body that a function returns for a path with its query; lend the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self.path)
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def hook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uri: str, **extra: Any) -> Any:
    """Return a hook whose connection is to a server, with settings of its own."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    given = {"conn_type": "iceberg", "host": uri, "extra": {"type": "rest", **extra}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(given))
    return importlib.import_module("airflow_lake_provider.hooks.lake_catalog").LakeCatalogHook()
