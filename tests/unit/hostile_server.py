"""A REST catalog on loopback that misbehaves in one of its calls, and is sound in the others."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CALLS = ("token", "config", "namespaces", "table")
MEGABYTE = 1024 * 1024


@dataclass
class HostileServer:
    """A server that knows one table.

    :param metadata: of the table.
    :param modes: what goes wrong, by call.
    :param asked: calls that came, in their order.
    """

    metadata: dict[str, Any]
    modes: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    uri: str = ""
    healed: threading.Event = field(default_factory=threading.Event)

    def answer(self, call: str) -> dict[str, Any]:
        if call == "token":
            return {"access_token": "t", "token_type": "bearer", "expires_in": 3600}
        if call == "config":
            return {"defaults": {}, "overrides": {}}
        if call == "namespaces":
            return {"namespaces": [["shop"]]}
        return {"metadata-location": "file:///nowhere/1.metadata.json", "metadata": self.metadata, "config": {}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hostile: HostileServer

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        call = next((name for name in ("token", "config") if name in self.path), "namespaces")
        call = "table" if "/tables/" in self.path else call
        self.hostile.asked.append(call)
        mode = self.hostile.modes.get(call, "sound")
        with suppress(OSError):
            if mode.startswith("status"):
                self._refusal(*mode.split()[1:])
            else:
                getattr(self, mode.replace(" ", "_"))(call)
        self.close_connection = True

    def do_POST(self) -> None:
        self.do_GET()

    def _send(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        # It is closed after each answer: a client that is not told may send its next request into it.
        for name, value in {"Content-Length": str(len(body)), "Connection": "close", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def _refusal(self, status: str, body: str) -> None:
        said = {"error": {"message": "m", "type": "NoSuchWhatever", "code": int(status)}}
        # RFC 6749 section 5.2.
        oauth = {"error": "invalid_client"} if "token" in self.path and status in ("400", "401") else said
        bodies = {"said": json.dumps(oauth), "page": "<html>", "wrong": '{"error": {"code": "x"}}', "empty": ""}
        self._send(bodies[body].encode(), int(status))

    def _json(self, answer: object) -> None:
        self._send(json.dumps(answer).encode())

    def sound(self, call: str) -> None:
        self._json(self.hostile.answer(call))

    def silent(self, call: str) -> None:
        if self.hostile.healed.wait(30):
            self.sound(call)

    def slow_body(self, _: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self._drip(b" ")

    def slow_chunks(self, _: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._drip(b"1\r\n \r\n")

    def slow_header(self, _: str) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        self._drip(b"a")

    def endless_headers(self, _: str) -> None:
        self._drip(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _drip(self, piece: bytes) -> None:
        while not self.hostile.healed.wait(0.02):
            self.wfile.write(piece)
            self.wfile.flush()

    def huge(self, _: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(300 * MEGABYTE))
        self.end_headers()
        for _piece in range(300):
            self.wfile.write(b" " * MEGABYTE)

    def huge_unpacked(self, _: str) -> None:
        self._send(gzip.compress(b" " * (8 * MEGABYTE)), Content_Encoding="gzip")

    def packed_twice(self, _: str) -> None:
        self._send(gzip.compress(gzip.compress(b" " * (8 * MEGABYTE))), Content_Encoding="gzip, gzip")

    def endless_redirects(self, _: str) -> None:
        self._send(b"", 302, Location=f"{self.path}&again" if "?" in self.path else f"{self.path}?again")

    def no_json(self, _: str) -> None:
        self._send(b"<html>Please log in</html>")

    def cut_off(self, call: str) -> None:
        body = json.dumps(self.hostile.answer(call)).encode()
        self._send(body[: len(body) // 2], Content_Length=str(len(body)))

    def reset(self, _: str) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self.connection.close()

    def wrong_types(self, call: str) -> None:
        self._json(dict.fromkeys(self.hostile.answer(call), -1))

    def a_list(self, _: str) -> None:
        self._json([1, 2, 3])

    def negative_numbers(self, call: str) -> None:
        text = json.dumps(self.hostile.answer(call))
        self._send(text.replace('"timestamp-ms": 1', '"timestamp-ms": -1').encode())

    def deep(self, _: str) -> None:
        self._send(b"[" * 200_000)

    def surrogate(self, call: str) -> None:
        text = json.dumps(self.hostile.answer(call))
        self._send(text.replace('"', '"\\ud800', 1).encode())

    def server_error(self, _: str) -> None:
        self._send(b'{"error": {"message": "busy", "type": "X", "code": 503}}', 503)


@contextmanager
def serving(metadata: dict[str, Any], **modes: str) -> Iterator[HostileServer]:
    """Serve on a port of this machine.

    :param modes: by call; the name of a method above, with blanks or underscores.
    """
    hostile = HostileServer(metadata, dict(modes))
    handler = type("Handler", (_Handler,), {"hostile": hostile})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    hostile.uri = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hostile
    finally:
        hostile.healed.set()
        server.shutdown()
        server.server_close()
