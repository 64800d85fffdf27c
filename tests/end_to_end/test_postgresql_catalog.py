"""One connection on a real PostgreSQL server: Spark and PyIceberg share the catalog, the password stays unseen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from pyiceberg.catalog import load_catalog

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.contracts.errors import InvalidConnectionError
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from tests.end_to_end.postgresql_server import PostgresqlServer, postgresql_server
from tests.spark.spark_application import session_of


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with postgresql_server() as running:
        yield running


@pytest.mark.live
@pytest.mark.slow
def test_a_postgresql_catalog_is_shared_by_spark_and_pyiceberg(server: PostgresqlServer, tmp_path: Path) -> None:
    connection = CatalogConnection.from_fields(
        conn_id="lake_pg",
        host=f"postgresql+psycopg2://127.0.0.1:{server.port}/postgres?application_name=lake",
        login=server.user,
        password=server.password,
        extra={"type": "sql", "warehouse": f"{tmp_path}/warehouse"},
    )
    with session_of(connection, tmp_path) as ask:
        answer = ask(
            "CREATE NAMESPACE shop",
            "CREATE TABLE shop.orders (id BIGINT) USING iceberg",
            "INSERT INTO shop.orders VALUES (1), (2)",
            "SET",
            "SELECT sum(id) FROM shop.orders",
        )
    assert answer["rows"][-1] == [[3]]
    shown = dict(answer["rows"][3])
    assert shown["spark.sql.catalog.lake_pg.jdbc.password"] == "*********(redacted)"
    assert server.password not in str(answer["rows"])

    catalog = load_catalog(connection.catalog_name, **connection.pyiceberg_properties())
    assert sorted(catalog.load_table("shop.orders").scan().to_arrow()["id"].to_pylist()) == [1, 2]

    with closing(
        psycopg2.connect(
            host="127.0.0.1", port=server.port, user=server.user, password=server.password, dbname="postgres"
        )
    ) as database:
        cursor = database.cursor()
        cursor.execute("SELECT catalog_name, table_name, iceberg_type FROM iceberg_tables")
        assert cursor.fetchall() == [("lake_pg", "orders", "TABLE")]


@pytest.mark.live
@pytest.mark.parametrize(
    ("login", "password", "database", "why"),
    [
        ("lake", "wrong-password", "postgres", "refused the credentials.*password authentication failed"),
        ("nobody", None, "postgres", "refused the credentials.*authentication failed"),
        ("lake", None, "nowhere", 'refused the credentials.*database "nowhere" does not exist'),
        ("lake", None, "template1", "has no catalog of Iceberg, or one of another version"),
    ],
)
def test_a_database_that_answers_no_is_a_matter_of_the_connection_and_no_retry_helps(
    server: PostgresqlServer,
    monkeypatch: pytest.MonkeyPatch,
    login: str,
    password: str | None,
    database: str,
    why: str,
) -> None:
    access = {"host": "127.0.0.1", "port": server.port, "user": server.user, "password": server.password}
    with closing(psycopg2.connect(dbname="template1", **access)) as other, other, other.cursor() as cursor:
        # Of a catalog that nobody knows.
        for table in ("iceberg_tables", "iceberg_namespace_properties"):
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {table} (catalog TEXT)")
    connection: dict[str, Any] = {
        "conn_type": "iceberg",
        "host": f"postgresql+psycopg2://127.0.0.1:{server.port}/{database}",
        "login": login,
        "password": password or server.password,
        "extra": {"type": "sql", "warehouse": "/tmp/lake"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_PG", json.dumps(connection))
    with pytest.raises(InvalidConnectionError, match=why) as refused:
        LakeCatalogHook("lake_pg").list_tables()
    assert not refused.value.retry_may_help
    assert connection["password"] not in str(refused.value)
