"""Terms of a layout: known transforms of columns, and nothing that Spark would have to find the meaning of."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionStrategy
from airflow_lake_provider.contracts.author.table_layout import LayoutTerm, TableLayout, partition_terms, sort_terms
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec

BASE: dict[str, Any] = {"catalog": "lake", "table": "shop.orders", "run": RunIdentity.of("dag", "run", "task", "-1")}


def term(transform: str, *column: str, number: int | None = None) -> LayoutTerm:
    return LayoutTerm(transform=transform, column=column, number=number)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id", term("identity", "id")),
        (" id ", term("identity", "id")),
        ("buyer.country", term("identity", "buyer", "country")),
        ("`zip-code`", term("identity", "zip-code")),
        ("`a``b`.`c.d`", term("identity", "a`b", "c.d")),
        ("identity(id)", term("identity", "id")),
        ("BUCKET( 16 , id )", term("bucket", "id", number=16)),
        ("truncate(4, `zip-code`)", term("truncate", "zip-code", number=4)),
        ("years(at)", term("years", "at")),
        ("date_hour(at)", term("date_hour", "at")),
    ],
)
def test_a_term_is_a_column_or_a_known_transform_of_one(text: str, expected: LayoutTerm) -> None:
    assert partition_terms([text]) == sort_terms([text]) == (expected,)


@pytest.mark.parametrize("order", ["ASC", "desc", "NULLS FIRST", "DESC  NULLS\tLAST", "asc nulls last"])
def test_a_term_of_a_sort_order_says_its_direction_and_where_nulls_go(order: str) -> None:
    assert sort_terms([f"days(at) {order}", f"desc {order}"]) == (term("days", "at"), term("identity", "desc"))
    with pytest.raises(InvalidSpecError, match="partition_by"):
        partition_terms([f"days(at) {order}"])


ATTACKS = [
    "id) TBLPROPERTIES ('a'='b'",
    "id, other",
    "id; DROP TABLE shop.orders",
    "id) LOCATION '/etc' --",
    "reflect('java.lang.System', 'exit', 0)",
    "days(reflect('a', 'b'))",
    "days(at) /* x */",
    "bucket(4, id) AS SELECT 1",
    "bucket(4, (SELECT 1))",
    "`${env:HOME}`",
    "${env:HOME}",
    "zip-code",
    "a b",
    "`a",
    "``",
    "a.",
    "'id'",
    '"id"',
    "id DESC, other",
    "id DESC DESC",
    "days(at) NULLS FIRST ASC",
    "days(at",
    "void(id)",
    "days()",
    "days(1)",
    "bucket(0, id)",
    "bucket(-1, id)",
    "bucket(99999999999, id)",
    "bucket(4, id, other)",
    "bucket(id)",
    "1",
    "",
    " ",
]


@pytest.mark.parametrize("text", ATTACKS)
def test_a_text_that_is_more_than_a_term_never_becomes_part_of_a_statement(text: str) -> None:
    with pytest.raises(InvalidSpecError, match=r"partition_by (.* is no term|must be a list)"):
        TableLayout(partition_by=(text,))
    with pytest.raises(InvalidSpecError, match=r"sort_by (.* is no term|must be a list)"):
        TableLayout(sort_by=(text,))
    with pytest.raises(InvalidSpecError, match=r"sort_by (.* is no term|must be a list)"):
        CompactionSpec(**BASE, strategy=CompactionStrategy.SORT, sort_by=(text,))


@pytest.mark.parametrize(
    ("text", "meant"), [("bucket(id, 4)", "bucket(4, id)"), ("truncate(a.b,2)", "truncate(2, a.b)")]
)
def test_the_number_behind_the_column_is_refused_with_the_right_order(text: str, meant: str) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        TableLayout(partition_by=(text,))
    assert f"comes first: {meant}." in str(refused.value)


def test_the_columns_of_a_zorder_are_names_not_terms() -> None:
    assert CompactionSpec(**BASE, strategy=CompactionStrategy.ZORDER, sort_by=("zip-code",)).sort_by == ("zip-code",)
