"""Commands over catalogs that are wrong, locked or gone say so in a sentence, and what they print as JSON is JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.lake_command import run_lake
from tests.unit.hostile_server import serving

AS_JSON = ("-o", "json")
COMMANDS = [
    ("health", *AS_JSON),
    ("plan", "--history", "off", *AS_JSON),
    ("policy", *AS_JSON),
    ("history", *AS_JSON),
    ("check", "shop.orders", *AS_JSON),
    ("connection",),
]
SECRET = "hush-hush-secret"


@contextmanager
def faulty(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make a connection ``hostile`` whose catalog has a fault."""

    def connect(**fields: Any) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_HOSTILE", json.dumps({"conn_type": "iceberg", **fields}))

    def rest(**modes: str) -> Any:
        server = serving({}, **modes)
        hostile = server.__enter__()
        connect(host=hostile.uri, login="client", password=SECRET, extra={"type": "rest"})
        return server

    database = folder / "hostile.db"
    sql = {"type": "sql", "uri": f"sqlite:///{database}?timeout=0.2", "warehouse": f"file://{folder}"}
    if kind.startswith("rest "):
        server = rest(namespaces=kind[5:], table=kind[5:], config="sound", token="sound")
        try:
            yield
        finally:
            server.__exit__(None, None, None)
    elif kind == "wrong type":
        connect(conn_type="postgres", host="db", password=SECRET)
        yield
    elif kind == "no database":
        connect(
            host=f"postgresql://u:{SECRET}@127.0.0.1:1/lake", extra={"type": "sql", "warehouse": f"file://{folder}"}
        )
        yield
    elif kind == "no connection":
        monkeypatch.delenv("AIRFLOW_CONN_HOSTILE", raising=False)
        yield
    elif kind == "locked":
        connect(extra=sql)
        with closing(sqlite3.connect(database, isolation_level=None)) as lock:
            lock.execute("CREATE TABLE other (a)")
            lock.execute("BEGIN EXCLUSIVE")
            yield
    elif kind == "other schema":
        connect(extra=sql)
        with closing(sqlite3.connect(database)) as made:
            made.execute("CREATE TABLE iceberg_tables (catalog TEXT, name TEXT)")
            made.execute("CREATE TABLE iceberg_namespace_properties (catalog TEXT)")
        yield
    else:
        database.write_bytes(b"no database at all, " * 100)
        connect(extra=sql)
        yield


@pytest.mark.parametrize("command", COMMANDS, ids=lambda given: given[0])
@pytest.mark.parametrize(
    "kind",
    [
        *("rest no json", "rest status 429 said", "rest status 503 page", "rest silent", "rest cut off"),
        *("rest endless redirects", "rest a list", "wrong type", "no database", "no connection", "locked"),
        *("other schema", "no file of a database"),
    ],
)
def test_a_fault_of_a_catalog_is_a_sentence_and_no_traceback(
    kind: str,
    command: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__CATALOG_TIMEOUT", "0.5")
    with faulty(kind, tmp_path, monkeypatch), pytest.raises(SystemExit) as ended:
        run_lake(*command, "--conn-id", "hostile")
    printed = capsys.readouterr()
    assert isinstance(ended.value.code, str)
    assert "hostile" in ended.value.code
    assert printed.out == ""
    assert SECRET not in f"{ended.value.code}{printed}"
    assert "Traceback" not in f"{ended.value.code}{printed}"
