"""A REST catalog on this machine that answers as a stranger's may: never, slowly, too much, wrongly, or with code."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.soak.hostile_lake import MODULE

TOKEN = "token-of-the-connection"
CALLS = ("config", "table")
_CUSTOM = {"type": "custom", "impl": f"{MODULE}.Called", "custom": {}}
CONFIGS: dict[str, dict[str, Any]] = {
    "py-io-impl": {"overrides": {"py-io-impl": f"{MODULE}.Called"}},
    "auth": {"overrides": {"auth": _CUSTOM}},
    "default auth": {"defaults": {"auth": _CUSTOM}},
    "auth as text": {"overrides": {"auth.type": "custom", "auth.impl": f"{MODULE}.Called"}},
    "signer": {"overrides": {"s3.signer": f"{MODULE}.Called", "s3.signer.uri": "{thief}"}},
    "uri": {"overrides": {"uri": "{thief}"}},
    "token server": {"overrides": {"oauth2-server-uri": "{thief}/token"}},
    "proxy": {"overrides": {"s3.proxy-uri": "{thief}", "s3.endpoint": "{thief}"}},
    "prefix": {"overrides": {"prefix": "../../.."}},
    "list": {"overrides": ["x"]},
    "numbers": {"overrides": {"uri": 7, "warehouse": None}},
    "endpoints": {"endpoints": ["²", "DELETE everything"]},
}
_ERROR = b'{"error": {"message": 7, "type": [], "code": "x"}}'
_BODIES: dict[str, tuple[bytes, int, dict[str, str]]] = {
    "deep": (b'{"overrides": ' + b"[" * 1_000_000, 200, {}),
    "html": (b"<html>", 200, {"Content_Type": "text/html"}),
    "no json": (b"\xff\xfe{", 200, {}),
    "list": (b"[1, 2]", 200, {}),
    "empty": (b"", 200, {}),
    "error 500": (_ERROR, 500, {}),
    "error 404": (_ERROR, 404, {}),
    "error 401": (_ERROR, 401, {}),
    "redirect": (b"", 302, {"Location": "{thief}{path}"}),
    "redirect loop": (b"", 302, {"Location": "{path}"}),
    "wrong length": (b"{}" + b" " * 100, 200, {"Content_Length": "2"}),
    "compressed": (b"\x1f\x8b\x08\x00no gzip", 200, {"Content_Encoding": "gzip"}),
}
WAYS = ("silent", "slow", "huge", "cut", "endless header", "metadata", *_BODIES, *CONFIGS)


@dataclass
class HostileCatalog:
    """A catalog with one table, and a second server that no request may reach.

    :param way: how it answers.
    :param call: which of its calls.
    :param table: the answer for the table where that is not the call.
    """

    way: str
    call: str
    table: dict[str, Any]
    stopped: threading.Event = field(default_factory=threading.Event)
    stolen: list[str] = field(default_factory=list)
    address: str = ""
    thief: str = ""

    @contextmanager
    def served(self) -> Iterator[HostileCatalog]:
        """Answer until the block ends."""
        servers = [ThreadingHTTPServer(("127.0.0.1", 0), self._handler(kind)) for kind in (_Answer, _Thief)]
        for server in servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.address, self.thief = (f"http://127.0.0.1:{server.server_port}" for server in servers)
        try:
            yield self
        finally:
            self.stopped.set()
            for server in servers:
                server.shutdown()
                server.socket.close()

    def _handler(self, kind: type[_Handler]) -> type[_Handler]:
        return type("Handler", (kind,), {"catalog": self})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    catalog: HostileCatalog

    def log_message(self, *_: Any) -> None:  # the name of the first is not ours
        """Say nothing."""

    def handle(self) -> None:
        """Serve; a client that has gone is no error here."""
        try:
            super().handle()
        except OSError:
            self.close_connection = True

    def say(self, body: bytes, status: int = 200, **headers: str) -> None:
        """Answer."""
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


class _Thief(_Handler):
    def do_GET(self) -> None:
        """Take what is sent."""
        self.catalog.stolen.append(f"{self.command} {self.path} {self.headers.get('Authorization')}")
        self.say(b"{}")

    do_POST = do_HEAD = do_GET  # noqa: N815  names of the standard library's


class _Answer(_Handler):
    def do_GET(self) -> None:
        """Answer one call as asked, the others as a catalog does."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        call = "config" if "/config" in self.path else "table" if "/tables/" in self.path else ""
        catalog = self.catalog
        if call == catalog.call and catalog.way not in (*CONFIGS, "metadata"):
            self._misbehave(catalog.way)
        elif call == "config":
            given = CONFIGS.get(catalog.way, {}) if catalog.call == "config" else {}
            answer = {"defaults": {}, "overrides": {}, **given}
            self.say(json.dumps(answer).replace("{thief}", catalog.thief).encode())
        elif call == "table":
            given = CONFIGS.get(catalog.way, {}) if catalog.call == "table" else {}
            config = given.get("overrides", given.get("defaults", {}))
            self.say(json.dumps({**catalog.table, "config": config}).replace("{thief}", catalog.thief).encode())
        else:
            self.say(b'{"namespaces": [["tables"]]}')

    do_POST = do_HEAD = do_GET  # noqa: N815  names of the standard library's

    def _misbehave(self, way: str) -> None:
        if way in _BODIES:
            body, status, headers = _BODIES[way]
            places = {"thief": self.catalog.thief, "path": self.path}
            self.say(body, status, **{name: value.format(**places) for name, value in headers.items()})
            self.close_connection = way == "wrong length"
        elif way == "silent":
            self.catalog.stopped.wait()
        elif way == "huge":
            self._flood()
        elif way == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"overrides"')
            self.close_connection = True
        else:
            self._drip(way)

    def _drip(self, way: str) -> None:
        self.send_response(200)
        if way == "slow":
            self.send_header("Content-Length", "100000")
            self.end_headers()
        while not self.catalog.stopped.wait(0.2):
            self.wfile.write(b" " if way == "slow" else b"X-More: x\r\n")
            if way != "slow":
                self.flush_headers()
            self.wfile.flush()

    def _flood(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(2_000 << 20))
        self.end_headers()
        for _ in range(2_000):
            if self.catalog.stopped.is_set():
                return
            self.wfile.write(b" " * (1 << 20))
