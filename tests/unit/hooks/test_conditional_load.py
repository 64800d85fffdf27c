"""Load a table only if it changed: from a database, and from a REST server on loopback with and without ETags."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from airflow_lake_provider.hooks.conditional_load import conditional_reads, load_if_changed
from airflow_lake_provider.tables.base import MetadataVersion

LEVELS = ("shop", "orders")


def test_a_table_in_a_database_is_loaded_again_only_after_a_commit(
    orders: Table, append: Callable[..., int], lake_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = append(orders, 1)
    found = load_if_changed(lake_catalog, LEVELS, None)
    assert found is not None
    table, seen = found
    assert table.metadata.current_snapshot_id == first
    loads: list[object] = []
    load = SqlCatalog.load_table

    def note(catalog: SqlCatalog, levels: tuple[str, ...]) -> Table:
        loads.append(levels)
        return load(catalog, levels)

    monkeypatch.setattr(SqlCatalog, "load_table", note)
    assert load_if_changed(lake_catalog, LEVELS, seen) is None
    assert loads == []
    second = append(orders, 2)
    found = load_if_changed(lake_catalog, LEVELS, seen)
    assert found is not None
    assert found[0].metadata.current_snapshot_id == second
    assert found[1] != seen


def test_a_table_that_was_dropped_is_not_taken_for_an_unchanged_one(orders: Table, lake_catalog: SqlCatalog) -> None:
    found = load_if_changed(lake_catalog, LEVELS, None)
    assert found is not None
    lake_catalog.drop_table("shop.orders")
    with pytest.raises(NoSuchTableError):
        load_if_changed(lake_catalog, LEVELS, found[1])


@dataclass
class Server:
    """A REST catalog that knows one table.

    :param asked: the headers of requests for the table.
    :param said_location: in place of the location; None for it.
    :param is_stale: whether it answers 304 to everything, as a broken cache may.
    """

    metadata: dict[str, Any]
    location: str
    has_etags: bool
    said_location: dict[str, Any] | None = None
    is_stale: bool = False
    asked: list[dict[str, str]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], dict[str, Any]]:
        if "/tables/" not in path:
            return 200, {}, {"defaults": {}, "overrides": {}}
        self.asked.append(headers)
        etag = f'W/"{self.location}"'
        if self.is_stale or (self.has_etags and headers.get("If-None-Match") == etag):
            return 304, {"ETag": etag}, {}
        place = {"metadata-location": self.location} if self.said_location is None else self.said_location
        body = {**place, "metadata": self.metadata, "config": {}}
        return 200, {"ETag": etag} if self.has_etags else {}, body


@contextmanager
def serve(server: Server) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = server.answer(self.path, dict(self.headers))
            server.answers.append(status)
            text = json.dumps(body).encode() if status == 200 else b""
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{listening.server_port}"
    listening.shutdown()
    listening.server_close()


@pytest.mark.parametrize("has_etags", [True, False])
def test_a_rest_catalog_is_asked_with_the_etag_of_its_last_answer(
    orders: Table, append: Callable[..., int], has_etags: bool
) -> None:
    first = append(orders, 1)
    server = Server(json.loads(orders.metadata.model_dump_json()), orders.metadata_location, has_etags)
    with serve(server) as uri:
        catalog = load_catalog("rest", type="rest", uri=uri)
        found = load_if_changed(catalog, LEVELS, None)
        assert found is not None
        assert found[0].metadata.current_snapshot_id == first
        assert (found[1].etag is not None) == has_etags
        assert load_if_changed(catalog, LEVELS, found[1]) is None
        assert server.answers[-1] == (304 if has_etags else 200)

        second = append(orders, 2)
        server.metadata, server.location = json.loads(orders.metadata.model_dump_json()), orders.metadata_location
        changed = load_if_changed(catalog, LEVELS, found[1])
        assert changed is not None
        assert changed[0].metadata.current_snapshot_id == second
        # A version that only the server has seen does not count as seen: an answer may have been lost on its way.
        assert load_if_changed(catalog, LEVELS, found[1]) is not None
        assert load_if_changed(catalog, LEVELS, changed[1]) is None
        # PyIceberg's own reads are never answered with 304.
        assert catalog.load_table("shop.orders").metadata.current_snapshot_id == second


@pytest.mark.parametrize("said", [{}, {"metadata-location": None}, {"metadata-location": ""}], ids=str)
def test_answers_that_name_no_metadata_file_are_not_taken_for_unchanged_ones(
    orders: Table, append: Callable[..., int], said: dict[str, Any]
) -> None:
    first = append(orders, 1)
    server = Server(json.loads(orders.metadata.model_dump_json()), "", has_etags=False, said_location=said)
    with serve(server) as uri:
        catalog = load_catalog("rest", type="rest", uri=uri)
        loaded = load_if_changed(catalog, LEVELS, None)
        assert loaded is not None
        assert loaded[0].metadata.current_snapshot_id == first
        second = append(orders, 2)
        server.metadata = json.loads(orders.metadata.model_dump_json())
        changed = load_if_changed(catalog, LEVELS, loaded[1])
        assert changed is not None
        assert changed[0].metadata.current_snapshot_id == second


def test_an_unchanged_that_nobody_asked_for_is_no_answer(orders: Table) -> None:
    server = Server(json.loads(orders.metadata.model_dump_json()), orders.metadata_location, has_etags=False)
    with serve(server) as uri:
        catalog = load_catalog("rest", type="rest", uri=uri)
        loaded = load_if_changed(catalog, LEVELS, None)
        assert loaded is not None
        server.is_stale = True
        for seen in (None, loaded[1]):
            with pytest.raises(ValidationError):
                load_if_changed(catalog, LEVELS, seen)


def test_requests_of_a_rest_catalog_do_not_wait_without_end(orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(json.loads(orders.metadata.model_dump_json()), orders.metadata_location, has_etags=True)
    timeouts: list[object] = []
    with serve(server) as uri:
        catalog = load_catalog("rest", type="rest", uri=uri)
        adapter = conditional_reads(catalog)
        assert adapter is not None
        assert conditional_reads(catalog) is adapter
        inner = adapter._inner
        send = inner.send

        def note(request: Any, stream: Any, timeout: Any, *rest: Any) -> object:
            timeouts.append(timeout)
            return send(request, stream, timeout, *rest)

        monkeypatch.setattr(inner, "send", note)
        load_if_changed(catalog, LEVELS, None)
    assert timeouts == [60.0]


def test_a_catalog_without_a_cheap_answer_is_compared_by_location(tmp_path: Path, orders: Table) -> None:
    class Other:
        def load_table(self, levels: tuple[str, ...]) -> Table:
            assert levels == LEVELS
            return orders

    found = load_if_changed(Other(), LEVELS, None)  # type: ignore[arg-type]  # Hive's and Glue's need servers
    assert found is not None
    assert found[1] == MetadataVersion(orders.metadata_location)
    assert load_if_changed(Other(), LEVELS, found[1]) is None  # type: ignore[arg-type]
