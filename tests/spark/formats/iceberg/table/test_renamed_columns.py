"""A column that was renamed after the last commit is read by its new name, on main and on a branch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.publish_stage_branch import stage_branch_name
from tests.spark.upsert_flow import Flow, row


@pytest.mark.parametrize("branch", [None, "audit"])
def test_rows_before_a_batch_have_the_names_of_now(spark: SparkSession, tmp_path: Path, branch: str | None) -> None:
    flow = Flow(spark, f"renamed.{branch or 'main'}", tmp_path / "inbox")
    flow.arrive("1.jsonl", row(1, "on main"))
    flow.apply("run 1")
    if branch is not None:
        flow.arrive("1.jsonl", row(1, "on the branch"))
        flow.apply("run 2", branch=branch)
    spark.sql(f"ALTER TABLE {flow.table} RENAME COLUMN name TO title")
    spark.sql(f"ALTER TABLE {flow.table} ADD COLUMN name STRING")
    target = table_of(spark, flow.spec())
    base = target.applied_state("any", branch).base
    found = target.current_rows(base)
    assert found is not None
    titles = [(row["title"], row["name"]) for row in found.collect()]
    assert titles == [("on the branch" if branch else "on main", None)]


def test_rows_of_a_head_are_never_those_of_a_batch_on_its_stage_branch(spark: SparkSession, tmp_path: Path) -> None:
    flow = Flow(spark, "renamed.staged", tmp_path / "inbox")
    flow.arrive("1.jsonl", row(1, "on main"))
    flow.apply("run 1")
    # Some of these come before main in the metadata's map, some behind it.
    others = [stage_branch_name(f"{number:032x}") for number in range(3)] + ["a", "audit"]
    for name in others:
        spark.sql(f"ALTER TABLE {flow.table} CREATE BRANCH {name}")
    spark.sql(f"ALTER TABLE {flow.table} ADD COLUMN added INT")
    target = table_of(spark, flow.spec())
    found = target.current_rows(target.applied_state("any").base)
    assert found is not None
    for name in others:
        spark.sql(f"INSERT INTO {flow.table}.branch_{name} VALUES (2, 'not published', 0, 0)")
    assert [row["name"] for row in found.collect()] == ["on main"]
