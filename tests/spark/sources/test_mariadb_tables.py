"""Tables and queries of a real MariaDB as sources: the values are those that were written there."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, DecimalType, StructField, StructType

from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.errors import (
    AccessDeniedError,
    BadInputError,
    InvalidConnectionError,
    LakeProviderError,
    MissingTableError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.source_access import DatabaseAccess
from airflow_lake_provider.spark_jobs.sources.jdbc.database import Database
from airflow_lake_provider.spark_jobs.sources.jdbc.dialect import DatabaseColumn
from airflow_lake_provider.spark_jobs.sources.jdbc.mariadb import MariaDb
from tests.end_to_end.mariadb_server import driver_jars, mariadb_server
from tests.spark.append_flow import append
from tests.spark.sources.database_tables import DatabaseTables
from tests.spark.sources.session_settings import add_jars
from tests.spark.sources.watermark_flow import read_above_watermark
from tests.spark.upsert_flow import InterruptedProgress, NewFlow


@dataclass(kw_only=True)
class Shop(DatabaseTables):
    """A database of MariaDB, and the session that reads it."""

    writer: Database

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.writer.execute(statement)


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> Iterator[Shop]:
    with mariadb_server() as running:
        add_jars(spark, driver_jars())
        url = f"jdbc:mysql://127.0.0.1:{running.port}/shop?permitMysqlScheme"
        access = DatabaseAccess(url, running.user, running.password)
        with closing(Database.open(spark, access, is_consistent=False)) as writer:
            writer.connection.setAutoCommit(True)
            writer.execute("SET SESSION TRANSACTION READ WRITE")
            yield Shop(spark=spark, access=access, conn_id="my_shop", writer=writer)


@pytest.fixture
def shop(server: Shop) -> Iterator[Shop]:
    with server.lent(
        "DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4", "USE shop", "SET sql_mode = ''"
    ):
        yield server


# Type and constant of MariaDB, and the value that a lake table has.
VALUES: dict[str, tuple[str, Any]] = {
    "tinyint": ("-128", -128),
    "tinyint(1)": ("7", 7),
    "tinyint unsigned": ("255", 255),
    "float unsigned": ("0.1", 0.10000000149011612),
    "double unsigned": ("0.1", 0.1),
    "smallint unsigned": ("65535", 65535),
    "mediumint": ("-8388608", -8388608),
    "int": ("2147483647", 2147483647),
    "int unsigned": ("4294967295", 4294967295),
    "int(5) zerofill": ("42", 42),
    "bigint": ("-9223372036854775808", -(2**63)),
    "bigint unsigned": ("18446744073709551615", Decimal(2**64 - 1)),
    "year": ("2155", 2155),
    "bit(1)": ("b'1'", True),
    "bit(9)": ("b'100000001'", 257),
    "bit(64)": ("18446744073709551615", Decimal(2**64 - 1)),
    # Six digits are what the database shows of it.
    "float": ("16777217.5", 16777218.0),
    "double": ("0.1", 0.1),
    "decimal(38,9)": ("12345678901234567890123456789.123456789", Decimal("12345678901234567890123456789.123456789")),
    "decimal(65,30)": ("-0.5", "-0.500000000000000000000000000000"),
    "decimal(5,2) unsigned": ("999.99", Decimal("999.99")),
    "date": ("'1500-02-28'", date(1500, 2, 28)),
    "datetime(6)": ("'1500-02-28 00:00:00.000001'", datetime.fromisoformat("1500-02-28T00:00:00.000001")),
    "datetime": ("'9999-12-31 23:59:59'", datetime.fromisoformat("9999-12-31T23:59:59")),
    "timestamp(6) NULL": ("'2024-03-30 17:30:00.123456'", datetime(2024, 3, 30, 17, 30, 0, 123456, tzinfo=UTC)),
    "time(3)": ("'-838:59:58.999'", "-838:59:58.999"),
    "char(4)": ("'ab'", "ab"),
    "varchar(9)": ("'a\\\\b''c€ '", "a\\b'c€ "),
    "varchar(3) CHARACTER SET latin1": ("'é'", "é"),
    "longtext": ("'🙂'", "🙂"),
    "json": ("""'{"b": 1,  "a": 12345678901234567890.10}'""", '{"b": 1,  "a": 12345678901234567890.10}'),
    "enum('sad','glad')": ("'glad'", "glad"),
    "set('a','b')": ("'a,b'", "a,b"),
    "uuid": ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "inet6": ("'::1'", "::1"),
    "binary(3)": ("x'00ff'", b"\x00\xff\x00"),
    "varbinary(9)": ("x'00ff'", b"\x00\xff"),
    "longblob": ("x'00ff'", b"\x00\xff"),
}


def test_each_type_has_the_very_value_that_the_database_has(shop: Shop) -> None:
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(VALUES))
    constants = ", ".join(constant for constant, _ in VALUES.values())
    nulls = ", ".join(["NULL"] * len(VALUES))
    shop.run(f"CREATE TABLE kinds ({columns})", f"INSERT INTO kinds VALUES ({constants}), ({nulls})")
    read = shop.rows("kinds")
    assert [row for row in read if all(value is None for value in row)] == [(None,) * len(VALUES)]
    (values,) = (row for row in read if row[0] is not None)
    made = {kind: plain(value) for kind, value in zip(VALUES, values, strict=True)}
    assert made == {kind: plain(value) for kind, (_, value) in VALUES.items()}


def plain(value: Any) -> str:
    """Return a value as text that tells types apart; all zones here are UTC."""
    return f"{value.isoformat()} {value.tzinfo is not None}" if isinstance(value, datetime) else repr(value)


@pytest.mark.parametrize("value", ["0000-00-00", "2024-00-10", "2024-05-00", "2024-02-31", "0000-03-01"])
@pytest.mark.parametrize("kind", ["date", "datetime(6)"])
def test_a_date_that_is_none_ends_the_read_and_is_never_null(shop: Shop, kind: str, value: str) -> None:
    shop.run("SET sql_mode = 'ALLOW_INVALID_DATES'", f"CREATE TABLE days (`it's {{}}` {kind})")
    shop.run(f"INSERT INTO days VALUES ('2024-02-29'), (NULL), ('{value}')")
    with pytest.raises(BadInputError, match=r"column it's \(\), it has a date that is none.*CASE WHEN YEAR"):
        shop.rows("days")
    assert len(shop.rows(sql="SELECT CAST(`it's {}` AS CHAR) AS d FROM days")) == 3


def test_no_limit_of_the_server_ends_a_read(shop: Shop) -> None:
    shop.run("CREATE TABLE log (id int, w int)", "INSERT INTO log SELECT seq, seq FROM seq_1_to_300")
    shop.run("SET GLOBAL sql_select_limit = 7")
    try:
        assert sorted(shop.rows("log")) == [(number, number) for number in range(1, 301)]
        assert len(shop.rows("log", watermark="w", columns=["id"])) == 300
    finally:
        shop.run("SET GLOBAL sql_select_limit = DEFAULT")


@pytest.mark.parametrize("limit", ["wait_timeout", "idle_transaction_timeout", "idle_readonly_transaction_timeout"])
def test_no_limit_of_the_server_ends_the_transaction_that_waits_for_the_read(shop: Shop, limit: str) -> None:
    shop.run("CREATE TABLE log (id int)", "INSERT INTO log VALUES (7)", f"SET GLOBAL {limit} = 1")
    try:
        source, listing = shop.listed("log")
        time.sleep(2.5)
        assert [tuple(row) for row in source.raw(listing, None).rows.collect()] == [(7,)]
    finally:
        shop.run(f"SET GLOBAL {limit} = DEFAULT")


def test_who_may_read_some_columns_alone_reads_them(shop: Shop) -> None:
    shop.run("CREATE TABLE people (id int, w int, Salary int)", "INSERT INTO people VALUES (1, 2, 3), (4, 5, 6)")
    shop.run("CREATE OR REPLACE USER clerk IDENTIFIED BY 'secret'", "GRANT SELECT (id, w) ON shop.people TO clerk")
    for name, value in DatabaseAccess(shop.access.url, "clerk", "secret").to_settings("my_clerk").items():
        shop.spark.conf.set(name, value)
    may_read: dict[str, Any] = {"connection": "my_clerk", "columns": ["ID"]}
    for ways in ({}, {"watermark": "w"}, {"partition_column": "w", "partitions": 2, "consistent": False}):
        assert sorted(shop.rows("people", **may_read, **ways)) == [(1,), (4,)]
    for columns in (None, ["id", "salary"]):
        with pytest.raises(AccessDeniedError, match="user 'clerk' may not read it"):
            shop.rows("people", connection="my_clerk", columns=columns)


def test_numbers_are_fitted_to_the_column_of_the_table_or_refused(shop: Shop) -> None:
    types = StructType([StructField("A", BooleanType()), StructField("b", DecimalType(4, 2))])
    shop.run("CREATE TABLE sums (a tinyint(1), b decimal(65,5))")
    shop.run("INSERT INTO sums VALUES (1, 1.5), (0, -99.99), (NULL, NULL)")
    read = {(True, Decimal("1.50")), (False, Decimal("-99.99")), (None, None)}
    assert set(shop.rows("sums", types)) == read
    for bad, says in [("2, 1", "a number but 0 and 1"), ("1, 1.005", "is no decimal"), ("1, 100", "is no decimal")]:
        shop.run("DELETE FROM sums", f"INSERT INTO sums VALUES ({bad})")
        with pytest.raises(BadInputError, match=says):
            shop.rows("sums", types)
    shop.run("CREATE TABLE odd (id int, b geometry)")
    with pytest.raises(BadInputError, match=r"no lake table has the types of b geometry.*ST_AsText\(x\)"):
        shop.rows("odd")
    shop.run("INSERT INTO odd VALUES (1, POINT(1, 2))")
    assert shop.rows(sql="SELECT ST_AsText(b) AS b FROM odd") == [("POINT(1 2)",)]
    assert shop.rows("odd", columns=["ID"]) == [(1,)]


def test_one_range_sees_one_moment_and_what_is_read_again_is_the_same(shop: Shop) -> None:
    shop.run("CREATE TABLE stock (id int PRIMARY KEY, n int)")
    shop.run("INSERT INTO stock SELECT seq, 0 FROM seq_1_to_9000")
    source, listing = shop.listed("stock")
    rows = source.raw(listing, None).rows
    # Nothing waits for the driver.
    shop.run("SET lock_wait_timeout = 5", "ALTER TABLE stock ADD COLUMN m int")
    shop.run("UPDATE stock SET n = 1", "DELETE FROM stock WHERE id % 2 = 0")
    assert rows.selectExpr("count(*)", "sum(n)").collect() == [(9000, 0)]
    source.close()
    with pytest.raises(UnsupportedError, match=r"share no snapshot.*consistent=False"):
        shop.rows("stock", partition_column="id")


@pytest.mark.parametrize(
    ("column", "more"), [("id", {}), ("day", {}), ("at", {}), ("id", {"sql": "SELECT * FROM `daily orders` -- all"})]
)
def test_ranges_have_each_row_once_and_are_balanced(shop: Shop, column: str, more: dict[str, Any]) -> None:
    shop.run("CREATE TABLE `daily orders` (id bigint unsigned, day date, at timestamp(6) NULL)")
    shop.run(
        "INSERT INTO `daily orders` SELECT 18446744073709000000 + seq, '2024-01-01' + INTERVAL seq DAY, "
        "'2024-01-01' + INTERVAL seq * 1000001 MICROSECOND FROM seq_1_to_2000",
        "INSERT INTO `daily orders` VALUES (NULL, NULL, NULL)",
    )
    table = None if more else "shop.`daily orders`"
    source, listing = shop.listed(table, partition_column=column, partitions=4, consistent=False, **more)
    read = source.raw(listing, None).rows.select(sf.spark_partition_id(), "*").collect()
    assert len({row[1:] for row in read}) == len(read) == 2001
    parts = [row[0] for row in read]
    assert [round(parts.count(part), -2) for part in range(4)] == [500] * 4


@pytest.mark.parametrize(("kind", "zone"), [("timestamp(6) NULL", "Z"), ("datetime(3)", "")])
def test_a_watermark_reads_what_is_above_it_and_an_overlap_what_came_late(
    shop: Shop, new_flow: NewFlow, kind: str, zone: str
) -> None:
    read_above_watermark(shop, new_flow, kind, zone)


def test_a_row_that_changes_during_the_read_is_read_once_and_its_change_by_the_next_run(
    shop: Shop, new_flow: NewFlow
) -> None:
    shop.run("CREATE TABLE log (id int, w bigint(30) unsigned zerofill)", "INSERT INTO log VALUES (1, 1), (2, 2)")
    flow = new_flow(source=JdbcTable("my_shop", "log", watermark="w"))
    change = InterruptedProgress(at="write", then=lambda: shop.run("INSERT INTO log VALUES (3, 18446744073709551615)"))
    assert append(flow, "run 1", progress=change).rows_appended == 2
    assert append(flow, "run 2").rows_appended == 1
    assert append(flow, "run 2").outcome is Outcome.ALREADY_APPLIED
    assert append(flow, "run 3").outcome is Outcome.NOTHING_NEW
    assert sorted(row["id"] for row in flow.records()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        ("datetime", "NULL", "is NULL in some rows"),
        ("datetime", "'0000-00-00'", "is NULL in some rows, or no date"),
        ("datetime NOT NULL", "'2024-01-01'), ('0000-00-00'", "is NULL in some rows, or no date"),
        ("date", "'9999-01-01'", "lies more than a day in the future"),
        ("varchar(9)", "'a'", r"is of type varchar; it must be a whole number.*CAST\(x AS SIGNED\)"),
    ],
)
def test_a_watermark_that_would_lose_rows_is_refused(shop: Shop, kind: str, value: str, says: str) -> None:
    shop.run(f"CREATE TABLE stamped (w {kind})", f"INSERT INTO stamped VALUES ({value})")
    with pytest.raises(BadInputError, match=says):
        shop.listed("stamped", watermark="w")


@pytest.mark.parametrize("null", ["NULL", "NOT NULL"])
@pytest.mark.parametrize("kind", ["bigint", "date", "datetime", "datetime(6)", "timestamp", "timestamp(6)"])
def test_an_index_tells_whether_a_watermark_has_rows_without_a_value(shop: Shop, kind: str, null: str) -> None:
    value = "seq" if kind == "bigint" else "'2024-01-01' + INTERVAL seq HOUR"
    shop.run(f"CREATE TABLE stamped (w {kind} {null}, KEY (w))")
    shop.run(f"INSERT INTO stamped SELECT {value} FROM seq_1_to_3000", "ANALYZE TABLE stamped")
    query = MariaDb().has_nulls("stamped", DatabaseColumn("w", kind.partition("(")[0]))
    # Neither the whole table nor the whole index.
    plan = shop.writer.text(f"EXPLAIN FORMAT=JSON {query}")
    assert re.findall(r'"access_type": "(ALL|index)"', plan) == []
    assert json.loads(shop.writer.text(query)) == {"are_there": False}
    if kind.startswith("timestamp"):
        shop.run("INSERT INTO stamped VALUES ('1970-01-01 00:00:01')")
    elif kind != "bigint":
        shop.run("INSERT INTO stamped VALUES ('0001-01-01'), ('2024-00-10')")
    assert json.loads(shop.writer.text(query)) == {"are_there": False}
    without = [*(["NULL"] if null == "NULL" else []), *(["'0000-00-00'"] if kind != "bigint" else [])]
    for none in without:
        shop.run(f"INSERT INTO stamped VALUES ({none})")
        assert json.loads(shop.writer.text(query)) == {"are_there": True}
        shop.run("DELETE FROM stamped WHERE w IS NULL OR CAST(w AS CHAR) LIKE '0000%'")


def test_what_cannot_be_read_is_refused_with_what_to_do(shop: Shop) -> None:
    shop.run(
        "CREATE TABLE t (id int)",
        "CREATE OR REPLACE USER reader@'127.0.0.1' IDENTIFIED BY 'secret'",
    )
    shop.run("CREATE VIEW seen AS SELECT id FROM t", "GRANT SELECT ON shop.seen TO reader@'127.0.0.1'")
    refused: list[tuple[dict[str, Any], type[LakeProviderError], str]] = [
        ({"table": "missing"}, MissingTableError, "missing of connection 'my_shop' does not exist"),
        ({"sql": "SELECT nothing FROM t"}, BadInputError, "nothing"),
        ({"table": "t", "watermark": "w"}, BadInputError, "watermark names a column"),
    ]
    for arguments, error, says in refused:
        with pytest.raises(error, match=says):
            shop.listed(**arguments)
    for name, value in DatabaseAccess(shop.access.url, "reader", "secret").to_settings("my_reader").items():
        shop.spark.conf.set(name, value)
    with pytest.raises(AccessDeniedError, match="user 'reader' may not read it"):
        shop.rows(sql="SELECT * FROM t", connection="my_reader")
    assert shop.rows("seen", connection="my_reader") == []
    shop.spark.conf.set("spark.lake.database.my_reader.password", "wrong-secret")
    with pytest.raises(InvalidConnectionError, match="reader") as caught:
        shop.listed("t", connection="my_reader")
    assert "wrong-secret" not in str(caught.value)
    source, listing = shop.listed("t")
    assert source.location().address == f"mysql://{shop.access.address.split('/')[2]}/shop.t"
    rows = source.raw(listing, None).rows
    assert shop.access.password not in rows._jdf.queryExecution().toString()
