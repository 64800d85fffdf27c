"""Texts that no parser has to see: refused when the spec is built, before Spark starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.contracts.sql_limits import unfit_for_predicate

BASE: dict[str, Any] = {"catalog": "lake", "table": "shop.orders", "run": RunIdentity.of("dag", "run", "task", "-1")}


def update(where: str = "id = 1", text: str = "1", **more: Any) -> UpdateRowsSpec:
    return UpdateRowsSpec(**BASE, assignments={"n": text}, where=where, **more)


def upsert(query: str | None = None, **more: Any) -> UpsertSpec:
    files = Files("in/*.json", name="s")
    source = Query(query, over=Files("in/*.json"), name="s") if query is not None else files
    return UpsertSpec(**BASE, source=source, keys=("id",), **more)


def incremental(query: str, **more: Any) -> IncrementalSpec:
    return IncrementalSpec(
        **BASE, source="shop.lines", consumer="c", keys=("id",), to_snapshot="1", query=query, **more
    )


PREDICATES: dict[str, Callable[[str], object]] = {
    "deletion": lambda where: DeleteRowsSpec(**BASE, where=where),
    "update": update,
    "compaction": lambda where: CompactionSpec(**BASE, where=where),
}
UNFIT = [
    ("name = '${env:HOME}'", "an environment variable"),
    ("id = 1\0", "NUL"),
    ("name = '\ud800'", "surrogates"),
    ("(" * 51 + "id = 1" + ")" * 51, "inside of each other"),
    ("CASE WHEN " * 51 + "a" + " THEN 1 END" * 51, "inside of each other"),
    ("ca\u017fe when " * 51 + "a" + " THEN 1 END" * 51, "inside of each other"),
    ("/*" * 51 + "*/" * 51 + "id = 1", "inside of each other"),
    ("id IN (" + ",".join("1" for _ in range(10_002)) + ")", "commas"),
    ("x" * 500_001, "characters"),
]


@pytest.mark.parametrize("taker", PREDICATES)
@pytest.mark.parametrize(("where", "why"), UNFIT)
def test_a_where_that_must_not_be_parsed_is_refused_with_the_spec(taker: str, where: str, why: str) -> None:
    with pytest.raises(InvalidSpecError, match=why) as refused:
        PREDICATES[taker](where)
    message = str(refused.value)
    assert len(message) < 1_500
    assert "Allowed are columns" in message
    assert (where[:6] in message) is not ("withheld" in message)


def test_a_where_within_the_limits_is_left_to_the_driver() -> None:
    for where in ("a = '$ {x}'", "(" * 50 + "id = 1" + ")" * 50, "id IN (" + "1," * 9_999 + "1)", "a = '\\u0024{x}'"):
        assert unfit_for_predicate(where) is None
    assert DeleteRowsSpec(**BASE, where="name = '${env:HOME}'", allow_sql=True).allow_sql


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda text, **more: upsert(f"SELECT {text} FROM source", **more), r"Query\.sql"),
        (lambda text, **more: upsert(delete_when=f"op = {text}", **more), "delete_when"),
        (lambda text, **more: upsert(audits=Audits(queries={"a": f"SELECT {text} FROM batch"}), **more), "audit 'a'"),
        (lambda text, **more: incremental(f"SELECT {text} FROM changes", **more), "query"),
        (lambda text, **more: update(text=text, **more), r"assignments\['n'\]"),
    ],
)
def test_code_with_a_variable_is_refused_unless_it_is_allowed(make: Callable[..., Any], name: str) -> None:
    with pytest.raises(InvalidSpecError, match=f"shop.orders: {name} may not have"):
        make("'${env:HOME}'")
    assert make("'${env:HOME}'", allow_sql=True).allow_sql


@pytest.mark.parametrize(
    "statement", ["DROP TABLE x", " (INSERT INTO x SELECT 1", "set a = 1", "begin select 1; end", " "]
)
def test_a_query_that_begins_as_none_is_refused_before_spark_starts(statement: str) -> None:
    for make, name in ((upsert, r"Query\.sql"), (incremental, "query")):
        with pytest.raises(InvalidSpecError, match=f"{name} must be one query"):
            make(statement, allow_sql=True)
