"""Rows that Arrow sorts lie as Spark's own rewrite sorts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionStrategy
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow import rewrite_groups
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.row_order import TOO_MANY_ROWS
from tests.spark.formats.iceberg.maintenance.twin_tables import Twins

COLUMNS = "id BIGINT, flag BOOLEAN, n INT, day DATE, at TIMESTAMP, amount DECIMAL(12, 2), name STRING, raw BINARY"
# Each value of a column comes often, some are null, and texts have characters of one to four bytes.
ROWS = (
    "SELECT id, nullif(id % 3, 1) = 0 flag, nullif(int(id * 7 % 11) - 5, 0) n,"
    " nullif(date_add(date'1969-12-28', int(id % 9)), date'1970-01-01') day,"
    " timestamp_micros(id * 7919 % 13 - 6) at, nullif(cast(id * 31 % 17 - 8 AS DECIMAL(12, 2)), 0) amount,"
    " element_at(array('', 'a', 'B', 'é', '\U0001f600', 'zz', 'z', NULL), int(id * 5 % 8) + 1) name,"
    " nullif(unhex(hex(id * 37 % 255)), unhex('00')) raw FROM range({first}, {end}, 1, 1)"
)


def made(spark: SparkSession, version: int, order: str = "") -> Twins:
    both = Twins(spark, COLUMNS, version=version)
    for first in (0, 100, 200):
        both.append(spark.sql(ROWS.format(first=first, end=first + 100)))
    if order:
        both.run(f"ALTER TABLE {{}} WRITE LOCALLY ORDERED BY {order}")
    both.run("DELETE FROM {} WHERE id % 10 = 3")
    return both


def rows_in_file(twins: Twins, name: str, columns: list[str]) -> list[dict[str, Any]]:
    (path,) = twins.live_files(name)
    rows: list[dict[str, Any]] = pq.read_table(Path(path.removeprefix("file:")), columns=columns).to_pylist()
    return rows


ORDERS = [
    ["flag", "n DESC", "id"],
    ["day DESC NULLS FIRST", "amount ASC NULLS LAST", "id"],
    ["name", "id DESC"],
    ["name DESC", "at", "id"],
    ["raw", "id"],
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order[0])
def test_rows_that_are_sorted_lie_as_spark_sorts_them(spark: SparkSession, order: list[str]) -> None:
    both = made(spark, 3)

    report = both.compact(strategy=CompactionStrategy.SORT, sort_by=tuple(order))

    assert (report.outcome, report.left_to_spark, report.groups_by_arrow) == (Outcome.DONE, {}, 1)
    ours, theirs = both.names
    columns = [term.split()[0] for term in order]
    assert rows_in_file(both, ours, columns) == rows_in_file(both, theirs, columns)
    assert both.rows(ours) == both.rows(theirs)
    assert both.data_files(ours) == both.data_files(theirs)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("strategy", [CompactionStrategy.BINPACK, CompactionStrategy.SORT])
def test_files_of_a_table_with_a_sort_order_lie_in_it(
    spark: SparkSession, version: int, strategy: CompactionStrategy
) -> None:
    both = made(spark, version, "name DESC NULLS LAST, id")

    report = both.compact(strategy=strategy)

    assert (report.left_to_spark, report.groups_by_arrow) == ({}, 1)
    ours, theirs = both.names
    assert rows_in_file(both, ours, ["id"]) == rows_in_file(both, theirs, ["id"])
    assert both.rows(ours) == both.rows(theirs)
    assert both.data_files(ours) == both.data_files(theirs)


@pytest.mark.parametrize("order", ["bucket(4, id)", "price", "place.x"])
def test_an_order_that_arrow_does_not_surely_follow_leaves_the_table_to_spark(spark: SparkSession, order: str) -> None:
    both = Twins(spark, "id BIGINT, price DOUBLE, place STRUCT<x: INT>", version=3)
    both.run(f"ALTER TABLE {{}} WRITE ORDERED BY {order}")
    select = "SELECT id, double(-id) price, named_struct('x', int(-id)) place FROM range({}, {})"
    for first in (0, 10):
        both.append(spark.sql(select.format(first, first + 10)))

    report = both.compact()

    assert (report.outcome, report.groups_rewritten, report.groups_by_arrow) == (Outcome.DONE, 1, 0)
    assert next(iter(report.left_to_spark)).startswith("rows are ordered by ")
    assert both.rows(both.name) == both.rows(both.names[1])


def test_a_curve_is_left_to_spark(spark: SparkSession) -> None:
    report = made(spark, 3).compact(strategy=CompactionStrategy.ZORDER, sort_by=("id", "n"))
    assert (report.groups_by_arrow, report.left_to_spark) == (0, {"strategy 'zorder' orders rows": 1})


def test_rows_that_fill_several_files_in_order_are_left_to_spark(spark: SparkSession) -> None:
    both = Twins(spark, "id BIGINT, mark BIGINT", version=3)
    for first in (0, 40_000):
        both.append(spark.sql(f"SELECT id, xxhash64(id) mark FROM range({first}, {first + 40_000}, 1, 1)"))
    report = both.compact(strategy=CompactionStrategy.SORT, sort_by=("mark",), target_file_size=300_000)
    assert report.left_to_spark == {"rows are sorted into several files": 1}


def test_more_rows_than_a_worker_sorts_are_left_to_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite_groups, "MOST_SORTED_BYTES", 1000)
    report = made(spark, 3).compact(strategy=CompactionStrategy.SORT, sort_by=("id",))
    assert report.left_to_spark == {TOO_MANY_ROWS: 1}
