"""A name is that of a table, and never of what Spark reads under a longer name of another table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_lake_provider.contracts.errors import MissingTableError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from tests.spark.upsert_flow import Flow, row


def test_a_part_of_a_table_is_no_table_until_one_is_made_under_its_name(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1")
    flow.spark.sql(f"ALTER TABLE {flow.table} CREATE BRANCH x")
    flow.spark.sql(f"ALTER TABLE {flow.table} CREATE TAG y")
    moments = (f"snapshot_id_{flow.head()}", "snapshot_id_1", "at_timestamp_1")
    for part in ("files", "ALL_manifests", "branch_x", "branch_none", "tag_y", *moments, "changes", "nothing"):
        table = IcebergTable(flow.spark, "lake_default", TableName.parse(f"{flow.table}.{part}"))
        assert not table.exists(), part
        with pytest.raises(MissingTableError, match=rf"^{flow.table}\.{part}: no such table in catalog"):
            _ = table.java
    files = replace(flow, table=f"{flow.table}.files")
    with pytest.raises(MissingTableError, match=r"\.files: the table does not exist"):
        files.apply("run 2", create=None)
    with pytest.raises(UnsupportedError, match=rf"\.files: the catalog takes this name .* {flow.table}, so"):
        files.apply("run 2")
    made = replace(flow, table=f"{flow.table}.branch_x")
    assert made.apply("run 2").outcome is Outcome.APPLIED
    assert made.rows() == flow.rows() == {1: ("a", 0)}
