"""Assertions are SELECTs over the batch or the table with it, and say which."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.audits import Audits
from airflow_lake_provider.contracts.errors import InvalidSpecError


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM audited WHERE total < 0",
        "select 1 from `batch`;",
        "-- why\n/* and\nhow */ (SELECT id FROM audited) -- end",
        "WITH b AS (SELECT * FROM Batch) SELECT * FROM b",
    ],
)
def test_queries_of_the_views_are_taken(query: str) -> None:
    assert Audits(queries={"name": query}).queries == {"name": query}


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        ({}, "at least one"),
        ({"": "SELECT * FROM audited"}, "line of text, got ''"),
        ({"a\nb": "SELECT * FROM audited"}, "line of text"),
        ({"a": ""}, "audit 'a' must be a SELECT"),
        ({"a": None}, "audit 'a' must be a SELECT"),
        ({"a": "DELETE FROM audited"}, "audit 'a' must be a SELECT"),
        ({"a": "-- SELECT\nDROP VIEW audited"}, "audit 'a' must be a SELECT"),
        ({"a": "selected FROM audited"}, "audit 'a' must be a SELECT"),
        ({"a": "SELECT * FROM shop.orders"}, "reads neither the view audited"),
        ({"a": "SELECT 'audited' -- batch"}, "reads neither the view audited"),
        ({"a": "SELECT * FROM audited_orders"}, "reads neither the view audited"),
    ],
)
def test_what_is_no_assertion_is_refused(queries: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        Audits(queries=queries)
    assert said in str(refused.value)


def test_a_local_assertion_reads_the_batch_alone() -> None:
    assert Audits(queries={"a": "SELECT * FROM batch WHERE name = 'audited'"}, local=True).local
    with pytest.raises(InvalidSpecError, match="'a' is declared local to the batch but reads the view audited"):
        Audits(queries={"a": "SELECT * FROM audited JOIN batch USING (id)"}, local=True)


def test_a_local_assertion_may_read_a_table_whose_name_only_begins_alike() -> None:
    audits = Audits(queries={"a": "SELECT id FROM batch JOIN shop.orders_seen USING (id)"}, local=True)
    audits.refuse_table("shop.orders")
    with pytest.raises(InvalidSpecError, match=r"shop\.orders_seen: the audits \['a'\]"):
        audits.refuse_table("shop.orders_seen")
