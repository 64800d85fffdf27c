"""The hook on real connections from the environment and a real SqlCatalog; no Airflow database."""

from __future__ import annotations

import importlib
import json
import socket
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from airflow_lake_provider.contracts.errors import (
    CatalogUnavailableError,
    InvalidConnectionError,
    MissingTableError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.table_name import TableName


@pytest.fixture
def hook_class(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    # Airflow makes its home when it is imported; here that is never the user's own.
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    return importlib.import_module("airflow_lake_provider.hooks.lake_catalog").LakeCatalogHook


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SqlCatalog]:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("lake_default", uri=uri, warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", Schema(NestedField(1, "id", LongType(), required=True)))
    set_connection(monkeypatch, host=uri, extra={"type": "sql", "warehouse": f"{tmp_path}/warehouse"})
    yield catalog
    catalog.close()


def set_connection(monkeypatch: pytest.MonkeyPatch, conn_type: str = "iceberg", **fields: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": conn_type, **fields}))


@pytest.mark.usefixtures("lake")
def test_a_table_is_loaded_by_text_and_by_name(hook_class: Any) -> None:
    hook = hook_class()
    assert [field.name for field in hook.load_table("shop.orders").schema().fields] == ["id"]
    assert hook.load_table(TableName.parse("shop.orders")).name() == ("shop", "orders")


@pytest.mark.usefixtures("lake")
def test_the_catalog_is_opened_once(hook_class: Any) -> None:
    hook = hook_class()
    assert hook.catalog is hook.catalog
    assert hook.get_conn() is hook.catalog
    hook.catalog.close()


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize("name", ["shop.absent", "absent.orders"])
def test_an_absent_table_or_namespace_is_a_missing_table(hook_class: Any, name: str) -> None:
    with pytest.raises(MissingTableError, match=name):
        hook_class().load_table(name)


def test_an_absent_connection_is_named_and_shown_how_to_make(hook_class: Any) -> None:
    with pytest.raises(
        InvalidConnectionError, match=r"connection 'nowhere'.*does not exist.*\"conn_type\": \"iceberg\""
    ):
        _ = hook_class("nowhere").connection


def test_a_connection_of_another_type_is_refused(hook_class: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    set_connection(monkeypatch, conn_type="spark", host="local")
    with pytest.raises(InvalidConnectionError, match="type is 'spark', expected 'iceberg'"):
        _ = hook_class().connection


def test_a_broken_extra_is_refused_rather_than_read_as_empty(hook_class: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    set_connection(monkeypatch, host="https://c", extra='{"warehouse": ')
    with pytest.raises(InvalidConnectionError, match="extra is not JSON"):
        _ = hook_class().connection


def test_a_catalog_that_does_not_answer_is_unavailable(hook_class: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # bound, not listening: every connection is refused
        set_connection(monkeypatch, host=f"http://127.0.0.1:{reserved.getsockname()[1]}")
        with pytest.raises(CatalogUnavailableError, match=r"connection 'lake_default'.*did not answer"):
            hook_class().load_table("shop.orders")
        ok, said = hook_class().test_connection()
    assert not ok
    assert "did not answer" in said


def test_a_database_that_does_not_answer_is_unavailable_and_its_password_unseen(
    hook_class: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        set_connection(
            monkeypatch,
            host=f"postgresql+psycopg2://127.0.0.1:{reserved.getsockname()[1]}/lake",
            login="lake",
            password="hunter2-hunter2",
            extra={"type": "sql", "warehouse": "/tmp/lake"},
        )
        with pytest.raises(CatalogUnavailableError) as unavailable:
            _ = hook_class().catalog
    assert "hunter2" not in str(unavailable.value)


@pytest.mark.usefixtures("lake")
def test_the_button_in_the_form_counts_namespaces(hook_class: Any) -> None:
    assert hook_class().test_connection() == (True, "The sql catalog 'lake_default' answered: 1 namespaces.")


def test_secrets_are_masked_once_the_connection_is_read(hook_class: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk._shared.secrets_masker import redact

    # Airflow masks by names with "secret", "password" or "token" in them; an access key's id and a header have none.
    extra = {"s3.access-key-id": "AKIA-UNSEEN", "s3.secret-access-key": "unseen-too", "header.X-Api": "unseen-header"}
    extra |= {"oauth2-server-uri": "https://c/v1/oauth/tokens"}
    set_connection(monkeypatch, host="https://c", login="id", password="unseen-half", extra=extra)
    _ = hook_class().connection
    text = "AKIA-UNSEEN unseen-too unseen-header id:unseen-half"
    assert "unseen" not in str(redact(text)).lower()


def test_the_button_answers_false_in_a_sentence_whatever_goes_wrong(
    hook_class: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A driver that is not installed, a property that PyIceberg refuses, and a name that Spark would refuse.
    sql = {"type": "sql", "warehouse": "/tmp/lake"}
    postgresql = {"host": "postgresql+pg8000://127.0.0.1:1/lake", "login": "lake", "password": "hunter2-hunter2"}
    monkeypatch.setitem(sys.modules, "pg8000", None)
    cases: list[tuple[dict[str, Any], str]] = [
        ({**postgresql, "extra": sql}, "not installed"),
        ({"host": "sqlite:////tmp/nowhere/at/all.db", "extra": sql}, "unable to open database file"),
        ({"host": "https://c", "extra": {"typ": "rest"}}, "'typ' is unknown"),
    ]
    for fields, said in cases:
        set_connection(monkeypatch, **fields)
        ok, sentence = hook_class().test_connection()
        assert (ok, said in sentence) == (False, True), sentence
        assert "hunter2" not in sentence


@pytest.mark.parametrize(
    ("fields", "module", "extra"),
    [
        ({"host": "postgresql://h/lake", "extra": {"type": "sql", "warehouse": "/lake"}}, "psycopg2", "'postgres'"),
        ({"host": "thrift://h:9083", "extra": {"type": "hive"}}, "thrift.protocol", "'hive'"),
        ({"extra": {"type": "glue", "warehouse": "s3://b/lake"}}, "boto3", "'glue'"),
        ({"host": "http://h", "extra": {"rest.sigv4-enabled": True}}, "boto3", "'rest-sigv4'"),
    ],
)
def test_a_package_that_is_missing_is_refused_with_the_extra_that_brings_it(
    fields: dict[str, Any], module: str, extra: str, hook_class: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for loaded in ("pyiceberg.catalog.hive", "pyiceberg.catalog.glue"):
        monkeypatch.delitem(sys.modules, loaded, raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    set_connection(monkeypatch, **fields)
    with pytest.raises(UnsupportedError, match=rf"^connection 'lake_default': .*not installed.*extra {extra}"):
        hook_class().load_table("shop.orders")


@pytest.mark.parametrize(
    ("extra", "module", "wanted"),
    [
        ({"pyiceberg": {"auth": {"type": "google"}}}, "google.auth", "Please install 'google-auth'"),
        (
            {"pyiceberg": {"auth": {"type": "entra", "entra": {}}}},
            "azure.identity",
            "Please install with: pip install pyiceberg[entra-auth]",
        ),
    ],
)
def test_a_package_that_no_extra_brings_is_named_by_the_error_alone(
    extra: dict[str, Any], module: str, wanted: str, hook_class: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    set_connection(monkeypatch, host="http://h", extra=extra)
    with pytest.raises(UnsupportedError) as refused:
        hook_class().load_table("shop.orders")
    assert str(refused.value).endswith(f" not found. {wanted}. Install it where tasks and the triggerer run")


def answer_of_the_form(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> tuple[bool, str]:
    """Ask as the button does: Airflow gives the fields an id of its own and asks the hook of the type."""
    from airflow.models.connection import Connection

    monkeypatch.setenv("AIRFLOW_CONN_TRANSIENT", json.dumps({"conn_type": "iceberg", **fields}))
    connection: Any = Connection(conn_id="transient", conn_type="iceberg")
    found: tuple[bool, str] = connection.test_connection()
    return found


@pytest.mark.usefixtures("lake")
def test_the_button_in_airflows_form_asks_the_official_hook_whose_answers_differ(
    hook_class: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    extra = {"type": "sql", "warehouse": f"{tmp_path}/warehouse", "catalog_name": "lake_default"}
    sqlite: dict[str, Any] = {"host": f"sqlite:///{tmp_path}/catalog.db", "extra": extra}
    # It opens a catalog by the form's transient id, which has no tables; ours opens the one that was named.
    assert answer_of_the_form(monkeypatch, **sqlite) == (True, "Connected. Found 0 namespace(s).")
    assert hook_class("transient").test_connection()[1] == "The sql catalog 'lake_default' answered: 1 namespaces."
    # It takes what no job takes.
    misspelt = {**sqlite, "extra": {**extra, "warehose": "/tmp/lake"}}
    assert answer_of_the_form(monkeypatch, **misspelt)[0]
    assert "'warehose' is unknown" in hook_class("transient").test_connection()[1]


@pytest.mark.parametrize("sign_in", ["token", "credential", "header.X-Key"])
@pytest.mark.parametrize("answer", ["closed", "unreadable", "letters"])
def test_no_error_shows_a_secret_nor_the_errors_behind_it(
    sign_in: str, answer: str, hook_class: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "SECRET-\u20ac-half" if answer == "letters" else "SECRET-half"
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{reserved.getsockname()[1]}" + ("/%zz" if answer == "unreadable" else "")
        extra = {sign_in: f"id:{secret}" if sign_in == "credential" else secret}
        extra |= {"oauth2-server-uri": f"{uri}/t?x={secret}"} if sign_in == "credential" else {}
        set_connection(monkeypatch, host=uri, extra=extra)
        with pytest.raises(Exception) as raised:  # noqa: PT011  # of any library
            hook_class().load_table("shop.orders")
    error: BaseException | None = raised.value
    shown = "".join(traceback.format_exception(raised.value))
    while error is not None:
        shown += repr(error) + str(error)
        error = error.__cause__ or error.__context__
    assert "half" not in shown
