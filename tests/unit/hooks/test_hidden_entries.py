"""A REST catalog that shows one namespace, and one table of it, to others only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_lake_provider.contracts.errors import AccessDeniedError
from airflow_lake_provider.contracts.table_name import TablePatterns
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.table_health import table_health
from airflow_lake_provider.triggers.poll_threads import PollThreads
from tests.unit.hooks.rest_server import serve_json

NAMESPACES = {"shop": ["orders", "salaries"], "staff": ["people"]}
HIDDEN = ("/namespaces/staff", "/tables/salaries")


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The connection ``lake_default``, to that catalog."""
    made = SqlCatalog("made", uri=f"sqlite:///{tmp_path}/made.db", warehouse=f"file://{tmp_path}")
    with closing(made):
        made.create_namespace("shop")
        orders = made.create_table("shop.orders", schema=pa.schema([("id", pa.int64())]))
        orders.append(pa.table({"id": [1]}))
    loaded = {"metadata-location": orders.metadata_location, "metadata": json.loads(orders.metadata.model_dump_json())}

    def answer(path: str) -> dict[str, Any]:
        names = path.strip("/").split("/")[2:]
        if path.endswith("/config"):
            return {"defaults": {}, "overrides": {}}
        if not names:
            return {"namespaces": [[name] for name in NAMESPACES]}
        if names[1:] == ["tables"]:
            return {"identifiers": [{"namespace": [names[0]], "name": name} for name in NAMESPACES[names[0]]]}
        return {**loaded, "config": {}}

    def answer_or_hide(address: str) -> tuple[int, Any]:
        path, _, asked = unquote(address).partition("?")
        if any(hidden in path for hidden in HIDDEN):
            return 403, {"error": {"message": "not yours", "type": "ForbiddenException", "code": 403}}
        return 200, {"namespaces": []} if "parent=" in asked else answer(path)

    with serve_json(answer_or_hide) as uri:
        extra = {"type": "rest", "uri": uri}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "iceberg", "extra": extra}))
        yield


@pytest.mark.usefixtures("catalog")
def test_a_namespace_that_may_not_be_listed_hides_no_other_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    found = {each.table: each.error for each in table_health("*")}
    assert found["shop.orders"] is None
    assert str(found["shop.salaries"]).startswith("AccessDeniedError: ")
    assert found.keys() == {"shop.orders", "shop.salaries"}
    assert "namespace staff may not be listed" in caplog.text


@pytest.mark.usefixtures("catalog")
def test_a_namespace_that_is_asked_for_by_name_is_an_error_where_it_may_not_be_listed() -> None:
    with pytest.raises(AccessDeniedError, match="namespace staff: access was denied"):
        LakeCatalogHook().tables_matching(TablePatterns.parse("staff.*"))


# An InvalidConnectionError would be told to the triggers of all tables, and fail each deferred task.
@pytest.mark.usefixtures("catalog")
def test_a_table_that_may_not_be_loaded_says_nothing_of_its_neighbours_to_a_triggerer() -> None:
    looks = PollThreads("lake_default")
    with pytest.raises(AccessDeniedError, match=r"table shop\.salaries: access was denied"):
        looks.look("shop.salaries", ("main",), None)
    changed = looks.look("shop.orders", ("main",), None)
    assert changed is not None
    assert changed.heads["main"].head is not None
