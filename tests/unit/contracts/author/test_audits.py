"""Assertions are SELECTs over the batch or the table with it, and say which."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.errors import InvalidSpecError


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM audited WHERE total < 0",
        "select 1 from `batch`;",
        "-- why\n/* and\nhow */ (SELECT id FROM audited) -- end",
        "WITH b AS (SELECT * FROM Batch) SELECT * FROM b",
        "-- don't\nSELECT * FROM batch",
        "FROM batch SELECT id",
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
        ({"a": " \n"}, "audit 'a' must be a SELECT"),
        ({"a": "((drop VIEW audited"}, "audit 'a' must be a SELECT"),
        ({"a": "selected FROM audited"}, "audit 'a' must be a SELECT"),
        ({"a": "SELECT * FROM shop.orders"}, "reads neither the view audited"),
    ],
)
def test_what_is_no_assertion_is_refused(queries: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        Audits(queries=queries)
    assert said in str(refused.value)
