"""Serve moto's imitation of S3, which checks the key of each request, and refuses those of Arrow when a test says so.

The first argument is a folder. Its file ``keys`` has the key id and the session token that requests have to show. Other
files refuse requests of the C++ client, which is Arrow's: ``expired`` all, ``halfway`` all once it has uploaded an
object of a table of that name, ``full`` the parts that it uploads, and ``lost`` whatever it asks of an object that it
has uploaded. ``slow`` asks it at every fourth request to come again. ``kill`` has the number of the part at which the
process that uploads it is killed, once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import psutil
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import main

_uploaded: set[str] = set()
_requests = count()
_dispatch = DomainDispatcherApplication.__call__


def refusal(folder: Path, environ: dict[str, Any]) -> tuple[str, str] | None:
    """Return status and code of an error; None for a request that may pass."""
    if (code := _wrong_key(folder / "keys", environ)) is not None:
        return "403 Forbidden", code
    if "aws-sdk-cpp" not in environ.get("HTTP_USER_AGENT", ""):
        return None
    if (folder / "expired").exists():
        return "400 Bad Request", "ExpiredToken"
    if (folder / "halfway").exists() and any("/halfway/" in each for each in _uploaded):
        return "400 Bad Request", "ExpiredToken"
    if (folder / "slow").exists() and next(_requests) % 4 == 0:
        return "503 Slow Down", "SlowDown"
    query, path = environ.get("QUERY_STRING", ""), environ["PATH_INFO"]
    if "partNumber=" in query and _is_killed(folder / "kill", int(environ["REMOTE_PORT"])):
        return "500 Internal Server Error", "InternalError"
    if (folder / "full").exists() and "partNumber=" in query:
        return "403 Forbidden", "QuotaExceeded"
    if (folder / "lost").exists() and path in _uploaded:
        return "403 Forbidden", "AccessDenied"
    if environ["REQUEST_METHOD"] == "POST" and "uploadId=" in query:
        _uploaded.add(path)
    return None


def _wrong_key(keys: Path, environ: dict[str, Any]) -> str | None:
    key_id, token = keys.read_text().split() if keys.exists() else ("", "")
    if f"Credential={key_id}" not in environ.get("HTTP_AUTHORIZATION", ""):
        return "InvalidAccessKeyId"
    return "InvalidToken" if token and environ.get("HTTP_X_AMZ_SECURITY_TOKEN") != token else None


def _is_killed(fault: Path, port: int) -> bool:
    """Count a part, and kill the process that has a port at the part that was chosen."""
    if not fault.exists():
        return False
    left = int(fault.read_text()) - 1
    if left:
        fault.write_text(str(left))
        return False
    fault.unlink()
    clients = (
        each.pid for each in psutil.net_connections("tcp") if each.laddr and each.laddr.port == port and each.pid
    )
    os.kill(next(pid for pid in clients if pid != os.getpid()), signal.SIGKILL)
    return True


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
