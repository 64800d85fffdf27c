"""A real PostgreSQL for tests of sources, with an empty schema for each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg2
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.source_access import DatabaseAccess
from airflow_lake_provider.spark_jobs.sources.jdbc.postgresql import PostgreSql
from tests.end_to_end.postgresql_server import postgresql_server
from tests.spark.sources.database_tables import DatabaseTables

POSTGRESQL = PostgreSql()


@dataclass(kw_only=True)
class Shop(DatabaseTables):
    """A database of PostgreSQL, and the session that reads it.

    :param access: by which its superuser comes in.
    """

    connection: Any

    def run(self, *statements: str) -> None:
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def waiting_transactions(self) -> int:
        """Count the open transactions of others, once those that were closed just now are gone."""
        until = time.monotonic() + 5
        count = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        while self.ask(count) != [(0,)] and time.monotonic() < until:
            time.sleep(0.02)
        return int(self.ask(count)[0][0])


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> Iterator[Shop]:
    with postgresql_server() as running:
        login = {"user": running.user, "password": running.password}
        with closing(psycopg2.connect(host="127.0.0.1", port=running.port, dbname="postgres", **login)) as connection:
            connection.autocommit = True
            # A transaction that is left open is seen at once.
            connection.cursor().execute("SET lock_timeout = '5s'")
            access = DatabaseAccess(url=f"jdbc:postgresql://127.0.0.1:{running.port}/postgres", **login)
            yield Shop(spark=spark, access=access, conn_id="pg_shop", connection=connection)


@pytest.fixture
def shop(server: Shop) -> Iterator[Shop]:
    with server.lent("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "SET TIME ZONE 'Asia/Tokyo'"):
        yield server
