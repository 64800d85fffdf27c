"""``table_health`` on catalogs: many tables, broken ones among them, and the ways in which a catalog is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from sqlalchemy import event

from airflow_lake_provider.contracts.errors import InvalidSpecError, MissingTableError, UnsupportedError
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.table_health import table_health
from airflow_lake_provider.maintenance.health import TableHealth
from airflow_lake_provider.maintenance.score import HealthLimits
from airflow_lake_provider.tables.base import ListedTable
from tests.made_tables import ILL, MadeTable, register, well_table
from tests.unit.hooks.rest_server import Answers, serve

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def put(tmp_path: Path, tables: dict[str, MadeTable]) -> None:
    """Write tables of metadata alone, and put them into the catalog's namespace ``shop``."""
    locations = {name: table.write(tmp_path / "made" / name, NOW) for name, table in tables.items()}
    register(tmp_path / "catalog.db", "lake_default", "shop", locations)


def by_name(found: list[TableHealth]) -> dict[str, TableHealth]:
    return {each.table: each for each in found}


@pytest.fixture
def sick(lake_catalog: SqlCatalog, tmp_path: Path) -> None:
    """Each way to be ill, and six well tables."""
    put(tmp_path, {**ILL, **{f"well_{number}": well_table(number) for number in range(6)}})


@pytest.mark.usefixtures("sick")
def test_each_illness_is_found_and_the_well_tables_come_last() -> None:
    found = table_health("shop.*", now=NOW)
    for name in ILL:
        assert name in [part.name for part in by_name(found)[f"shop.{name}"].findings]
    assert [each.table for each in found[-6:]] == [f"shop.well_{number}" for number in range(6)]
    assert [each.is_suspect for each in found] == [True] * 10 + [False] * 6
    scores = [each.score for each in found]
    assert scores == sorted(scores, key=lambda score: score or 0)


@pytest.mark.usefixtures("sick")
def test_tables_are_chosen_by_patterns() -> None:
    names = {each.table for each in table_health(["shop.well_*", "shop.manifests", "!shop.well_1"], now=NOW)}
    assert names == {"shop.manifests", *(f"shop.well_{number}" for number in (0, 2, 3, 4, 5))}
    assert table_health("shop.none_*") == []
    assert table_health("other.*") == []
    with pytest.raises(MissingTableError, match=r"table shop\.wel_1 does not exist; did you mean 'shop\.well_1'"):
        table_health(["shop.*", "shop.wel_1"])


@pytest.mark.parametrize("tables", [[], "", "shop orders", ["shop.*", "!"], "shop.`x`", [None]])
def test_what_is_no_pattern_is_refused(tables: Any, lake_connection: str) -> None:
    with pytest.raises(InvalidSpecError, match=r"no patterns of table names; write for example"):
        table_health(tables)


@pytest.mark.usefixtures("sick")
def test_limits_may_differ_from_table_to_table() -> None:
    def declared(name: str) -> HealthLimits | None:
        return HealthLimits(fresh_within=timedelta(minutes=5)) if name == "shop.well_2" else None

    found = table_health("shop.well_*", limits=declared, now=NOW)
    assert [each.table for each in found if each.findings] == ["shop.well_2"]


@pytest.mark.usefixtures("sick")
@pytest.mark.parametrize("span", [timedelta(0), timedelta(hours=-1)])
def test_a_span_in_which_nothing_can_be_fresh_is_refused_before_any_table_is_read(span: timedelta) -> None:
    with pytest.raises(InvalidSpecError, match="fresh_within must be a positive timedelta"):
        table_health("shop.*", fresh_within=span)


def test_one_statement_lists_all_tables(sick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    engine: Any = LakeCatalogHook().catalog.engine  # type: ignore[attr-defined]  # of a SQL catalog

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "iceberg_tables.table_name" in statement and "maintenance_history" not in parameters:
            statements.append(statement)

    event.listen(type(engine), "before_cursor_execute", note)
    try:
        assert len(table_health("shop.*", now=NOW)) == 16
    finally:
        event.remove(type(engine), "before_cursor_execute", note)
    assert len(statements) == 1


def turn_into_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "gone": (lambda file: file.unlink(), "BrokenMetadataError: .*its metadata file is gone"),
    "empty": (lambda file: file.write_text(""), "BrokenMetadataError: .*does not have the form"),
    "no_json": (lambda file: file.write_text("secret=hunter2"), "BrokenMetadataError: .*does not have the form"),
    "a_list": (lambda file: file.write_text("[]"), "BrokenMetadataError: .*does not have the form"),
    "a_foreign_format": (lambda file: file.write_text('{"paimon": 1}'), "BrokenMetadataError: .*does not have the for"),
    "text_for_ids": (
        lambda file: file.write_text(file.read_text().replace('"snapshot-id": 1', '"snapshot-id": "one"')),
        "BrokenMetadataError: .*does not have the form",
    ),
    "nested_deep": (lambda file: file.write_text("[" * 100_000), "BrokenMetadataError: .*does not have the form"),
    "a_folder": (turn_into_a_folder, "BrokenMetadataError"),
    "manifest_list_gone": (
        lambda file: next(file.parent.glob("snap-5.avro")).unlink(),
        r"BrokenMetadataError: .*manifest list \S+/snap-5\.avro of snapshot 5 is gone",
    ),
    "manifest_damaged": (
        lambda file: next(file.parent.glob("data-0.avro")).write_bytes(b"Obj\x01junk"),
        r"BrokenMetadataError: .*manifest \S+/data-0\.avro cannot be read \(SystemError\)",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_table_is_an_entry_with_its_error_and_stops_nobody(
    name: str, lake_catalog: SqlCatalog, tmp_path: Path
) -> None:
    put(tmp_path, {"broken": ILL["small-files"], "well": well_table()})
    change, why = BROKEN[name]
    change(next((tmp_path / "made/broken/metadata").glob("*.metadata.json")))
    broken, well = table_health("shop.*", now=NOW)
    assert (broken.table, broken.score, well.score) == ("shop.broken", None, 100)
    assert broken.error is not None
    assert re.search(why, broken.error), broken.error
    assert "hunter2" not in broken.error
    assert TableHealth.from_json(broken.to_json()) == broken


def test_a_strangers_table_whose_dotted_name_is_that_of_another_is_an_entry_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    levels = {("shop", "a", "b"), ("shop", "a.b"), ("shop.a", "b"), ("shop", "a`.`b"), ("shop", "a", "%2Eb")}
    names = {levels: str(ListedTable(levels)) for levels in levels}
    assert len(set(names.values())) == len(levels)
    assert str(ListedTable(("shop", "\ud800\x1bé"))) == "shop.%ED%A0%80%1Bé"

    class Lake(Answers):
        def body(self, path: str) -> dict[str, Any]:
            if path.endswith("/namespaces"):
                return {"namespaces": [list(each) for each in {each[:-1] for each in levels}]}
            if path.endswith("/tables"):
                within = tuple(unquote(path.split("/")[-2]).split("\x1f"))
                return {
                    "identifiers": [
                        {"namespace": each[:-1], "name": each[-1]} for each in levels if each[:-1] == within
                    ]
                }
            return super().body(path)

    with serve(Lake()) as server:
        extra = {"type": "rest", "uri": server.uri}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "iceberg", "extra": extra}))
        found = by_name(table_health(now=NOW))
    assert found.keys() == set(names.values())
    assert [name for name, each in found.items() if each.error is None] == ["shop.a.b"]


