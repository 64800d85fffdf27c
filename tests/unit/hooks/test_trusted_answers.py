"""Hostile answers of a REST server, and of tables: they choose no code, and no secret goes to another server."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.tables.base import ListedTable
from tests.unit.hooks.rest_server import OWN, THIEF, Answers, hook, serve

SECRETS = ("OWN-KEY", "OWN-SECRET", "OWN-SESSION", "OWN-GCS", "OWN-ADLS")
_CUSTOM = {"type": "custom", "impl": "strangers_code.Stranger", "custom": {"args": "x"}}
HOSTILE: dict[str, dict[str, Any]] = {
    "code for files": {"py-io-impl": "strangers_code.Stranger"},
    "code that retries": {"s3.retry-strategy-impl": "strangers_code.Stranger"},
    "code that signs in": {"auth": _CUSTOM},
    "code of Java for files": {"io-impl": "strangers.Code"},
    "an endpoint of S3": {"s3.endpoint": THIEF},
    "an endpoint of S3 with half a key": {"s3.endpoint": THIEF, "s3.access-key-id": "VENDED"},
    "an endpoint of S3 with empty keys": {"s3.endpoint": THIEF, "s3.access-key-id": "", "s3.secret-access-key": ""},
    "a region that is a host": {"s3.region": "thief.example.com/#", "client.region": "x.thief.example.com"},
    "a proxy": {"s3.proxy-uri": THIEF, "http-client.proxy-endpoint": THIEF},
    "a signer": {"s3.signer": "S3V4RestSigner", "s3.signer.uri": THIEF, "s3.remote-signing-enabled": "true"},
    "a signer in the path": {"s3.signer": "S3V4RestSigner", "s3.signer.endpoint": f"{THIEF}/sign"},
    "a role": {"s3.role-arn": "arn:aws:iam::1:role/thief", "client.assume-role.arn": "arn:aws:iam::1:role/thief"},
    "an endpoint of GCS": {"gcs.service.host": THIEF},
    "an account of Azure": {
        "adls.account-host": "thief.example.com",
        "adls.dfs-storage-authority": "thief.example.com",
    },
    "an account of Azure with a token": {
        "adls.account-host": "thief.example.com",
        "adls.sas-token.acct.thief.example.com": "sig=x",
    },
    "a token endpoint": {"oauth2-server-uri": f"{THIEF}/tokens"},
    "signing for AWS": {"rest.sigv4-enabled": "true", "rest.signing-name": "s3"},
    "headers": {"header.Host": "thief.example.com", "header.X-Key": "a\r\nb"},
    "certificates": {"ssl": {"cabundle": "/tmp/thief.pem"}},
    "settings of Hadoop": {"hadoop.fs.s3a.endpoint": THIEF, "fs.file.impl": "strangers.Code"},
}
PLACES = ("defaults", "overrides", "table", "credentials", "properties")


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that anybody could name; the file is there once it ran."""
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w').close()\nclass Stranger:\n    def __init__(self, *_, **__): pass\n"
    (tmp_path / "strangers_code.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield ran
    sys.modules.pop("strangers_code", None)


@contextmanager
def hook_of(answers: Answers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Give a hook with settings and a token of its own, whose catalog gives some answers."""
    with serve(answers) as server:
        yield hook(monkeypatch, tmp_path, server.uri, **OWN, token="TOKEN")


def answers_with(place: str, said: Mapping[str, Any]) -> Answers:
    texts = {name: value for name, value in said.items() if isinstance(value, str)}
    found = Answers()
    if place == "credentials":
        found.credentials.append({"prefix": "s3://bucket", "config": texts})
    else:
        getattr(found, place).update(texts if place == "properties" else said)
    return found


def assert_harmless(table: Table, marks: Path, said: Mapping[str, Any]) -> None:
    assert not marks.exists()
    assert type(table.io) is PyArrowFileIO
    properties = table.io.properties
    obeyed = {name for name, value in said.items() if properties.get(name) == value}
    # Whose token is vended, it is used alone, and at Microsoft.
    vended = {name for name in obeyed if name.startswith("adls.sas-token.")}
    assert obeyed <= {"s3.signer", "s3.remote-signing-enabled"} | vended
    left_out = {"OWN-ADLS"} if vended else set()
    assert {value for value in properties.values() if value in SECRETS} == set(SECRETS) - left_out


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_answer_chooses_no_code_and_gets_no_secret_and_starts_no_job(
    what: str, place: str, marks: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = HOSTILE[what]
    with hook_of(answers_with(place, said), monkeypatch, tmp_path) as lake:
        assert_harmless(lake.load_table("shop.orders"), marks, said)
        named = followed_by_spark(place, said)
        if not named:
            lake.refuse_for_spark(["shop.orders"])
            return
        with pytest.raises(UnsupportedError) as refused:
            lake.refuse_for_spark(["shop.orders"])
    assert any(repr(name) in str(refused.value) for name in named)
    assert not any(secret in str(refused.value) for secret in SECRETS)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_answer_that_is_read_for_its_facts_alone_is_as_harmless_once_it_is_parsed(
    what: str, place: str, marks: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = HOSTILE[what]
    with hook_of(answers_with(place, said), monkeypatch, tmp_path) as lake:
        table: Any = lake.look_at(ListedTable(("shop", "orders")), lambda loaded: loaded)
        assert "_table" not in vars(table)
        assert_harmless(table._table, marks, said)


def followed_by_spark(place: str, said: Mapping[str, Any]) -> list[str]:
    """Return names of which Iceberg-Java would follow one; none where the connection's value wins, or is the same."""
    if place == "properties":
        # It opens no file by them. Names of classes are refused by their form, Hadoop's because it gets them.
        return [
            name for name in said if name.startswith("fs.") or (name.endswith("impl") and not name.startswith("py-"))
        ]
    named = [name for name in said if name not in {"py-io-impl", "s3.signer", "s3.remote-signing-enabled", "ssl"}]
    if place == "credentials":
        named = [name for name in named if isinstance(said[name], str)]
    return [name for name in named if place != "defaults" or name not in {*OWN, "client.region"} - {"s3.region"}]


@pytest.mark.parametrize("status", ["uri", "redirect"])
@pytest.mark.parametrize("sign_in", ["token", "credential", "header"])
def test_no_secret_goes_to_the_server_that_a_catalog_sends_its_clients_to(
    sign_in: str, status: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with serve(Answers()) as thief, serve(Answers()) as server:
        server.overrides = {"uri": thief.uri} if status == "uri" else {}
        server.redirect = f"{thief.uri}/v1/config" if status == "redirect" else None
        extra = {
            "token": {"token": "SECRET"},
            "credential": {"credential": "id:SECRET", "oauth2-server-uri": f"{server.uri}/v1/oauth/tokens"},
            "header": {"header.X-Api-Key": "SECRET"},
        }[sign_in]
        with pytest.raises(UnsupportedError, match="write that address into the connection"):
            hook(monkeypatch, tmp_path, server.uri, **extra).load_table("shop.orders")
    assert thief.seen == []


def test_a_credential_is_sent_to_the_token_endpoint_of_the_connection_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with serve(Answers()) as thief, serve(Answers()) as provider, serve(Answers()) as server:
        server.overrides = {"oauth2-server-uri": f"{thief.uri}/tokens", "credential": "x:y"}
        given = {"credential": "id:SECRET", "oauth2-server-uri": f"{provider.uri}/tokens"}
        hook(monkeypatch, tmp_path, server.uri, **given).load_table("shop.orders")
    assert thief.seen == []
    assert not any("SECRET" in request for request in server.seen)
    assert any("SECRET" in request for request in provider.seen)


def test_what_is_ignored_is_said_once_and_without_values(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serve(Answers(table={"s3.endpoint": THIEF, "py-io-impl": "a.B"})) as server:
        lake = hook(monkeypatch, tmp_path, server.uri)
        for _ in range(3):
            lake.load_table("shop.orders")
    said = [record.getMessage() for record in caplog.records if "ignored" in record.getMessage()]
    assert len(said) == 1
    assert "'py-io-impl', 's3.endpoint'" in said[0]
    assert THIEF not in said[0]


def alter(table: Table, properties: Mapping[str, str]) -> None:
    """Set properties as any engine may; PyIceberg would load what they name."""
    file = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(file.read_text())
    file.write_text(json.dumps({**metadata, "properties": dict(properties)}))


@pytest.mark.parametrize("what", HOSTILE)
def test_a_table_of_a_database_chooses_no_code_and_gets_no_secret(
    what: str, marks: Path, lake_catalog: SqlCatalog, orders: Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = {name: value for name, value in HOSTILE[what].items() if isinstance(value, str)}
    alter(orders, said)
    sql = {"type": "sql", "uri": lake_catalog.properties["uri"], "warehouse": lake_catalog.properties["warehouse"]}
    given = {"conn_type": "iceberg", "extra": {**sql, **OWN}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(given))
    hook_class = importlib.import_module("airflow_lake_provider.hooks.lake_catalog").LakeCatalogHook
    assert_harmless(hook_class().load_table("shop.orders"), marks, said)


@pytest.mark.parametrize("kind", ["hive", "glue"])
def test_a_table_of_a_metastore_chooses_no_code_and_gets_no_secret(
    kind: str, marks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_lake_provider.hooks.bounded_catalogs.iceberg_catalog import catalog_opener

    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    own = {"type": kind, "uri": "thrift://127.0.0.1:1", **OWN}
    catalog: Any = catalog_opener(kind)("lake", own)
    for what in HOSTILE.values():
        said = {name: value for name, value in what.items() if isinstance(value, str)}
        found = catalog._load_file_io(said, "s3://bucket/1.metadata.json")
        assert type(found) is PyArrowFileIO
        assert {name: found.properties.get(name) for name in said} == {name: own.get(name) for name in said}
    assert not marks.exists()


def test_a_table_that_names_a_location_provider_of_python_is_not_committed_to(
    marks: Path, orders: Table, lake_connection: str
) -> None:
    alter(orders, {"write.py-location-provider.impl": "strangers_code.Stranger"})
    lake = importlib.import_module("airflow_lake_provider.hooks.lake_catalog").LakeCatalogHook(lake_connection)
    table = lake.load_table("shop.orders")
    with pytest.raises(UnsupportedError, match=r"write\.py-location-provider\.impl"):
        lake.catalog.commit_table(table, (), ())
    assert not marks.exists()


@pytest.mark.parametrize("name", ["write.location-provider.impl", "fs.file.impl", "write.metadata.x-class"])
def test_a_table_that_names_a_class_of_java_starts_no_job(name: str, orders: Table, lake_connection: str) -> None:
    alter(orders, {name: "strangers.Code"})
    lake = importlib.import_module("airflow_lake_provider.hooks.lake_catalog").LakeCatalogHook(lake_connection)
    with pytest.raises(UnsupportedError, match="UNSET TBLPROPERTIES"):
        lake.refuse_for_spark(["shop.orders", "shop.absent"])


def test_a_class_that_the_connection_gives_new_tables_starts_a_job(
    orders: Table, lake_connection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alter(orders, {"write.location-provider.impl": "ours.Code"})
    given = json.loads(os.environ["AIRFLOW_CONN_LAKE_DEFAULT"])
    given["extra"]["spark"] = {"table-default.write.location-provider.impl": "ours.Code"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(given))
    lake = importlib.import_module("airflow_lake_provider.hooks.lake_catalog").LakeCatalogHook(lake_connection)
    lake.refuse_for_spark(["shop.orders"])


@pytest.mark.parametrize("place", ["defaults", "overrides"])
def test_all_snapshots_are_loaded_whatever_the_server_says_of_its_clients(
    place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers = answers_with(place, {"snapshot-loading-mode": "refs"})
    with hook_of(answers, monkeypatch, tmp_path) as given:
        given.load_table("ns.t")
    assert not [request for request in answers.seen if "snapshots=refs" in request]
