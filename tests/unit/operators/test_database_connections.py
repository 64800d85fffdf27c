"""The way of a database's login from an Airflow connection to a driver: by the file of settings, and no other."""

from __future__ import annotations

import json
import re
import stat
from typing import TYPE_CHECKING, Any

import pytest

from airflow_lake_provider.catalogs.secret_properties import REDACTION_REGEX
from airflow_lake_provider.catalogs.spark_catalog_properties import POSTGRESQL_DRIVER
from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.errors import (
    InvalidConnectionError,
    InvalidSpecError,
    LakeProviderError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.source_access import DatabaseAccess
from airflow_lake_provider.hooks.database_connection import database_access
from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget
from airflow_lake_provider.hooks.source_access import MARIADB_DRIVER, packages_of
from airflow_lake_provider.operators.spark_submission import spark_submit_arguments
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from tests.unit.operators.submitted import opened
from tests.unit.submission import java_properties

if TYPE_CHECKING:
    from airflow.sdk import Context

PASSWORD = "hunter2 =:\\ü"
LOCAL = SparkTarget(master="local[2]", cluster_mode=False)

pytestmark = pytest.mark.usefixtures("spark_connection", "job_directory")


@pytest.fixture(autouse=True)
def lake_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connection ``lake_default`` on SQLite."""
    extra = {"type": "sql", "uri": "sqlite:////lake/catalog.db", "warehouse": "file:///lake"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "iceberg", "extra": extra}))


def given(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    plain = {"conn_type": "postgres", "host": "db", "schema": "shop", "login": "reader", "password": PASSWORD}
    monkeypatch.setenv("AIRFLOW_CONN_PG_SHOP", json.dumps({**plain, **fields}))


def test_the_login_goes_to_the_driver_in_the_private_file_of_settings_alone(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, extra={"sslmode": "require", "cursor": "dictcursor"})
    source = Query("SELECT * FROM source", over=JdbcTable("pg_shop", "orders"))
    job = LakeUpsertOperator(task_id="orders", table="shop.orders", source=source, keys=["id"])
    attempt = opened(job, context, LOCAL)
    found = spark_submit_arguments(attempt, job, attempt.driver_start(job))
    assert POSTGRESQL_DRIVER in found["packages"].split(",")
    settings = java_properties.load(attempt.files.settings.read_text(encoding="utf-8"))
    access = DatabaseAccess.from_settings("pg_shop", settings)
    assert access == DatabaseAccess("jdbc:postgresql://db:5432/shop?sslmode=require", "reader", PASSWORD)
    assert access.address == "postgresql://db:5432/shop"
    assert stat.S_IMODE(attempt.files.settings.stat().st_mode) == 0o600
    shown = [str(found), attempt.files.spec.read_text(), repr(attempt), repr(access)]
    assert [text for text in shown if "hunter2" in text] == []
    # Spark's pages and events, as for the catalog's secrets.
    hidden = [name for name in settings if "hunter2" in settings[name]]
    assert [name for name in hidden if not re.search(REDACTION_REGEX, name)] == []
    assert hidden == ["spark.lake.database.pg_shop.password"]


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"conn_type": "oracle"}, UnsupportedError, "databases of that type are not supported yet"),
        (
            {"conn_type": "mysql", "extra": {"ssl": {"ca": "a"}}},
            InvalidConnectionError,
            "extra 'ssl' is not understood",
        ),
        ({"conn_type": "mysql", "extra": {"ssl_mode": "PREFERRED"}}, InvalidConnectionError, "ssl_mode is one of"),
        ({"conn_type": "mysql", "schema": "a?b"}, InvalidConnectionError, r"takes no \? & # in an address, got 'a\?b'"),
        ({"conn_type": "mysql", "extra": {"connect_timeout": "5s"}}, InvalidSpecError, "must be a whole number"),
        ({"extra": {"connect_timeout": "5s"}}, InvalidSpecError, "connect_timeout must be a whole number"),
        ({"extra": {"sslmode": "required"}}, InvalidConnectionError, "sslmode is one of disable, .* got 'required'"),
        ({"schema": ""}, InvalidConnectionError, "needs a host, and the name of the database in its schema"),
        ({"host": ""}, InvalidConnectionError, "needs a host"),
        ({"password": " hunter2"}, InvalidConnectionError, "its password begins or ends with a blank, which Spark"),
        ({"extra": {"ssl_mode": "require"}}, InvalidConnectionError, "extra 'ssl_mode' .* did you mean 'sslmode'"),
        ({"extra": {"iam": True}}, InvalidConnectionError, "extra 'iam' is not understood"),
        ({"extra": {"sslmode": {"a": PASSWORD}}}, InvalidConnectionError, "'sslmode' is a JSON dict; give a text"),
        ({"extra": [PASSWORD]}, InvalidConnectionError, "its extra is a JSON list, expected an object such as"),
        *(
            ({"host": host}, InvalidConnectionError, "its host must be the name or the IP address of a server")
            for host in (
                "reader:hunter2@db",
                "postgresql://db",
                "db:5433",
                "db/other",
                "db?password=hunter2",
                "a b",
                "a,",
            )
        ),
    ],
)
def test_a_connection_that_cannot_be_used_is_refused_before_spark(
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, Any],
    error: type[LakeProviderError],
    says: str,
) -> None:
    given(monkeypatch, **fields)
    job = LakeUpsertOperator(task_id="t", table="shop.orders", source=JdbcTable("pg_shop", "orders"), keys=["id"])
    with pytest.raises(error, match=says) as caught:
        job.build_spec(context)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("kind", ["mysql", "mariadb"])
def test_a_connection_of_mysql_is_read_by_the_driver_of_mariadb(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    extra = {"ssl_mode": "VERIFY_CA", "ssl_ca": "/etc/ca.pem", "connect_timeout": 5, "charset": "utf8mb4"}
    given(monkeypatch, conn_type=kind, host="::1", schema="my shop", extra=extra)
    access = database_access("pg_shop")
    assert access.address == "mysql://[::1]:3306/my shop"
    options = "permitMysqlScheme&sslMode=verify-ca&serverSslCert=/etc/ca.pem&connectTimeout=5000"
    assert access.url.partition("?")[2] == options
    assert packages_of([access, access]) == (MARIADB_DRIVER,)


@pytest.mark.parametrize(
    ("host", "servers"),
    [
        ("[::1]", "[::1]:6432"),
        ("2001:db8::10.0.0.1", "[2001:db8::10.0.0.1]:6432"),
        ("fe80::1%eth0", "[fe80::1%eth0]:6432"),
        ("db_1.example.com", "db_1.example.com:6432"),
        ("größe.example", "größe.example:6432"),
        ("db1, db2,::1", "db1:6432,db2:6432,[::1]:6432"),
    ],
)
def test_the_port_of_a_database_is_that_of_each_server(
    monkeypatch: pytest.MonkeyPatch, host: str, servers: str
) -> None:
    for conn_type, scheme in (("postgres", "postgresql"), ("mysql", "mysql")):
        given(monkeypatch, conn_type=conn_type, host=host, port=6432)
        assert database_access("pg_shop").address == f"{scheme}://{servers}/shop"


def test_an_option_that_is_null_was_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, extra={"sslmode": None, "connect_timeout": 5})
    assert database_access("pg_shop").url == "jdbc:postgresql://db:5432/shop?connectTimeout=5"


def test_a_connection_that_is_missing_is_told_with_an_example() -> None:
    with pytest.raises(InvalidConnectionError, match=r"'pg_none' does not exist; create it.*\"conn_type\": \"postgr"):
        database_access("pg_none")
    assert DatabaseAccess.from_settings("pg_none", {}) is None
