"""A REST catalog that answers what a test says, on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@contextmanager
def rest_catalog(
    metadata: Mapping[str, Any], location: str, config: Mapping[str, Mapping[str, str]], overrides: Mapping[str, str]
) -> Iterator[str]:
    """Serve a table under several names, each with a config of its own, and yield the address.

    :param config: name of the table to what the server says of it.
    :param overrides: what the server says of the catalog.
    """

    class Answers(BaseHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            name = self.path.partition("?")[0].rpartition("/")[2]
            answer: dict[str, Any] = {"defaults": {}, "overrides": dict(overrides)}
            if "/tables/" in self.path:
                answer = {"metadata-location": location, "metadata": metadata, "config": dict(config[name])}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
