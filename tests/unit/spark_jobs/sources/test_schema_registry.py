"""Answers of a registry, and of what stands in its place, over real sockets on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from airflow_lake_provider.contracts.errors import BadInputError, InvalidConnectionError, JobFailedError
from airflow_lake_provider.contracts.source_access import RegistryAccess
from airflow_lake_provider.spark_jobs.sources.kafka.registry import SchemaRegistry


@contextmanager
def answering(answer: Any) -> Iterator[tuple[str, list[str | None]]]:
    """Serve one answer, and keep the logins of all requests."""
    logins: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            logins.append(self.headers["Authorization"])
            answer(self)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", logins
    finally:
        server.shutdown()
        server.server_close()


def schema(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(json.dumps({"schema": '"long"'}).encode())


def test_a_login_goes_to_the_registry_and_not_to_where_it_is_redirected() -> None:
    with answering(schema) as (elsewhere, others):

        def redirect(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(302)
            handler.send_header("Location", f"{elsewhere}{handler.path}")
            handler.end_headers()

        with answering(redirect) as (url, logins):
            assert SchemaRegistry(RegistryAccess(url, "reader", "hunter2")).writer(1) == '"long"'
    assert [login is not None and login.startswith("Basic ") for login in logins] == [True]
    assert others == [None]


@pytest.mark.parametrize("answer", [b"no HTTP at all\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"])
def test_what_speaks_no_http_or_is_cut_off_is_a_registry_that_does_not_answer(answer: bytes) -> None:
    with answering(lambda handler: handler.wfile.write(answer)) as (url, _):
        registry = SchemaRegistry(RegistryAccess(url))
        with pytest.raises(JobFailedError, match="does not answer"):
            registry.latest("orders-value")


def answering_code(code: int) -> Any:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        handler.end_headers()

    return answer


@pytest.mark.parametrize("code", [400, 405, 406, 410, 422, 499])
def test_an_answer_that_no_retry_changes_is_that_of_a_wrong_connection(code: int) -> None:
    with answering(answering_code(code)) as (url, _):
        registry = SchemaRegistry(RegistryAccess(url))
        with pytest.raises(InvalidConnectionError, match=f"answers {code} for schema 1") as refused:
            registry.writer(1)
    assert not refused.value.retry_may_help


@pytest.mark.parametrize("code", [408, 425, 429, 500, 503])
def test_a_registry_that_is_busy_or_broken_is_asked_again_by_a_retry(code: int) -> None:
    with answering(answering_code(code)) as (url, _):
        registry = SchemaRegistry(RegistryAccess(url))
        with pytest.raises(JobFailedError, match=f"answers {code} for schema 1") as failed:
            registry.writer(1)
    assert failed.value.retry_may_help


def test_a_subject_that_is_not_there_says_what_to_do_where_somebody_knows_it() -> None:
    with answering(answering_code(404)) as (url, _):
        with pytest.raises(BadInputError, match=r"has no subject orders-value; .* use\? Name another one\.$"):
            SchemaRegistry(RegistryAccess(url)).latest("orders-value", "Name another one.")
        with pytest.raises(BadInputError, match=r"has no subject orders-value; .* use\?$"):
            SchemaRegistry(RegistryAccess(url)).latest("orders-value")
        with pytest.raises(BadInputError, match=r"has no schema 1; is it the registry that .* use\?$"):
            SchemaRegistry(RegistryAccess(url)).writer(1)


MONEY = {"name": "Money", "subject": "money", "version": 1}
WITHOUT_NAME = '{"type": "record"}'


@pytest.mark.parametrize(
    "answered",
    [
        {"schema": '"Money"', "references": [{"name": "Money"}]},
        {"schema": '"Money"', "references": ["Money"]},
        {"schema": '"Money"', "references": 1},
        {"schema": "Money", "references": [MONEY]},
        {"schema": WITHOUT_NAME, "references": [MONEY]},
        {"schema": '{"items": "Money"}', "references": [MONEY]},
        {"schema": "7", "references": [MONEY]},
    ],
)
def test_references_that_cannot_be_read_are_those_of_a_broken_registry(answered: dict[str, Any]) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        of_money = {"schema": '"long"'}
        handler.wfile.write(json.dumps(answered if "/ids/" in handler.path else of_money).encode())

    with answering(answer) as (url, _), pytest.raises(InvalidConnectionError, match=r"schema 1 .* cannot be read"):
        SchemaRegistry(RegistryAccess(url)).writer(1)


def test_an_answer_without_a_schema_is_said_as_it_is() -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b'{"status": "UP"}')

    with answering(answer) as (url, _), pytest.raises(InvalidConnectionError, match="answers no schema"):
        SchemaRegistry(RegistryAccess(url)).writer(1)


def test_a_schema_gets_what_it_refers_to_where_a_name_is_used_first() -> None:
    def named(name: str, *kinds: Any, **more: str) -> dict[str, Any]:
        return {
            "type": "record",
            "name": name,
            **more,
            "fields": [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)],
        }

    of_nobody = named("Money", "long")
    order = named("Order", "Money", {"type": "array", "items": "shop.Line"}, namespace="shop")
    line = named("shop.Line", ["null", "Size"])
    size = {"type": "enum", "name": "Size", "namespace": "shop", "symbols": ["S", "L"]}
    event = named("Event", "shop.Order", {"type": "map", "values": "Money"}, {"type": "shop.Size"}, namespace="log")
    registered = {
        "order": (order, ["Money", "shop.Line"]),
        "line": (line, ["shop.Size"]),
        "event": (event, ["shop.Order"]),
    }
    registered |= {"money": (of_nobody, []), "size": (size, [])}

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked = handler.path.split("/")[2]
        kind, names = registered["event" if asked == "ids" else asked]
        references = [{"name": name, "subject": name.rpartition(".")[2].lower(), "version": 3} for name in names]
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(json.dumps({"schema": json.dumps(kind), "references": references}).encode())

    with answering(answer) as (url, asked):
        whole = json.loads(SchemaRegistry(RegistryAccess(url)).writer(1))
    of_line = named("shop.Line", ["null", size])
    of_order = named("Order", {"namespace": "", **of_nobody}, {"type": "array", "items": of_line}, namespace="shop")
    assert whole == named("Event", of_order, {"type": "map", "values": "Money"}, {"type": "shop.Size"}, namespace="log")
    assert len(asked) == 5
