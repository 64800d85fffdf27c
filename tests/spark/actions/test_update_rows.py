"""Updates: the new values once, on the rows as they are when the commit lands, under the row ids they had."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import (
    BadInputError,
    CommitConflictError,
    ForgottenRunError,
    InvalidSpecError,
)
from airflow_lake_provider.contracts.reports.failure_causes import VALUE
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.spark_jobs.failures import root_cause
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from tests.spark.forgotten_runs import forget_runs, old_run
from tests.spark.maintained_table import MaintainedTable, ProgressThatRuns
from tests.spark.row_change_flow import rows_outside, update

PLUS_ONE = {"amount": "amount + 1"}


def test_files_of_an_update_that_lost_are_deleted(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 10)
    with pytest.raises(CommitConflictError):
        update(
            table,
            progress=ProgressThatRuns("commit", lambda: table.append(100, 1), times=9),
            assignments=PLUS_ONE,
            where="id = 1",
            max_attempts=1,
        )
    live = {path.rpartition("/")[2] for path in table.live_files()}
    folder = table.outside().location().removeprefix("file://").removeprefix("file:")
    assert {path.name for path in (Path(folder) / "data").glob("*") if path.suffix in (".parquet", ".puffin")} == live
    assert rows_outside(table) == table.rows


def test_what_would_break_the_table_is_refused(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    columns = "id BIGINT NOT NULL, region STRING, amount BIGINT NOT NULL"
    spark.sql(f"CREATE OR REPLACE TABLE {table.name} ({columns}) USING iceberg")
    spark.sql(f"ALTER TABLE {table.name} SET IDENTIFIER FIELDS id")
    table.append(0, 3)
    with pytest.raises(InvalidSpecError, match=r"identifier columns \['id'\]"):
        update(table, assignments={"id": "7"}, where="id > 0")
    with pytest.raises(InvalidSpecError, match="lacks: \\['colour'\\]"):
        update(table, assignments={"colour": "7"}, where="id > 0")
    with pytest.raises(BadInputError, match=r"\{'amount': 1\}"):
        update(table, assignments={"amount": "nullif(amount, 10)"}, where="id > 0")
    with pytest.raises(InvalidSpecError, match="refused for a function"):
        update(table, assignments=PLUS_ONE, where="abs(id) = 1")
    assert update(table, assignments=PLUS_ONE, where="abs(id) = 1", allow_sql=True).rows_updated == 1
    table.rows[1] = ("north", 11)
    assert rows_outside(table) == table.rows


def test_a_retry_of_which_the_table_may_have_forgotten_the_first_try_is_refused(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    forget_runs(spark, table.name)
    with pytest.raises(ForgottenRunError, match="Check the rows, then start a new DAG run"):
        update(table, old_run(2), assignments=PLUS_ONE, where="id = 1")
    assert rows_outside(table) == table.rows
    assert update(table, old_run(1), assignments=PLUS_ONE, where="id = 1").outcome is Outcome.APPLIED
    assert update(table, old_run(2), assignments=PLUS_ONE, where="id = 1").outcome is Outcome.ALREADY_APPLIED
    assert rows_outside(table)[1] == ("north", 11)


def test_a_named_update_whose_predicate_is_made_anew_counts_once_and_another_name_is_another(
    spark: SparkSession,
) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    before = {key: amount for key, (_, amount) in rows_outside(table).items()}
    first = update(table, task_name="earn", where="id < 2", assignments=PLUS_ONE)
    again = update(table, task_name="earn", where="id < 3", assignments=PLUS_ONE)
    assert (again.outcome, again.run_key) == (Outcome.ALREADY_APPLIED, first.run_key)
    update(table, task_name="more", where="id < 1", assignments=PLUS_ONE)
    update(table, "run 2", task_name="earn", where="id < 1", assignments=PLUS_ONE)
    after = {key: amount - before[key] for key, (_, amount) in rows_outside(table).items()}
    assert after == {0: 3, 1: 1, 2: 0}


def test_an_update_that_another_tool_rolled_back_is_made_again_when_its_task_is_cleared(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    before = table.head()
    update(table, assignments=PLUS_ONE, where="id = 1")
    spark.sql(f"CALL system.rollback_to_snapshot('{table.name}', {before})")
    assert update(table, assignments=PLUS_ONE, where="id = 1").outcome is Outcome.APPLIED
    assert update(table, assignments=PLUS_ONE, where="id = 1").outcome is Outcome.ALREADY_APPLIED
    assert rows_outside(table) == {**table.rows, 1: ("north", 11)}


@pytest.mark.parametrize("change", ["ADD COLUMN note STRING", "RENAME COLUMN region TO place"])
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_an_update_whose_table_gets_other_columns_meanwhile_is_tried_anew(
    spark: SparkSession, change: str, mode: str
) -> None:
    table = MaintainedTable(spark)
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.update.mode' = '{mode}')")
    table.append(0, 10)

    def meanwhile() -> None:
        spark.sql(f"ALTER TABLE {table.name} {change}")

    report = update(table, progress=ProgressThatRuns("stage", meanwhile), assignments=PLUS_ONE, where="id = 1")
    assert (report.attempts, report.rows_updated) == (2, 1)
    amounts = {row["id"]: row["amount"] for row in table.outside().scan().to_arrow().to_pylist()}
    assert amounts == {key: amount + (key == 1) for key, (_, amount) in table.rows.items()}


@pytest.mark.parametrize(
    ("column", "expression", "message"),
    [
        ("amount", "nope + 1", r"do not fit the columns .*'nope'|do not fit the columns .*`nope`"),
        ("amount", "max(amount)", "do not fit the columns"),
        ("amount", "struct(id)", "do not fit the columns"),
        ("amount", "day", "amount is date, and the column is bigint: nothing tells what the number counts"),
        ("day", "amount", "day is bigint, and the column is date: nothing tells what the number counts"),
        ("amount", "amount * 1.7", r"amount is decimal\(.*bigint: its fraction would be lost"),
        ("amount", "amount / 4", "amount is double, and the column is bigint: its fraction would be lost"),
        ("counts", "map('n', 0.5)", r"counts.value is decimal\(1,1\), and the column is int: its fraction"),
        ("whole", "amount * 1.7", r"whole is decimal\(.*decimal\(12,0\): its fraction would be lost"),
        ("whole", "amount / 4", r"whole is double, and the column is decimal\(12,0\): its fraction would be lost"),
        ("info", "array(named_struct('at', amount))", "info.element.at is bigint, and the column is timestamp"),
    ],
)
def test_an_expression_that_does_not_fit_its_column_is_refused(
    spark: SparkSession, column: str, expression: str, message: str
) -> None:
    table = MaintainedTable(spark)
    columns = "day DATE, info ARRAY<STRUCT<at: TIMESTAMP>>, counts MAP<STRING, INT>, whole DECIMAL(12, 0)"
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS ({columns})")
    spark.sql(f"INSERT INTO {table.name} VALUES (1, 'north', 10, DATE '2026-01-01', NULL, NULL, NULL)")
    before = table.head()
    with pytest.raises(InvalidSpecError, match=message):
        update(table, assignments={"region": "'south'", column: expression}, where="id = 1")
    assert table.head() == before
    assert update(table, assignments={"day": "date_from_unix_date(CAST(amount AS INT))"}, where="id = 1").rows_updated
    assert table.records()[0]["day"] == date(1970, 1, 11)


def test_a_double_beyond_its_float_column_is_refused_and_others_are_stored(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 2)
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS (rate FLOAT, rates ARRAY<STRUCT<a: FLOAT>>)")
    before = table.head()
    for assignments in (
        {"rate": "1e39D * id"},
        {"rate": "'1e39'"},
        {"rates": "array(NULL, named_struct('a', 1e39D * id))"},
    ):
        with pytest.raises(SPARK_ERRORS, match="beyond FLOAT") as refused:
            update(table, assignments=assignments, where="id = 1")
        cause = root_cause(refused.value)
        assert cause is not None
        assert cause.kind is VALUE
    assert table.head() == before
    assert update(table, assignments={"rate": "' Infinity'"}, where="id = 1").rows_updated == 1
    sound = {"rate": "double('-Infinity')", "rates": "array(NULL, named_struct('a', CAST(amount AS DOUBLE)))"}
    assert update(table, assignments=sound, where="id = 1").rows_updated == 1
    row = next(each for each in table.records() if each["id"] == 1)
    assert (row["rate"], row["rates"]) == (float("-inf"), [None, {"a": float(row["amount"])}])
    assert update(table, assignments={"rate": "CAST(NULL AS DOUBLE)"}, where="id = 1").rows_updated == 1
    assert next(each for each in table.records() if each["id"] == 1)["rate"] is None


def test_an_expression_without_a_fraction_is_a_whole_number_and_a_price_is_rounded(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS (whole DECIMAL(12, 0), price DECIMAL(12, 2))")
    assignments = {
        "amount": "CAST(round(amount * 1.7) AS BIGINT) + CAST(5 AS DECIMAL(9, 0))",
        "whole": "round(amount * 1.77)",
        "price": "amount * 0.1257",
    }
    update(table, assignments=assignments, where="id = 1")
    assert rows_outside(table) == {**table.rows, 1: ("north", 22)}
    row = next(each for each in table.records() if each["id"] == 1)
    assert (row["whole"], row["price"]) == (Decimal(18), Decimal("1.26"))
