"""Changes of rows, and compactions, that a table rules out are refused without Spark, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError, MissingTableError, UnsupportedError
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.update_rows import LakeUpdateRowsOperator
from tests.unit.operators.conftest import context
from tests.unit.operators.run_of_tests import NO_SPARK
from tests.unit.operators.submitted import refusal, starts_spark
from tests.unit.table_maker import ENCRYPTED, Make, make

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["context", "make"]


def update(**arguments: Any) -> LakeUpdateRowsOperator:
    given: dict[str, Any] = {"table": "shop.target", "assignments": {"name": "'b'"}, "where": "id = 1"}
    return LakeUpdateRowsOperator(task_id="t", **{**given, **NO_SPARK, **arguments})


def delete(**arguments: Any) -> LakeDeleteRowsOperator:
    return LakeDeleteRowsOperator(task_id="t", table="shop.target", **NO_SPARK, **arguments)


ROW_CHANGES: list[tuple[int, dict[str, str], LakeJobOperator[Any], type[Exception], str]] = [
    (1, {}, update(), UnsupportedError, "format version 1 has no deletes"),
    (1, {}, delete(where="id = 1"), UnsupportedError, "format version 1 has no deletes"),
    (2, ENCRYPTED, delete(where="id = 1"), UnsupportedError, "encrypted"),
    (2, {}, update(assignments={"code": "1"}), InvalidSpecError, "table lacks: ['code']"),
    (2, {}, update(assignments={"ID": "1"}), InvalidSpecError, "identifier columns ['id']"),
    (2, {}, update(where="code = 1 AND (id > 2 OR NOT place IS NULL)"), InvalidSpecError, "['code', 'place']"),
    (2, {}, delete(where="name = 'x' or smith = 'x'"), InvalidSpecError, "a column, its name is withheld,"),
    (2, {}, delete(keys_from="k.parquet", keys=["code"]), BadInputError, "['code'] are not in both"),
    (2, {}, delete(keys_from=LakeTable("shop.target", as_of="9"), keys=["id"]), BadInputError, "snapshot 9 is not in"),
    (2, {}, delete(keys_from=LakeTable("shop.absent"), keys=["id"]), MissingTableError, "shop.absent: the table of"),
]


@pytest.mark.parametrize(("version", "properties", "job", "error", "said"), ROW_CHANGES)
def test_a_change_of_rows_that_the_table_rules_out_is_refused_without_spark(
    make: Make,
    context: Context,
    version: int,
    properties: dict[str, str],
    job: LakeJobOperator[Any],
    error: type[Exception],
    said: str,
) -> None:
    make("shop.target", version, **properties)
    found = refusal(job, context)
    assert isinstance(found, error)
    assert said in str(found)
    assert "smith" not in str(found)


@pytest.mark.parametrize(
    "job",
    [
        update(where="NAME = 'x' AND score BETWEEN 1 AND 2"),
        update(where='"code" = 1'),
        update(where="`code` = 1"),
        update(where="code = 1", allow_sql=True),
        delete(where="id <=> 1"),
        delete(where="upper(name) = 'X'", allow_sql=True),
        delete(keys_from=Files("k.parquet"), keys=["NAME"]),
    ],
)
def test_a_change_of_rows_that_the_driver_may_take_reaches_spark(
    make: Make, context: Context, job: LakeJobOperator[Any]
) -> None:
    make("shop.target")
    assert starts_spark(job, context)


def test_a_missing_table_is_refused_without_spark_by_every_operator(lake_catalog: SqlCatalog, context: Context) -> None:
    compaction = LakeCompactionOperator(task_id="t", table="shop.target", **NO_SPARK)
    for job in (update(), delete(where="id = 1"), compaction):
        assert isinstance(refusal(job, context), MissingTableError)


@pytest.mark.parametrize("strategy", ["zorder", "hilbert"])
def test_a_compaction_by_columns_that_are_not_there_is_refused_without_spark(
    make: Make, context: Context, strategy: str
) -> None:
    make("shop.target")
    given: dict[str, Any] = {"task_id": "t", "table": "shop.target", "level": "full", "strategy": strategy, **NO_SPARK}
    found = refusal(LakeCompactionOperator(sort_by=["id", "place"], **given), context)
    assert "sort_by names columns that the table lacks: ['place']" in str(found)
    assert starts_spark(LakeCompactionOperator(sort_by=["ID", "name"], **given), context)


def test_a_compaction_in_an_order_that_the_table_cannot_have_is_refused_without_spark(
    make: Make, context: Context
) -> None:
    given: dict[str, Any] = {"task_id": "t", "level": "full", "strategy": "sort", **NO_SPARK}
    make("shop.target")
    unordered = refusal(LakeCompactionOperator(table="shop.target", **given), context)
    assert isinstance(unordered, InvalidSpecError)
    assert "strategy 'sort' needs an order, and the table has none; give sort_by" in str(unordered)
    sort_by = ["bucket(4, place)", "id DESC"]
    lacking = refusal(LakeCompactionOperator(table="shop.target", sort_by=sort_by, **given), context)
    assert "sort_by names columns that the table lacks: ['place']" in str(lacking)
    sort_by = ["truncate(2, NAME) ASC NULLS LAST", "`id` DESC"]
    assert starts_spark(LakeCompactionOperator(table="shop.target", sort_by=sort_by, **given), context)


def test_a_compaction_in_the_tables_own_order_reaches_spark(
    make: Make, context: Context, lake_catalog: SqlCatalog
) -> None:
    make("shop.target")
    with lake_catalog.load_table("shop.target").update_sort_order() as order:
        order.asc("id", IdentityTransform())
    given: dict[str, Any] = {"task_id": "t", "level": "full", "strategy": "sort", **NO_SPARK}
    assert starts_spark(LakeCompactionOperator(table="shop.target", **given), context)


# What Spark reads as an Iceberg expression, and PyIceberg not, or as another one.
SPARKS_OWN = [
    "name < DATE '2026-01-01'",
    "`name` = 'x'",
    "id <=> 1",
    "id = 1 -- of the first",
    "name = 1",
    "score = 1.5 AND NAME = 'it\\'s'",
    "name LIKE 'a\\_%'",
    "name like 'a_%'",
]


@pytest.mark.parametrize("where", SPARKS_OWN)
def test_a_compaction_of_a_part_that_spark_alone_can_read_reaches_spark_unless_it_is_a_dry_run(
    make: Make, context: Context, where: str
) -> None:
    make("shop.target")
    given: dict[str, Any] = {"task_id": "t", "table": "shop.target", "level": "full", "where": where, **NO_SPARK}
    assert starts_spark(LakeCompactionOperator(**given), context)
    dry_run = refusal(LakeCompactionOperator(dry_run=True, **given), context)
    assert isinstance(dry_run, InvalidSpecError)
    # A report names it, and knows no other.
    assert type(dry_run).__name__ == "InvalidSpecError"
    assert "where=" in str(dry_run)


def test_a_compaction_of_a_part_by_a_column_that_is_not_there_is_refused_without_spark(
    make: Make, context: Context
) -> None:
    make("shop.target")
    given: dict[str, Any] = {"task_id": "t", "table": "shop.target", "level": "full", **NO_SPARK}
    lacking = refusal(LakeCompactionOperator(where="id = 1 AND code = 2", **given), context)
    assert isinstance(lacking, InvalidSpecError)
    assert "where names columns ['code'] that the table lacks" in str(lacking)
