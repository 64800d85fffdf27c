"""A form refuses the tables that the operator refuses, and none that it allows."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.operators.allowed_tables import form_pattern, refuse_other_tables
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

NAMES = st.lists(st.text("ab-_0é", min_size=1, max_size=3), min_size=1, max_size=3).map(".".join)
PATTERNS = st.lists(st.text("ab.-_0*?!]+$(|\\^", min_size=1, max_size=6), min_size=1, max_size=3)


@given(PATTERNS, NAMES)
def test_a_form_takes_the_names_that_the_operator_takes(patterns: list[str], name: str) -> None:
    in_form = re.search(form_pattern(patterns), name) is not None
    assert in_form == any(fnmatchcase(name, pattern) for pattern in patterns)


@pytest.mark.parametrize("name", ["shop.x; DROP TABLE y", "shop.`x`", "shop.x\n", "shop.x y", "shop.", "ashop.x"])
def test_a_form_of_one_namespace_takes_no_sql_and_no_other_table(name: str) -> None:
    assert re.search(form_pattern(["shop.*"]), name) is None


@pytest.mark.parametrize("given", ["shop.*", ["shop.[ab]"], ["{{ params.tables }}"]])
def test_what_a_form_cannot_take_is_refused(given: Any) -> None:
    with pytest.raises(InvalidSpecError):
        form_pattern(given)


def test_the_expression_is_one_that_browsers_take() -> None:
    # In the mode of browsers an ordinary character must not be escaped.
    assert form_pattern(["shop-eu.*", "mart.day_?"]) == r"^(shop-eu\.[\w.\-]+|mart\.day_[\w.\-])$(?!\n)"


def test_a_table_that_no_pattern_allows_is_refused_by_name() -> None:
    refuse_other_tables("shop.orders", ["mart.*", "shop.*"])
    refuse_other_tables("anything", None)
    with pytest.raises(InvalidSpecError, match=r"'other\.orders' is none of those .*: mart\.\*, shop\.\*"):
        refuse_other_tables("other.orders", ["mart.*", "shop.*"])


@pytest.mark.usefixtures("lake_connection")
@pytest.mark.parametrize("table", ["shop.target", "raw.orders", "raw.customers"])
def test_a_table_that_is_read_has_to_be_allowed_as_the_one_that_is_written(context: Context, table: str) -> None:
    over = {"orders": Changes("raw.orders"), "customers": LakeTable("raw.customers")}
    allowed = [name for name in ("shop.target", "raw.orders", "raw.customers") if name != table]
    job = LakeUpsertOperator(
        task_id="t", table="shop.target", source=Query("SELECT 1", over=over), keys=["id"], allowed_tables=allowed
    )
    with pytest.raises(InvalidSpecError, match=f"table '{table}' is none of those"):
        job.execute(context)
