"""Serve moto's imitation of S3, which checks the key of each request, and refuses those of Arrow when a test says so.

The first argument is a folder. Its file ``keys`` has the key id and the session token that requests have to show. Other
files refuse requests of the C++ client, which is Arrow's: ``expired`` all, ``halfway`` all once it has uploaded an
object of a table of that name, ``full`` the parts that it uploads, and ``lost`` whatever it asks of an object that it
has uploaded. ``slow`` asks it at every fourth request to come again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import main

_uploaded: set[str] = set()
_requests = count()
_dispatch = DomainDispatcherApplication.__call__


def refusal(folder: Path, environ: dict[str, Any]) -> tuple[str, str] | None:
    """Return status and code of an error; None for a request that may pass."""
    keys = folder / "keys"
    key_id, token = keys.read_text().split() if keys.exists() else ("", "")
    if f"Credential={key_id}" not in environ.get("HTTP_AUTHORIZATION", ""):
        return "403 Forbidden", "InvalidAccessKeyId"
    if token and environ.get("HTTP_X_AMZ_SECURITY_TOKEN") != token:
        return "403 Forbidden", "InvalidToken"
    if "aws-sdk-cpp" not in environ.get("HTTP_USER_AGENT", ""):
        return None
    if (folder / "expired").exists():
        return "400 Bad Request", "ExpiredToken"
    if (folder / "halfway").exists() and any("/halfway/" in each for each in _uploaded):
        return "400 Bad Request", "ExpiredToken"
    if (folder / "slow").exists() and next(_requests) % 4 == 0:
        return "503 Slow Down", "SlowDown"
    query, path = environ.get("QUERY_STRING", ""), environ["PATH_INFO"]
    if (folder / "full").exists() and "partNumber=" in query:
        return "403 Forbidden", "QuotaExceeded"
    if (folder / "lost").exists() and path in _uploaded:
        return "403 Forbidden", "AccessDenied"
    if environ["REQUEST_METHOD"] == "POST" and "uploadId=" in query:
        _uploaded.add(path)
    return None


def guard(folder: Path) -> None:
    """Let the server ask :func:`refusal` before each request."""

    def guarded(self: DomainDispatcherApplication, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        refused = refusal(folder, environ)
        if refused is None:
            answer: Iterable[bytes] = _dispatch(self, environ, start_response)
            return answer
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        status, code = refused
        start_response(status, [("Content-Type", "application/xml")])
        return [f"<Error><Code>{code}</Code><Message>refused by the test</Message></Error>".encode()]

    DomainDispatcherApplication.__call__ = guarded  # type: ignore[method-assign]


if __name__ == "__main__":
    guard(Path(sys.argv[1]))
    main(sys.argv[2:])
