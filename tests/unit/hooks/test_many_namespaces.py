"""A REST catalog of many namespaces, some below others, each of whose answers takes its time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from airflow_lake_provider.contracts.errors import CatalogUnavailableError
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from tests.unit.hooks.rest_server import serve_json

OUTER, INNER = 20, 4
SECONDS = 0.02
# Tables, and the namespaces below, are asked of each.
REQUESTS = 2 * (OUTER + OUTER * INNER)
NAMES = {f"n{outer}.m{inner}.t" for outer in range(OUTER) for inner in range(INNER)} | {
    f"n{outer}.t" for outer in range(OUTER)
}


@dataclass
class Requests:
    """Requests that take their time.

    :param most: that were answered at once.
    """

    all: int = 0
    now: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, address: str) -> tuple[int, Any]:
        if urlsplit(address).path.endswith("/config"):
            return 200, {"defaults": {}, "overrides": {}}
        with self.lock:
            self.all, self.now = self.all + 1, self.now + 1
            self.most = max(self.most, self.now)
        time.sleep(SECONDS)
        with self.lock:
            self.now -= 1
        return answer(address)


def answer(address: str) -> tuple[int, Any]:
    parts = urlsplit(address)
    if parts.path.endswith("/tables"):
        levels = unquote(parts.path.split("/")[-2]).split("\x1f")
        return 200, {"identifiers": [{"namespace": levels, "name": "t"}]}
    parent = parse_qs(parts.query).get("parent", [""])[0]
    outer = unquote(parent).split("\x1f") if parent else []
    if not outer:
        return 200, {"namespaces": [[f"n{number}"] for number in range(OUTER)]}
    # This server lists a namespace below itself, too.
    below = [[*outer, f"m{number}"] for number in range(INNER)] if len(outer) == 1 else []
    return 200, {"namespaces": [outer, *below]}


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[Requests]:
    asked = Requests()
    with serve_json(asked.answer) as uri:
        given = {"conn_type": "iceberg", "host": uri, "extra": {"type": "rest"}}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(given))
        yield asked


def test_the_tables_of_many_namespaces_are_listed_at_once(requests: Requests) -> None:
    hook = LakeCatalogHook(timeout=60)
    assert sorted(map(str, hook.list_tables())) == sorted(NAMES)
    assert {str(each) for each in hook.list_tables(("n7",))} == {each for each in NAMES if each.startswith("n7.")}
    assert requests.most > 4


def test_a_list_that_is_late_is_no_answer_of_the_catalog(requests: Requests) -> None:
    hook = LakeCatalogHook(timeout=10 * SECONDS)
    with pytest.raises(CatalogUnavailableError, match="did not answer"):
        hook.list_tables()
    assert requests.all < REQUESTS
