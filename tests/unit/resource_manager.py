"""An HTTP server that answers as YARN's resource manager does, for failures that a real one has seldom."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ResourceManager:
    """A server on loopback.

    :param answers: for each application: its states and final statuses, or a status of HTTP; the last one for ever.
    """

    answers: Sequence[tuple[str, str] | int]
    url: str = ""
    requests: list[str] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)

    @property
    def connection(self) -> str:
        """A Spark connection that names it, as JSON."""
        extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": self.url}
        return json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra})

    def answer(self, path: str) -> tuple[int, bytes]:
        """Note a request for an application, and return the status of HTTP and the body of its next answer."""
        asked = self.requests.count(path)
        self.requests.append(path)
        found = self.answers[min(asked, len(self.answers) - 1)]
        if isinstance(found, int):
            return found, b""
        app = {"state": found[0], "finalStatus": found[1], "diagnostics": ""}
        return 200, json.dumps({"app": app}).encode()


@contextmanager
def resource_manager(*answers: tuple[str, str] | int) -> Iterator[ResourceManager]:
    """Run a server."""
    found = ResourceManager(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = found.answer(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def do_PUT(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if asked == {"state": "KILLED"}:
                found.killed.append(self.path)
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
