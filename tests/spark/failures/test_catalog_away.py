"""A catalog that goes away while a driver runs: before the load, and between load and commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import (
    CatalogUnavailableError,
    InvalidConnectionError,
    LakeProviderError,
    UnknownOutcomeError,
)
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.spark_jobs.formats.iceberg.commits import metadata_swap
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.run_tasks import dispatch_action
from tests.end_to_end.postgresql_server import PostgresqlServer, postgresql_server
from tests.spark.upsert_flow import Flow, InterruptedProgress, row


def session_of(spark: SparkSession, catalog: str, **settings: str) -> SparkSession:
    """Return a session with a catalog of its own, opened when it is used first."""
    session = spark.newSession()
    session.conf.set(f"spark.sql.catalog.{catalog}", "org.apache.iceberg.spark.SparkCatalog")
    for name, value in settings.items():
        session.conf.set(f"spark.sql.catalog.{catalog}.{name.replace('_', '.')}", value)
    return session


def failure(flow: Flow, catalog: str, progress: Progress | None = None) -> LakeProviderError:
    with pytest.raises(LakeProviderError) as told:
        dispatch_action(flow.spark, flow.spec("run 2", catalog=catalog), progress or Progress())
    assert "Py4J" not in str(told.value)
    assert "\n" not in str(told.value)
    return told.value


def with_batch(session: SparkSession, catalog: str, folder: Path) -> Flow:
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.shop")
    flow = Flow(session, "shop.orders", folder / "inbox", {"catalog": catalog})
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(2, "b"))
    return flow


def into_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DATABASES: dict[str, Callable[[Path], Any]] = {
    "a folder": into_a_folder,
    "no database": lambda path: path.write_bytes(b"no database" * 1000),
}


@pytest.fixture
def sqlite(spark: SparkSession, tmp_path: Path) -> Callable[[], Flow]:
    """Open a SQLite catalog of the test's own, each time as another driver does."""
    settings = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db?busy_timeout=100", "jdbc_schema-version": "V1"}
    made = iter(range(9))

    def opened() -> Flow:
        session = session_of(spark, "away", **settings, warehouse=f"file://{tmp_path}/warehouse")
        if next(made) == 0:
            return with_batch(session, "away", tmp_path)
        return Flow(session, "shop.orders", tmp_path / "inbox", {"catalog": "away"})

    return opened


@pytest.mark.parametrize("kind", DATABASES)
def test_a_sqlite_catalog_that_cannot_be_opened_does_not_answer(
    sqlite: Callable[[], Flow], tmp_path: Path, kind: str
) -> None:
    sqlite()
    DATABASES[kind](tmp_path / "c.db")
    error = failure(sqlite(), "away")
    assert type(error) is CatalogUnavailableError
    assert str(error).startswith("table shop.orders in away: the catalog did not answer: ")


def test_a_locked_sqlite_catalog_does_not_answer_and_the_next_try_does(
    sqlite: Callable[[], Flow], tmp_path: Path
) -> None:
    flow = sqlite()
    with closing(sqlite3.connect(tmp_path / "c.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        error = failure(flow, "away")
    assert type(error) is CatalogUnavailableError
    assert "SQLITE_BUSY" in str(error)
    assert flow.apply("run 2").outcome is Outcome.APPLIED


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with postgresql_server() as running:
        yield running


@pytest.fixture
def postgresql(spark: SparkSession, server: PostgresqlServer, tmp_path: Path, request: Any) -> Flow:
    catalog = f"pg{abs(hash(request.node.nodeid))}"
    settings = {
        "type": "jdbc",
        "uri": f"jdbc:postgresql://127.0.0.1:{server.port}/postgres",
        "jdbc_user": server.user,
        "jdbc_password": server.password,
        "jdbc_schema-version": "V1",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    return with_batch(session_of(spark, catalog, **settings), catalog, tmp_path)


def catalog_of(flow: Flow) -> str:
    return str(flow.changes["catalog"])


@pytest.mark.parametrize("phase", ["read", "resolve", "stage", "commit"])
def test_a_postgresql_that_stops_before_the_commit_is_sent_does_not_answer(
    postgresql: Flow, server: PostgresqlServer, phase: str
) -> None:
    error = failure(postgresql, catalog_of(postgresql), InterruptedProgress(at=phase, then=server.stop))
    server.start()
    assert type(error) is CatalogUnavailableError
    assert str(error).startswith(f"table shop.orders in {catalog_of(postgresql)}: the catalog did not answer: ")
    assert not str(error).count("a retry is safe") > 1
    assert postgresql.apply("run 2").outcome is Outcome.APPLIED


def test_a_postgresql_that_stops_after_the_commit_leaves_its_outcome_unknown_to_the_driver(
    postgresql: Flow, server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, java = metadata_swap._send, postgresql.spark._jvm

    def answer_lost(*commit: Any) -> None:
        send(*commit)
        server.stop()
        raise Py4JJavaError("lost", java.java.sql.SQLNonTransientConnectionException("lost"))  # type: ignore[union-attr]

    with monkeypatch.context() as patched:
        patched.setattr(metadata_swap, "_send", answer_lost)
        error = failure(postgresql, catalog_of(postgresql))
    server.start()
    assert type(error) is UnknownOutcomeError
    assert postgresql.apply("run 2").outcome is Outcome.ALREADY_APPLIED
    found = postgresql.spark.table(f"{catalog_of(postgresql)}.shop.orders").collect()
    assert {(each["id"], each["name"]) for each in found} == {(1, "a"), (2, "b")}


def test_a_wrong_password_is_the_connections(spark: SparkSession, server: PostgresqlServer) -> None:
    settings = {"type": "jdbc", "uri": f"jdbc:postgresql://127.0.0.1:{server.port}/postgres", "jdbc_user": "lake"}
    session = session_of(spark, "wrong", **settings, jdbc_password="no", warehouse="file:///tmp/none")
    error = failure(Flow(session, "shop.orders", Path("/tmp/none")), "wrong")
    assert type(error) is InvalidConnectionError
    assert ": the credentials were refused: PSQLException: FATAL: password authentication failed" in str(error)


CLOSED = {
    "rest": {"type": "rest", "uri": "http://127.0.0.1:9"},
    "rest, unknown host": {"type": "rest", "uri": "http://lake.invalid"},
    "hive": {"type": "hive", "uri": "thrift://127.0.0.1:9", "hadoop_hive_metastore_connect_retries": "1"},
    "postgresql": {"type": "jdbc", "uri": "jdbc:postgresql://127.0.0.1:9/lake"},
    "postgresql, unknown host": {"type": "jdbc", "uri": "jdbc:postgresql://lake.invalid/lake"},
}


@pytest.mark.parametrize("kind", CLOSED)
def test_a_catalog_at_an_address_where_nobody_listens_does_not_answer(spark: SparkSession, kind: str) -> None:
    settings = {**CLOSED[kind], "warehouse": "file:///tmp/none"}
    name = f"closed{list(CLOSED).index(kind)}"
    error = failure(Flow(session_of(spark, name, **settings), "shop.orders", Path("/tmp/none")), name)
    assert type(error) is CatalogUnavailableError
    assert str(error).startswith(f"table shop.orders in {name}: the catalog did not answer: ")
