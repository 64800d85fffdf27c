"""A catalog on a PostgreSQL that falls silent in the middle of a statement is given up at the deadline."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_lake_provider.contracts.errors import CatalogUnavailableError
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from tests.benchmarks.freezing_proxy import FreezingProxy
from tests.end_to_end.postgresql_server import postgresql_server


def test_a_database_that_falls_silent_is_given_up_and_asked_again_when_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgresql_server(password=uuid.uuid4().hex) as server:
        proxy = FreezingProxy(server.port)
        fields = {
            "conn_type": "iceberg",
            "host": f"postgresql+psycopg2://127.0.0.1:{proxy.port}/postgres",
            "login": server.user,
            "password": server.password,
            "extra": {"type": "sql", "warehouse": f"file://{tmp_path}"},
        }
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(fields))
        hook = LakeCatalogHook("lake_default", timeout=30)
        hook.catalog.create_namespace("shop")
        hook.catalog.create_table("shop.orders", schema=pa.schema([("id", pa.int64())]))
        assert hook.load_table("shop.orders").metadata.location
        hook.timeout = 1.0
        proxy.freeze()
        begin = time.monotonic()
        with pytest.raises(CatalogUnavailableError, match="did not answer"):
            hook.load_table("shop.orders")
        assert time.monotonic() - begin < 6
        proxy.thaw()
        hook.timeout = 30
        assert hook.load_table("shop.orders").metadata.location
        hook.catalog.close()
        proxy.stop()