def test_a_table_without_a_metadata_location_and_a_name_that_no_task_takes_stop_nobody(
    lake_catalog: SqlCatalog, tmp_path: Path
) -> None:
    put(tmp_path, {"well": well_table(), "my table; DROP": well_table()})
    register(tmp_path / "catalog.db", "lake_default", "shop", {"nowhere": ""})
    found = by_name(table_health("shop.*", now=NOW))
    assert {name: each.score for name, each in found.items()} == {
        "shop.well": 100,
        "shop.my%20table%3B%20DROP": None,
        "shop.nowhere": None,
    }
    # No task can be made for it.
    assert "no operator can name it" in (found["shop.my%20table%3B%20DROP"].error or "")


def test_a_file_that_a_commit_has_replaced_since_the_list_was_made_is_no_broken_table(
    orders: Table, append: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    append(orders, 1)
    listed = LakeCatalogHook.list_tables

    def committed_meanwhile(hook: LakeCatalogHook, within: tuple[str, ...] = ()) -> Any:
        tables, old = listed(hook, within), orders.metadata_location
        append(orders, 2)
        Path(old.removeprefix("file://")).unlink()
        return tables

    monkeypatch.setattr(LakeCatalogHook, "list_tables", committed_meanwhile)
    (found,) = table_health("shop.orders")
    assert (found.error, found.snapshots and found.snapshots.snapshots) == (None, 2)


@pytest.mark.usefixtures("tiny_connection")
def test_a_format_that_cannot_be_judged_without_spark_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"connection 'lake_default': table format 'tiny' lacks 'health'"):
        table_health()


@contextmanager
def rest_catalog(tables: dict[str, dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Serve tables of the namespace ``shop`` as a REST catalog does; give its address and what it is asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = unquote(self.path.partition("?")[0])
            asked.append(path)
            name = path.rpartition("/")[2]
            body: dict[str, Any] = {"defaults": {}, "overrides": {}}
            if path == "/v1/namespaces":
                body = {"namespaces": [] if "parent" in self.path else [["shop"]]}
            elif path == "/v1/namespaces/shop/tables":
                body = {"identifiers": [{"namespace": ["shop"], "name": name} for name in tables]}
            elif name in tables:
                body = tables[name]
            elif path != "/v1/config":
                body = {"error": {"message": "no such table", "type": "NoSuchTableException", "code": 404}}
            text = json.dumps(body).encode()
            self.send_response(404 if "error" in body else 200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def test_a_rest_catalog_is_asked_once_for_each_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {}
    for name, table in {**ILL, "well": well_table()}.items():
        location = table.write(tmp_path / name, NOW)
        metadata = json.loads(Path(location.removeprefix("file://")).read_text())
        answers[name] = {"metadata-location": location, "metadata": metadata, "config": {}}
    answers["broken"] = {"metadata-location": "file:///x", "metadata": {"format-version": 2}}
    answers["gone"] = {"error": {"message": "gone", "type": "NoSuchTableException", "code": 404}}
    with rest_catalog(answers) as (uri, asked):
        extra = {"type": "rest", "uri": uri}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "iceberg", "extra": extra}))
        found = table_health(now=NOW)
    assert [each.table for each in found][:2] == ["shop.broken", "shop.gone"]
    assert [(each.error or "").partition(":")[0] for each in found][:2] == ["BrokenMetadataError", "MissingTableError"]
    for name in ILL:
        assert name in [part.name for part in by_name(found)[f"shop.{name}"].findings]
    assert (found[-1].table, found[-1].score) == ("shop.well", 100)
    of_tables = [path for path in asked if "/tables/" in path]
    history = "/v1/namespaces/lake_ops/tables/maintenance_history"
    assert sorted(of_tables) == sorted([history, *(f"/v1/namespaces/shop/tables/{name}" for name in answers)])
