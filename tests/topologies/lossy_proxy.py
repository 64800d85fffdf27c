"""A proxy of HTTP on loopback that loses answers to commits."""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR
from threading import Thread
from urllib.parse import urlsplit

# Of connections, which are two here, and what the length of a body says otherwise.
_OF_CONNECTIONS = {"connection", "content-length", "date", "host", "server", "transfer-encoding"}


@dataclass
class LossyProxy:
    """Passes requests on to a REST catalog.

    :param uri: of the proxy.
    :param lose: number of the commit of a snapshot, from now on, whose answer is lost; 0 for none.
    """

    uri: str
    lose: int = 0

    def loses(self, body: bytes) -> bool:
        """Count a request, and return True for that whose answer is to be lost."""
        self.lose -= b'"add-snapshot"' in body
        return self.lose == 0 and b'"add-snapshot"' in body


@contextmanager
def lossy_proxy(uri: str) -> Iterator[LossyProxy]:
    """Serve in front of a REST catalog."""

    class Passing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            catalog = http.client.HTTPConnection(urlsplit(uri).netloc, timeout=60)
            catalog.request(self.command, self.path, body, _headers(self.headers.items()))
            answer = catalog.getresponse()
            text = answer.read()
            catalog.close()
            if proxy.loses(body):
                self.close_connection = True
                with suppress(OSError):
                    self.connection.shutdown(SHUT_RDWR)
                return
            self.send_response(answer.status)
            for name, value in {**_headers(answer.getheaders()), "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_GET = do_HEAD = do_POST = do_DELETE = pass_on  # noqa: N815  # names of the standard library

    server = ThreadingHTTPServer(("127.0.0.1", 0), Passing)
    proxy = LossyProxy(f"http://127.0.0.1:{server.server_port}")
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()


def _headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in _OF_CONNECTIONS}
