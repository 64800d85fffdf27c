"""Tables and queries of a real PostgreSQL as sources; the rows are compared with what psycopg2 reads."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.dead_letter import DeadLetter
from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.errors import (
    AccessDeniedError,
    BadInputError,
    InvalidConnectionError,
    JobFailedError,
    LakeProviderError,
    MissingTableError,
)
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.source_access import DatabaseAccess
from airflow_lake_provider.spark_jobs.sources.jdbc.database import Database
from airflow_lake_provider.spark_jobs.sources.jdbc.postgresql import PostgreSql
from airflow_lake_provider.spark_jobs.sources.jdbc.relation import Relation
from airflow_lake_provider.spark_jobs.sources.jdbc.splits import SPLIT, choose_splits, statement_of
from tests.spark.sources.postgresql_shop import POSTGRESQL, Shop, server, shop
from tests.spark.sources.session_settings import event_log
from tests.spark.upsert_flow import InterruptedProgress, NewFlow

__all__ = ["server", "shop"]

PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}


FILL = "INSERT INTO {} SELECT i, 'n' || i % 10, CASE WHEN i % 3 > 0 THEN i % 1000 END FROM generate_series(1, 20000) i"
PLAIN_TABLE = "CREATE TABLE {} (id int, name text, n int)"
WITH_PARTS = [
    f"{PLAIN_TABLE} PARTITION BY RANGE (id)",
    "CREATE TABLE a PARTITION OF {} FOR VALUES FROM (0) TO (3000)",
    "CREATE TABLE b PARTITION OF {} DEFAULT",
]


@pytest.mark.parametrize(
    ("made", "arguments", "reached_by"),
    [
        ([PLAIN_TABLE], {}, "Tid Range Scan"),
        (WITH_PARTS, {}, "Tid Range Scan"),
        ([PLAIN_TABLE, "CREATE INDEX ON {} (n)"], {"partition_column": "n", "consistent": False}, "Index"),
        ([PLAIN_TABLE], {"partition_column": "name"}, "Seq Scan"),
        ([PLAIN_TABLE], {"partition_column": "id", "sql": "SELECT * FROM {} -- all"}, "Seq Scan"),
    ],
    ids=["pages", "pages-of-parts", "statistics", "common-values", "query"],
)
def test_ranges_have_each_row_once_and_are_balanced(
    shop: Shop, made: list[str], arguments: dict[str, Any], reached_by: str
) -> None:
    name = '"Daily Orders"'
    shop.run(*(each.format(name) for each in [*made, FILL]), f"ANALYZE {name}")
    arguments = {key: value.format(name) if isinstance(value, str) else value for key, value in arguments.items()}
    table = None if "sql" in arguments else f"public.{name}"
    source, listing = shop.listed(table, partitions=4, **arguments)
    rows = source.raw(listing, None).rows
    parts: dict[int, list[tuple[Any, ...]]] = {}
    for part, *row in rows.select(sf.spark_partition_id(), "*").collect():
        parts.setdefault(part, []).append(tuple(row))
    assert sorted(row for part in parts.values() for row in part) == shop.ask(f"SELECT * FROM {name} ORDER BY id")
    assert len(parts) == 4
    assert max(map(len, parts.values())) <= 1.5 * 20000 / 4
    with closing(Database.open(shop.spark, shop.access, is_consistent=False)) as database:
        relation = Relation.look_at(database, source.source)
        splits = choose_splits(database, relation, source.source, "true", is_new_part=False, at_once=2)
    values = POSTGRESQL.sent_values(relation.columns, None, "it")
    statement = statement_of(relation.sql, values, "true", splits, POSTGRESQL.quoted(SPLIT))
    plan = shop.ask(f"EXPLAIN SELECT _lake_sent0 FROM ({statement}\n) AS lake WHERE {splits.conditions[1]}")
    assert reached_by in str(plan)


@pytest.mark.parametrize("consistent", [True, False])
def test_all_ranges_see_the_moment_of_the_listing_unless_that_is_given_up(shop: Shop, consistent: bool) -> None:
    shop.run(
        "CREATE TABLE stock (id int PRIMARY KEY, n int)",
        "INSERT INTO stock SELECT i, 0 FROM generate_series(1, 9000) i",
    )
    before = shop.ask("SELECT id, n FROM stock ORDER BY id")
    by = {} if consistent else {"partition_column": "id"}
    source, listing = shop.listed("stock", partitions=4, consistent=consistent, **by)
    lazily = source.raw(listing, None).rows if consistent else None
    shop.run("UPDATE stock SET n = 1", "DELETE FROM stock WHERE id % 2 = 0", "VACUUM stock")
    shop.run("INSERT INTO stock SELECT -i, 1 FROM generate_series(1, 9000) i")
    after = shop.ask("SELECT id, n FROM stock ORDER BY id")
    rows = lazily or source.raw(listing, None).rows
    shop.run("DELETE FROM stock")
    assert rows.rdd.getNumPartitions() == 4
    assert sorted(tuple(row) for row in rows.collect()) == (before if consistent else after)
    # What is read again is the same.
    assert rows.count() == len(before if consistent else after)
    source.close()
    assert shop.waiting_transactions() == 0


def test_each_run_reads_a_whole_table_and_a_retry_is_recognised(shop: Shop, new_flow: NewFlow) -> None:
    shop.run("CREATE TABLE stock (id int PRIMARY KEY, n int)", "INSERT INTO stock VALUES (1, 0), (2, 0)")
    flow = new_flow(source=JdbcTable("pg_shop", "stock"), **PLAIN)
    change = InterruptedProgress(at="read", then=lambda: shop.run("UPDATE stock SET n = 1"))
    assert flow.apply("run 1", progress=change).outcome is Outcome.APPLIED
    assert flow.rows() == {1: (0,), 2: (0,)}
    assert flow.apply("run 1").outcome is Outcome.ALREADY_APPLIED
    assert flow.apply("run 2").batch_rows == 2
    assert flow.rows() == {1: (1,), 2: (1,)}
    assert shop.waiting_transactions() == 0


def test_rows_without_a_key_are_put_aside_and_read_from_the_database_once(shop: Shop, new_flow: NewFlow) -> None:
    shop.run("CREATE TABLE stock (id int, n numeric(5, 2))", "INSERT INTO stock VALUES (1, 0), (NULL, 1.5), (3, NULL)")
    letter = DeadLetter(table="letters.of_database", max_share=0.5)
    flow = new_flow(source=JdbcTable("pg_shop", "stock"), dead_letter=letter, **PLAIN)
    # Rows that come while the letters are written are of the next run.
    change = InterruptedProgress(at="dead letters", then=lambda: shop.run("INSERT INTO stock VALUES (NULL, 2), (4, 4)"))
    assert flow.apply("run 1", progress=change).dead_letters == 1
    assert sorted(flow.rows()) == [1, 3]
    assert flow.apply("run 2").dead_letters == 2
    assert sorted(flow.rows()) == [1, 3, 4]
    letters = replace(flow, table=letter.table).records()
    place = "stock of connection 'pg_shop'"
    assert sorted((each["run"], each["file"], each["error_class"], each["record"]) for each in letters) == [
        ("dag run 1 task -1", place, "NULL_KEY", '{"id":null,"n":1.50}'),
        ("dag run 2 task -1", place, "NULL_KEY", '{"id":null,"n":2.00}'),
    ]
    assert shop.waiting_transactions() == 0


def test_a_snapshot_that_is_gone_ends_the_read_and_says_why(shop: Shop) -> None:
    shop.run("CREATE TABLE t AS SELECT 1 AS id")
    source, listing = shop.listed("t")
    rows = source.raw(listing, None).rows
    shop.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'")
    assert shop.waiting_transactions() == 0
    says = pytest.raises(JobFailedError, match="could not take the snapshot of the others")
    with says, source.refusing_unreadable(listing):
        rows.collect()


def test_numbers_of_a_sequence_are_numbers(shop: Shop) -> None:
    kinds = "s serial, b bigserial, small smallserial, always int GENERATED ALWAYS AS IDENTITY"
    shop.run("CREATE SEQUENCE own", f"CREATE TABLE t ({kinds}, own int8 DEFAULT nextval('own'), name text)")
    shop.run("INSERT INTO t (name) SELECT 'n' || i FROM generate_series(1, 300) i", "ANALYZE t")
    stored = shop.ask("SELECT * FROM t ORDER BY s")
    read: list[dict[str, Any]] = [
        {"table": "t"},
        {"table": "t", "watermark": "b", "overlap": 5},
        {"table": "t", "partition_column": "always", "partitions": 4},
        {"sql": "SELECT * FROM t", "watermark": "own"},
    ]
    for arguments in read:
        source, listing = shop.listed(**arguments)
        rows = source.raw(listing, None).rows
        assert sorted(map(tuple, rows.collect())) == stored, arguments
        types = [field.dataType.simpleString() for field in rows.schema]
        assert types == ["int", "bigint", "int", "int", "bigint", "string"]
        source.close()


def test_a_type_of_another_schema_parts_a_table(shop: Shop) -> None:
    mood = 'ours."My mood"'
    shop.run("DROP SCHEMA IF EXISTS ours CASCADE", "CREATE SCHEMA ours", f"CREATE TYPE {mood} AS ENUM ('sad', 'glad')")
    shop.run(
        f"CREATE TABLE people (id int, mood {mood})", "INSERT INTO people SELECT i, 'sad' FROM generate_series(1, 99) i"
    )
    shop.run("INSERT INTO people SELECT 100 + i, 'glad' FROM generate_series(1, 99) i", "ANALYZE people")
    source, listing = shop.listed("people", partition_column="mood", partitions=2)
    rows = source.raw(listing, None).rows
    assert sorted(map(len, rows.rdd.glom().collect())) == [99, 99]
    assert sorted(map(tuple, rows.collect())) == shop.ask("SELECT id, mood::text FROM people ORDER BY id")


def test_ranges_follow_the_order_of_the_column_and_not_that_of_the_database(shop: Shop) -> None:
    # By its letters "a" comes before "B"; by their bytes, as the database has it, after it.
    fill = "INSERT INTO words SELECT i, chr(CASE WHEN i % 2 = 0 THEN 97 ELSE 65 END + i % 26) || i % 97"
    shop.run('CREATE TABLE words (id int, word text COLLATE "und-x-icu")')
    shop.run(f"{fill} FROM generate_series(1, 5000) i", "ANALYZE words")
    source, listing = shop.listed("words", partition_column="word", partitions=8)
    parts = source.raw(listing, None).rows.rdd.map(tuple).glom().collect()
    assert sorted(row for part in parts for row in part) == shop.ask("SELECT * FROM words ORDER BY id")
    assert max(map(len, parts)) <= 1.5 * 5000 / 8


def test_who_may_read_some_columns_alone_reads_them_in_ranges_too(shop: Shop) -> None:
    shop.run("DROP SCHEMA IF EXISTS closed CASCADE", "CREATE SCHEMA closed", "CREATE TABLE closed.t AS SELECT 1 AS id")
    shop.run("DROP ROLE IF EXISTS clerk", "CREATE ROLE clerk LOGIN PASSWORD 'secret'")
    # Statistics that the clerk may see, of a table by whose name the clerk may not call it.
    shop.run("GRANT SELECT ON closed.t TO clerk", "ANALYZE closed.t")
    shop.run(
        "CREATE TABLE people (id int, w int, salary int)",
        "INSERT INTO people SELECT i, i FROM generate_series(1, 900) i",
    )
    shop.run("ANALYZE people", "GRANT USAGE ON SCHEMA public TO clerk", "GRANT SELECT (id, w) ON people TO clerk")
    for name, value in DatabaseAccess(shop.access.url, "clerk", "secret").to_settings("pg_clerk").items():
        shop.spark.conf.set(name, value)
    may_read = {"connection": "pg_clerk", "columns": ["id", "w"], "partitions": 3}
    for ways, ranges in (({}, 1), ({"watermark": "w"}, 3), ({"partition_column": "id"}, 3)):
        source, listing = shop.listed("people", **may_read, **ways)
        rows = source.raw(listing, None).rows
        assert rows.rdd.getNumPartitions() == ranges
        assert sorted(map(tuple, rows.collect())) == shop.ask("SELECT id, w FROM people ORDER BY id")
    with pytest.raises(AccessDeniedError, match="user 'clerk' may not read it"):
        shop.rows("people", connection="pg_clerk")


def test_no_reader_writes_whatever_the_query_calls(shop: Shop) -> None:
    shop.run("DROP SEQUENCE IF EXISTS numbers", "CREATE SEQUENCE numbers")
    for consistent in (True, False):
        with pytest.raises(BadInputError, match="read-only transaction"):
            shop.rows(sql="SELECT nextval('numbers') AS id", consistent=consistent)
    assert shop.ask("SELECT is_called FROM numbers") == [(False,)]


def test_no_timeout_of_transactions_ends_a_read_and_one_of_statements_stays(shop: Shop) -> None:
    shop.run("DROP ROLE IF EXISTS hasty", "CREATE ROLE hasty LOGIN PASSWORD 'secret'")
    shop.run("ALTER ROLE hasty SET idle_in_transaction_session_timeout = '1ms'")
    shop.run("ALTER ROLE hasty SET statement_timeout = '10min'")
    access = DatabaseAccess(shop.access.url, "hasty", "secret")
    for name, value in access.to_settings("pg_hasty").items():
        shop.spark.conf.set(name, value)
    settings = (
        "SELECT name, setting FROM pg_settings WHERE name ~ '^(idle_in_)?transaction.*_timeout|^statement_timeout'"
    )
    for consistent in (True, False):
        there = dict(shop.rows(sql=settings, connection="pg_hasty", consistent=consistent))
        assert there.pop("statement_timeout") == "600000"
        assert "idle_in_transaction_session_timeout" in there
        assert set(there.values()) == {"0"}
    with closing(Database.open(shop.spark, access, is_consistent=True)) as database:
        database.execute("SET LOCAL idle_in_transaction_session_timeout = '1ms'")
        time.sleep(0.5)
        with pytest.raises(JobFailedError, match="idle-in-transaction timeout"):
            database.text("SELECT 1")


def test_what_cannot_be_read_is_refused_with_what_to_do(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int)", "DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN PASSWORD 'secret'")
    shop.run("GRANT USAGE ON SCHEMA public TO reader")
    for arguments, error, says in [
        ({"table": "Missing"}, MissingTableError, "Missing of connection 'pg_shop' does not exist"),
        ({"sql": "SELECT nothing FROM t"}, BadInputError, "nothing"),
        (
            {"sql": "WITH d AS (DELETE FROM t RETURNING id) SELECT * FROM d"},
            BadInputError,
            "WITH clause|data-modifying",
        ),
        ({"table": "t", "watermark": "w"}, BadInputError, "watermark names a column"),
        ({"table": "t", "connection": "other"}, InvalidConnectionError, "did not come with the job's settings"),
    ]:
        with pytest.raises(error, match=says):
            shop.listed(**arguments)
    for name, value in DatabaseAccess(shop.access.url, "reader", "secret").to_settings("pg_reader").items():
        shop.spark.conf.set(name, value)
    with pytest.raises(AccessDeniedError, match="user 'reader' may not read it"):
        shop.rows("t", connection="pg_reader")
    shop.spark.conf.set("spark.lake.database.pg_reader.password", "wrong-secret")
    with pytest.raises(InvalidConnectionError, match="reader") as caught:
        shop.listed("t", connection="pg_reader")
    assert "wrong-secret" not in str(caught.value)
    shop.spark.conf.set("spark.lake.database.pg_reader.url", f"{shop.access.url}?sslmode=require")
    with pytest.raises(InvalidConnectionError, match="does not support SSL"):
        shop.listed("t", connection="pg_reader")


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux says which timers a connection has")
def test_a_server_that_is_gone_without_a_word_is_noticed(shop: Shop) -> None:
    port = int(shop.access.address.rpartition(":")[2].partition("/")[0])
    with closing(Database.open(shop.spark, shop.access, is_consistent=False)):
        lines = [
            line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()
        ]
    # Of each: number, own address, peer, state, queues, timer.
    open_ones = [line for line in lines if line[2].endswith(f":{port:04X}") and line[3] == "01"]
    of_java = [line[5].partition(":")[0] for line in open_ones if "FFFF0000" in line[2]]
    assert of_java
    assert set(of_java) == {"02"}


def test_a_login_that_nobody_answers_ends(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    shorter = {name: "2" if name == "loginTimeout" else value for name, value in PostgreSql.properties.items()}
    monkeypatch.setattr(PostgreSql, "properties", shorter)
    errors: list[LakeProviderError] = []

    def log_in(port: int) -> None:
        access = DatabaseAccess(f"jdbc:postgresql://127.0.0.1:{port}/shop?sslmode=disable", "reader", "secret")
        try:
            Database.open(spark, access, is_consistent=False)
        except LakeProviderError as error:
            errors.append(error)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        attempt = threading.Thread(target=log_in, args=(silent.getsockname()[1],), daemon=True)
        attempt.start()
        attempt.join(20)
        assert [type(error) for error in errors] == [JobFailedError]


def test_neither_a_plan_nor_an_event_has_the_password(
    shop: Shop, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shop.run("CREATE TABLE t AS SELECT 1 AS id")
    source, listing = shop.listed("t")
    with event_log(shop.spark, shop.access.to_settings("pg_shop"), tmp_path):
        rows = source.raw(listing, None).rows
        rows.explain(extended=True)
        rows.explain("formatted")
        rows.collect()
    shown = "".join(capfd.readouterr())
    events = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "JDBCRelation" in shown
    assert "JDBCRelation" in events
    where = {"plans": shown, "events": events, "rows": repr(rows), "access": repr(shop.access)}
    assert [name for name, text in where.items() if shop.access.password in text] == []
