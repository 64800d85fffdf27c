"""Tables of databases as authors, forms and XCom give them, and loads that would count their rows twice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable, relation_parts
from airflow_lake_provider.contracts.author.lake_tables import Changes
from airflow_lake_provider.contracts.author.merge_engines import Aggregation
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import source
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import from_json, to_json
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec

ORDERS = JdbcTable("pg_shop", "public.orders", watermark="changed", overlap=timedelta(minutes=10), name="orders")
WHOLE = JdbcTable("pg_shop", "public.orders", name="orders")
ABOVE = JdbcTable("pg_shop", "public.orders", watermark="changed", name="orders")


def upsert(read: Any, **changes: Any) -> UpsertSpec:
    run = RunIdentity.of("dag", "run", "task", "-1")
    return UpsertSpec(**{"catalog": "lake", "table": "a.b", "run": run, "source": read, "keys": ("id",), **changes})


def append(read: Any, **changes: Any) -> AppendSpec:
    run = RunIdentity.of("dag", "run", "task", "-1")
    return AppendSpec(**{"catalog": "lake", "table": "a.b", "run": run, "source": read, **changes})


def count(read: Any, **changes: Any) -> UpsertSpec:
    return upsert(read, merge_engine=Aggregation({"n": "sum"}), **changes)


def test_a_mapping_a_carried_spec_and_an_object_are_the_same_table() -> None:
    plain = {
        "type": "jdbc-table",
        "connection": "pg_shop",
        "table": "public.orders",
        "watermark": "changed",
        "overlap": "P0DT600S",
        "name": "orders",
    }
    assert source(plain) == ORDERS
    assert ORDERS.to_mapping() == plain
    assert (
        ORDERS.connections
        == Query("SELECT 1", over={"a": JdbcTable("pg_shop", "t")}).connections
        == {"pg_shop": "database"}
    )
    made = upsert(ORDERS)
    assert from_json(UpsertSpec, to_json(made)).checked() == made
    # How it is read makes no other run of it.
    tuned = JdbcTable("pg_shop", "t", partition_column="id", partitions=9, fetch_size=5, consistent=False, name="t")
    assert upsert(tuned).digest_text() == upsert(JdbcTable("pg_shop", "t", name="t")).digest_text()


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        ("orders", ("orders",)),
        ("public.Orders", ("public", "Orders")),
        ('shop."Daily ""x"". Orders"', ("shop", 'Daily "x". Orders')),
        *((text, ()) for text in ("", ".", "a.", "a..b", 'a."b', "a b", "a;b c", 'a"b"')),
    ],
)
def test_a_table_has_a_name_and_may_have_a_schema(table: str, parts: tuple[str, ...]) -> None:
    assert relation_parts(table) == parts


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "needs either table or sql"),
        ({"table": "t", "sql": "SELECT 1"}, "needs either table or sql"),
        ({"table": "a.b.c"}, "must be a table, or a schema and a table"),
        ({"table": "orders; DROP TABLE x"}, "must be a table, or a schema and a table"),
        ({"sql": "DELETE FROM t"}, "must be one query"),
        ({"sql": "SELECT 1;"}, "must not end with ';'"),
        ({"sql": "SELECT 1; -- of orders"}, "must not end with ';'"),
        ({"sql": "SELECT 1\n;\n/* of\norders */ "}, "must not end with ';'"),
        ({"table": "t", "overlap": "PT1H"}, "give watermark, too"),
        ({"table": "t", "watermark": "w", "overlap": 0}, "must be at least 1"),
        ({"table": "t", "watermark": "w", "overlap": "-PT1H"}, "positive timedelta"),
        ({"table": "t", "partitions": 0}, "must be at least 1"),
        ({"table": "t", "fetch_size": "many"}, "must be a whole number"),
        ({"table": "t", "columns": ["id", "ID"]}, "different columns"),
    ],
)
def test_what_cannot_be_read_is_refused_while_a_dag_is_parsed(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSpecError, match=says):
        JdbcTable("pg_shop", **arguments)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ';' -- of orders;",
        "SELECT 'it''s; --'",
        "SELECT 1 /* ; */",
        'SELECT 1 AS ";"',
        r"SELECT 'a\' || ';'",
        "SELECT 1 --",
        "-- of orders\nSELECT 1",
    ],
)
def test_a_semicolon_in_a_comment_or_in_quotes_ends_no_query(sql: str) -> None:
    assert JdbcTable("pg_shop", sql=sql).sql == sql


def test_templates_are_left_open() -> None:
    read = JdbcTable("{{ params.db }}", "{{ params.table }}", overlap="{{ params.overlap }}", watermark="w")
    assert read.rendered(lambda text: {"{{ params.overlap }}": "7"}.get(text, "shop.t")).checked().overlap == "7"


@pytest.mark.parametrize("make", [append, count])
@pytest.mark.parametrize("wrapped", [False, True])
def test_rows_that_each_run_reads_again_are_not_counted_twice(make: Any, wrapped: bool) -> None:
    def of(read: JdbcTable) -> Any:
        below = JdbcTable(**{k: v for k, v in read.to_mapping().items() if k not in ("type", "name")})
        return Query("SELECT * FROM source", over=below, name="orders") if wrapped else read

    for read, says in ((WHOLE, "has no watermark, so each run reads rows again"), (ORDERS, "has an overlap")):
        with pytest.raises(InvalidSpecError, match=says):
            make(of(read))
    assert make(of(ABOVE))
    assert make(of(WHOLE), batch_id="2026-01")
    assert upsert(of(WHOLE)).source == of(WHOLE)
    append(of(ORDERS), deduplicate_by=("id",), deduplicate_against="P1D")
    # Looked up beside what is new, it makes no rows of its own.
    looked_up = {"orders": Changes("shop.orders"), "names": JdbcTable("pg_shop", "names")}
    count(Query("SELECT 1", over=looked_up, name="joined"))


def test_an_upsert_needs_its_keys_among_the_columns() -> None:
    with pytest.raises(InvalidSpecError, match=r"must have those of keys, and lack \['id'\]"):
        upsert(JdbcTable("pg_shop", "orders", columns=["n"], name="orders"))


def test_rows_are_compared_by_columns_that_are_read() -> None:
    few = JdbcTable("pg_shop", "orders", columns=["id"], watermark="changed", name="orders")
    # The watermark finds the rows, and is no column of them.
    for lacking in ("note", "changed"):
        with pytest.raises(InvalidSpecError, match=rf"must have those of deduplicate_by, and lack \['{lacking}'\]"):
            append(few, deduplicate_by=["id", lacking])
    assert append(few, deduplicate_by=["ID"]).source == few
    assert append(few, deduplicate_by="{{ params.by }}").source == few
    append(JdbcTable("c", "t", columns="{{ params.some }}", watermark="w", name="t"), deduplicate_by=["id"])


def test_a_watermark_is_kept_for_main_and_a_whole_table_may_go_to_a_branch() -> None:
    with pytest.raises(InvalidSpecError, match="a watermark does not go with branch"):
        upsert(ABOVE, branch="audit")
    assert upsert(WHOLE, branch="audit").branch == "audit"
