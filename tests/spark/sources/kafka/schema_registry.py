"""A stand-in for a schema registry: the two requests of Confluent's API that are made, and values framed for it."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from airflow_lake_provider.contracts.source_access import RegistryAccess

USER, PASSWORD = "registry-reader", "registry-secret"


@contextmanager
def schema_registry(schemas: Mapping[int, Any], latest: Mapping[str, int]) -> Iterator[RegistryAccess]:
    """Serve schemas on loopback.

    :param schemas: by id.
    :param latest: id by subject.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            status, answer = 401, {"error_code": 401, "message": "Unauthorized"}
            if self.headers["Authorization"] == f"Basic {login}":
                status, answer = self._answered()
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _answered(self) -> tuple[int, dict[str, Any]]:
            match self.path.strip("/").split("/"):
                case ["schemas", "ids", number] if int(number) in schemas:
                    return 200, {"schema": json.dumps(schemas[int(number)])}
                case ["subjects", subject, "versions", "latest"] if subject in latest:
                    newest = latest[subject]
                    return 200, {"subject": subject, "version": 1, "id": newest, "schema": json.dumps(schemas[newest])}
            return 404, {"error_code": 40403, "message": "Schema not found"}

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield RegistryAccess(f"http://127.0.0.1:{server.server_port}", USER, PASSWORD)
    finally:
        server.shutdown()
        server.server_close()


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    """Return a schema of Avro; a field whose type is a list has the default NULL."""
    made = [{"name": n, "type": t, **({"default": None} if isinstance(t, list) else {})} for n, t in fields.items()]
    return {"type": "record", "name": name, "namespace": "shop", "fields": made}


def encoded(schema: Mapping[str, Any], row: Mapping[str, Any]) -> bytes:
    """Return a row as Avro writes it."""
    return _encoded(schema, row, dict(_named(schema)))


def framed(number: int, payload: bytes) -> bytes:
    """Return a value as a producer with a registry writes it."""
    return b"\0" + number.to_bytes(4, "big") + payload


def _named(kind: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(kind, list):
        for branch in kind:
            yield from _named(branch)
    elif isinstance(kind, dict) and kind["type"] == "record":
        yield from ((name, kind) for name in (kind["name"], f"{kind['namespace']}.{kind['name']}"))
        for field in kind["fields"]:
            yield from _named(field["type"])


def _encoded(kind: Any, value: Any, named: Mapping[str, Any]) -> bytes:
    if isinstance(kind, list):
        branch = kind.index("null") if value is None else next(n for n, each in enumerate(kind) if each != "null")
        return _number(branch) + (b"" if value is None else _encoded(kind[branch], value, named))
    kind = named.get(kind, kind) if isinstance(kind, str) else kind
    match kind["type"] if isinstance(kind, dict) else kind:
        case "record":
            return b"".join(_encoded(field["type"], value[field["name"]], named) for field in kind["fields"])
        case "array":
            return _number(len(value)) + b"".join(_encoded(kind["items"], each, named) for each in value) + b"\0"
        case "long" | "int":
            return _number(value)
        case "boolean":
            return bytes([value])
        case "double":
            return struct.pack("<d", value)
        case "bytes":
            return _number(len(value)) + bytes(value)
    assert kind == "string", kind
    return _number(len(value.encode())) + value.encode()


def _number(value: int) -> bytes:
    left, made = (value << 1) ^ (value >> 63), bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])
