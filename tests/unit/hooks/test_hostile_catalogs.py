"""Catalogs that are silent, slow, huge, wrong or gone in one of their calls, asked through real sockets."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from pyiceberg.table import Table
from requests import Request
from urllib3 import PoolManager

from airflow_lake_provider.contracts.errors import (
    AccessDeniedError,
    BrokenMetadataError,
    CatalogUnavailableError,
    InvalidConnectionError,
    LakeProviderError,
    MissingTableError,
    UnsupportedError,
)
from airflow_lake_provider.hooks.bounded_catalogs.rest_catalog import BoundedRequests
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.tables.base import ListedTable
from tests.unit.hostile_server import HostileServer, serving

SECONDS = 0.4
# An answer is given up at the deadline; the rest is a busy machine's.
LATEST = SECONDS + 2.5

UNANSWERED = [
    *("silent", "slow body", "slow chunks", "slow header", "endless headers", "endless redirects"),
    *("cut off", "reset", "packed twice", "server error", "no json"),
]
TOO_LARGE = ["huge", "huge unpacked"]
WRONG = ["wrong types", "a list", "deep", "surrogate"]


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__CATALOG_TIMEOUT", str(SECONDS))
    monkeypatch.setenv("AIRFLOW__LAKE__CATALOG_ANSWER_MEGABYTES", "2")


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Metadata of a table with a snapshot; servers only read it."""
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog

    folder = tmp_path_factory.mktemp("lake")
    with closing(SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")) as catalog:
        catalog.create_namespace("shop")
        rows = pa.table({"id": [1]})
        orders = catalog.create_table("shop.orders", schema=rows.schema)
        orders.append(rows)
    found: dict[str, Any] = json.loads(orders.metadata.model_dump_json())
    return found


def connect(monkeypatch: pytest.MonkeyPatch, server: HostileServer, **extra: Any) -> Any:
    from airflow_lake_provider.hooks.bounded_catalogs.iceberg_catalog import catalog_opener
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

    catalog_opener("rest")  # imports, whose time is nobody's
    fields: dict[str, Any] = {"conn_type": "iceberg", "host": server.uri, "extra": {"type": "rest", **extra}}
    if "token" in server.modes and not extra:
        fields |= {"login": "client", "password": "secret-of-client"}
        fields["extra"] |= {"oauth2-server-uri": f"{server.uri}/token"}
    monkeypatch.setenv("AIRFLOW_CONN_HOSTILE", json.dumps(fields))
    return LakeCatalogHook("hostile")


@pytest.mark.parametrize("call", ["token", "config", "table"])
@pytest.mark.parametrize("mode", [*UNANSWERED, *TOO_LARGE, *WRONG])
def test_a_call_that_goes_wrong_ends_in_time_with_an_error_of_ours(
    call: str, mode: str, metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(metadata, **{call: mode}) as server:
        hook = connect(monkeypatch, server)
        begin = time.monotonic()
        with pytest.raises(LakeProviderError, match=r"connection 'hostile'|table shop\.orders in hostile: ") as failed:
            hook.load_table("shop.orders")
        assert time.monotonic() - begin < 2 * LATEST
    assert len(str(failed.value)) < 2000
    assert "secret-of-client" not in str(failed.value)
    # Another answer may come of what was none; what is too large, or no table, stays so.
    stays = mode in TOO_LARGE or (call == "table" and mode in ("wrong types", "a list"))
    assert isinstance(failed.value, BrokenMetadataError if stays else CatalogUnavailableError), failed.value


# A text that no file can hold is read, as nothing is done with it.
@pytest.mark.parametrize("mode", [*UNANSWERED, *TOO_LARGE, *(mode for mode in WRONG if mode != "surrogate")])
def test_a_table_that_is_read_for_its_facts_alone_keeps_the_same_limits(
    mode: str, metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(metadata, table=mode) as server:
        hook = connect(monkeypatch, server)
        begin = time.monotonic()
        with pytest.raises(LakeProviderError, match=r"connection 'hostile'|table shop\.orders in hostile: ") as failed:
            hook.look_at(ListedTable(("shop", "orders")), lambda table: table.facts)
        assert time.monotonic() - begin < 2 * LATEST
    assert len(str(failed.value)) < 2000
    stays = mode in TOO_LARGE or mode in ("wrong types", "a list")
    assert isinstance(failed.value, BrokenMetadataError if stays else CatalogUnavailableError), failed.value


LATER = {408, 419, 425, 429, 500, 502, 503, 504, 507, 599}
REFUSED = {400, 401, 402, 403, 404, 405, 406, 409, 410, 415, 418, 422, 451, 499}


def error_of(status: int, call: str, body: str) -> type[LakeProviderError]:
    """What an answer that is no success means: come again, not with these credentials, or not at this address."""
    if status == 501:
        return UnsupportedError
    if status in LATER:
        return CatalogUnavailableError
    if (status, call) == (403, "table"):
        return AccessDeniedError
    if status in (401, 403) or (call == "token" and status == 400):
        return InvalidConnectionError
    if body in ("page", "wrong"):
        return CatalogUnavailableError
    return MissingTableError if (status, call) == (404, "table") else InvalidConnectionError


@pytest.mark.parametrize("body", ["said", "page", "wrong", "empty"])
@pytest.mark.parametrize("call", ["token", "config", "table"])
@pytest.mark.parametrize("status", sorted({501, *LATER, *REFUSED}))
def test_each_status_of_an_answer_ends_in_an_error_that_says_whether_to_come_again(
    status: int, call: str, body: str, metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__CATALOG_TIMEOUT", "20")
    with serving(metadata, **{call: f"status {status} {body}"}) as server:
        hook = connect(monkeypatch, server)
        with pytest.raises(LakeProviderError, match=r"connection 'hostile'|table shop\.orders in hostile: ") as failed:
            hook.load_table("shop.orders")
    assert type(failed.value) is error_of(status, call, body), failed.value


@pytest.mark.parametrize("mode", [*UNANSWERED, *TOO_LARGE, *WRONG])
def test_the_button_of_a_connection_says_no_in_time(
    mode: str, metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(metadata, namespaces=mode) as server:
        hook = connect(monkeypatch, server)
        begin = time.monotonic()
        ok, said = hook.test_connection()
        assert time.monotonic() - begin < 2 * LATEST
    assert (ok, "hostile" in said) == (False, True)


@pytest.mark.parametrize("mode", ["silent", "slow body", "huge", "reset", "no json"])
def test_a_token_of_oauth2_is_asked_for_within_the_same_limits(
    mode: str, metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(metadata, token=mode) as server:
        oauth2 = {"client_id": "c", "client_secret": "s3cr3t-of-ours", "token_url": f"{server.uri}/token"}
        auth = {"type": "oauth2", "oauth2": oauth2}
        hook = connect(monkeypatch, server, pyiceberg={"auth": auth})
        begin = time.monotonic()
        with pytest.raises(LakeProviderError) as failed:
            hook.load_table("shop.orders")
        assert time.monotonic() - begin < 2 * LATEST
    assert "token" in server.asked
    assert "s3cr3t-of-ours" not in str(failed.value)


def test_a_sound_catalog_is_read_with_a_token_of_either_kind(
    metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__CATALOG_TIMEOUT", "30")
    with serving(metadata, token="sound") as server:
        assert connect(monkeypatch, server).load_table("shop.orders").metadata.current_snapshot_id
        oauth2 = {"client_id": "c", "client_secret": "secret", "token_url": f"{server.uri}/token"}
        auth = {"type": "oauth2", "oauth2": oauth2}
        server.modes.clear()
        hook = connect(monkeypatch, server, pyiceberg={"auth": auth})
        assert hook.load_table("shop.orders").metadata.current_snapshot_id
        hook.load_table("shop.orders")
    # One for the session of the configuration and one for that of the catalog.
    assert server.asked.count("token") == 4


def test_a_catalog_that_is_gone_is_unavailable(metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(metadata) as server:
        hook = connect(monkeypatch, server)
        hook.load_table("shop.orders")
    with pytest.raises(CatalogUnavailableError):
        hook.load_table("shop.orders")
    with pytest.raises(CatalogUnavailableError):
        connect(monkeypatch, server).load_table("shop.orders")


def test_numbers_that_no_writer_makes_are_an_error_of_the_table(
    metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(metadata, table="negative numbers") as server, pytest.raises(BrokenMetadataError, match="1970"):
        connect(monkeypatch, server).load_table("shop.orders")


@pytest.mark.usefixtures("orders")
def test_a_silent_catalog_keeps_no_other_one_from_being_opened(
    metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch, lake_connection: str
) -> None:
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

    monkeypatch.setenv("AIRFLOW__LAKE__CATALOG_TIMEOUT", "20")
    with serving(metadata, config="silent") as server:
        hook = connect(monkeypatch, server)
        silent = threading.Thread(target=lambda: hook.catalog, daemon=True)
        silent.start()
        LakeCatalogHook(lake_connection).load_table("shop.orders")
        assert silent.is_alive()
        server.healed.set()
        silent.join(10)
    assert not silent.is_alive()


@pytest.mark.parametrize("driver", ["postgresql+psycopg2"])
def test_a_database_that_takes_connections_and_says_nothing_is_given_up(
    driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

    with socket.create_server(("127.0.0.1", 0)) as mute:
        host = f"{driver}://127.0.0.1:{mute.getsockname()[1]}/lake"
        fields = {"conn_type": "iceberg", "host": host, "login": "u", "extra": {"type": "sql", "warehouse": "/tmp/w"}}
        monkeypatch.setenv("AIRFLOW_CONN_HOSTILE", json.dumps(fields))
        begin = time.monotonic()
        with pytest.raises(CatalogUnavailableError):
            _ = LakeCatalogHook("hostile").catalog
        assert time.monotonic() - begin < 8


def test_a_locked_file_of_a_database_is_given_up_at_the_deadline(lake_connection: str, orders: Table) -> None:
    hook = LakeCatalogHook(lake_connection)
    hook.load_table("shop.orders")
    database: Any = orders.catalog
    with closing(sqlite3.connect(database.engine.url.database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        begin = time.monotonic()
        with pytest.raises(CatalogUnavailableError):
            hook.load_table("shop.orders")
        assert time.monotonic() - begin < LATEST
    assert hook.load_table("shop.orders").metadata.table_uuid == orders.metadata.table_uuid


def test_a_metastore_that_takes_connections_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_lake_provider.hooks.bounded_catalogs.iceberg_catalog import catalog_opener
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

    pytest.importorskip("thrift")
    catalog_opener("hive")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        host = f"thrift://127.0.0.1:{mute.getsockname()[1]}"
        fields = {"conn_type": "iceberg", "host": host, "extra": {"type": "hive", "warehouse": "/tmp/w"}}
        monkeypatch.setenv("AIRFLOW_CONN_HOSTILE", json.dumps(fields))
        begin = time.monotonic()
        with pytest.raises(CatalogUnavailableError):
            LakeCatalogHook("hostile").load_table("shop.orders")
        assert time.monotonic() - begin < LATEST


def test_a_glue_that_takes_connections_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_lake_provider.hooks.bounded_catalogs import glue_catalog
    from airflow_lake_provider.hooks.bounded_catalogs.iceberg_catalog import catalog_opener
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

    pytest.importorskip("botocore")
    catalog_opener("glue")
    monkeypatch.setattr(glue_catalog, "_READ_SECONDS", 0.3)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "for-nobody")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        glue = {"glue.endpoint": f"http://127.0.0.1:{mute.getsockname()[1]}", "glue.region": "eu-west-1"}
        fields = {"conn_type": "iceberg", "extra": {"type": "glue", "warehouse": "s3://lake/w", **glue}}
        monkeypatch.setenv("AIRFLOW_CONN_HOSTILE", json.dumps(fields))
        hook = LakeCatalogHook("hostile")
        _ = hook.catalog
        begin = time.monotonic()
        with pytest.raises(CatalogUnavailableError):
            hook.load_table("shop.orders")
        assert time.monotonic() - begin < LATEST + 2


@pytest.fixture
def mute_addresses(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Five addresses of ``many.example``, at which connections are neither taken nor refused; yields their port."""
    with ExitStack() as opened:
        first = opened.enter_context(socket.create_server(("127.0.0.2", 0), backlog=0))
        port = first.getsockname()[1]
        addresses = [f"127.0.0.{last}" for last in range(2, 7)]
        for address in addresses[1:]:
            opened.enter_context(socket.create_server((address, port), backlog=0))
        for address in addresses * 3:  # until the queue is full
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((address, port))
        resolve = socket.getaddrinfo

        def resolved(host: str, *args: Any, **kwargs: Any) -> list[Any]:
            hosts = addresses if host == "many.example" else [host]
            return [found for each in hosts for found in resolve(each, *args, **kwargs)]

        monkeypatch.setattr(socket, "getaddrinfo", resolved)
        yield port


@pytest.mark.parametrize("kind", ["rest", "hive"])
def test_a_host_of_many_silent_addresses_is_given_up_at_the_deadline_of_the_call(
    kind: str, mute_addresses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_lake_provider.hooks.bounded_catalogs.iceberg_catalog import catalog_opener
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

    catalog_opener(kind)
    host = f"{'http' if kind == 'rest' else 'thrift'}://many.example:{mute_addresses}"
    fields = {"conn_type": "iceberg", "host": host, "extra": {"type": kind, "warehouse": "/tmp/w"}}
    monkeypatch.setenv("AIRFLOW_CONN_HOSTILE", json.dumps(fields))
    hook = LakeCatalogHook("hostile", timeout=1.0)
    begin = time.monotonic()
    with pytest.raises(CatalogUnavailableError):
        hook.load_table("shop.orders")
    assert time.monotonic() - begin < 2.5


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_client_that_pyicebergs_own_oauth2_names_wrongly_is_no_outage(
    status: int, metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(metadata, token=f"status {status} said") as server:
        oauth2 = {"client_id": "c", "client_secret": "s3cr3t-of-ours", "token_url": f"{server.uri}/token"}
        hook = connect(monkeypatch, server, pyiceberg={"auth": {"type": "oauth2", "oauth2": oauth2}})
        with pytest.raises(InvalidConnectionError) as failed:
            hook.load_table("shop.orders")
    assert "s3cr3t-of-ours" not in str(failed.value)


def test_a_proxy_whose_connections_have_no_deadline_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = BoundedRequests()
    # PySocks, which requests takes for it, is not installed here.
    monkeypatch.setattr(requests._inner, "proxy_manager_for", lambda *_: PoolManager())
    request = Request("GET", "http://catalog.example.com/v1/config").prepare()
    with pytest.raises(InvalidConnectionError, match=r"proxy for catalog\.example\.com is of 'socks5'"):
        requests.send(request, proxies={"http": "socks5://user:s3cr3t@proxy.example.com:1080"})
