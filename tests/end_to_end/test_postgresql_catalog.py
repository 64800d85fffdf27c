"""One connection on a real PostgreSQL server: Spark and PyIceberg share the catalog, the password stays unseen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from pyiceberg.catalog import load_catalog

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
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
