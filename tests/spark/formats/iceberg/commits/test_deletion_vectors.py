"""Deletion vectors of an upsert beside what a table has already."""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.specs.metadata_changes import TableUpgradeSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.spark.metadata_change_flow import carry_out
from tests.spark.upsert_flow import Flow, NewFlow, row


def _delete_files(flow: Flow) -> list[tuple[str, int]]:
    """Format and deleted rows of each delete file."""
    found = flow.spark.sql(f"SELECT file_format, record_count FROM {flow.table}.delete_files").collect()
    return sorted((str(kind), int(rows)) for kind, rows in found)


def test_a_vector_takes_the_place_of_the_position_deletes_of_an_upgraded_table(new_flow: NewFlow) -> None:
    flow = new_flow(strategy=UpsertStrategy.POSITIONS)
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(10)))
    flow.apply("run 1", create=TableLayout(properties={"format-version": "2"}))
    flow.arrive("2.jsonl", row(1, "b"))
    flow.apply("run 2")
    assert _delete_files(flow) == [("PARQUET", 1)]
    carry_out(flow, TableUpgradeSpec)
    flow.arrive("3.jsonl", row(2, "c"), row(3, "", op="d"))
    flow.apply("run 3")
    assert _delete_files(flow) == [("PUFFIN", 3)]
    names = {0: "a", 1: "b", 2: "c", **dict.fromkeys(range(4, 10), "a")}
    assert {key: name for key, (name, _) in flow.rows().items()} == names


def test_a_data_file_that_was_added_twice_has_one_vector(new_flow: NewFlow) -> None:
    flow = new_flow(strategy=UpsertStrategy.POSITIONS)
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(10)))
    flow.apply("run 1")
    jvm: Any = flow.spark._jvm
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(flow.spark._jsparkSession, flow.table)
    (file,) = table.currentSnapshot().addedDataFiles(table.io())
    table.newFastAppend().appendFile(file).commit()
    assert flow.spark.table(flow.table).count() == 20
    flow.arrive("2.jsonl", row(1, "b"))
    flow.apply("run 2")
    found = flow.spark.sql(f"SELECT name FROM {flow.table} WHERE id = 1").collect()
    assert [name for (name,) in found] == ["b"]
    assert flow.spark.table(flow.table).count() == 19
    assert len(_delete_files(flow)) == 1
