"""One connection: what Spark writes PyIceberg reads, and the other way round."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from tests.spark.spark_application import session_of


@pytest.mark.slow
def test_a_sqlite_catalog_is_shared_by_spark_and_pyiceberg(tmp_path: Path) -> None:
    connection = CatalogConnection.from_fields(
        conn_id="lake-prod",
        host=f"sqlite:///{tmp_path}/catalog.db",
        extra={"type": "sql", "warehouse": f"{tmp_path}/warehouse"},
    )
    with session_of(connection, tmp_path) as ask:
        answer = ask(
            "CREATE NAMESPACE shop",
            "CREATE TABLE shop.orders (id BIGINT, name STRING) USING iceberg",
            "INSERT INTO shop.orders VALUES (1, 'a'), (2, 'b')",
        )
        catalog = load_catalog(connection.catalog_name, **connection.pyiceberg_properties())
        table = catalog.load_table("shop.orders")
        assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == [
            {"id": 1, "name": "a"},
            {"id": 2, "name": "b"},
        ]
        table.append(pa.table({"id": pa.array([3], pa.int64()), "name": ["c"]}))
        catalog.create_table("shop.by_pyiceberg", table.schema())
        again = ask(
            # The session keeps a table that it has loaded for half a minute.
            "REFRESH TABLE shop.orders",
            "SELECT id, name FROM shop.orders ORDER BY id",
            "SELECT count(*) FROM shop.by_pyiceberg",
        )
        assert again["rows"][1:] == [[[1, "a"], [2, "b"], [3, "c"]], [[0]]]

    with sqlite3.connect(tmp_path / "catalog.db") as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert {row[0] for row in database.execute("SELECT catalog_name FROM iceberg_tables")} == {"lake-prod"}

    # Our redaction replaces Spark's; whatever Spark hides by itself stays hidden.
    assert re.escape(answer["default_redaction"].removeprefix("(?i)")) in re.escape(
        connection.spark_settings()["spark.redaction.regex"]
    )
