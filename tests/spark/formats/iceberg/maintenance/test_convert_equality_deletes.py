"""Equality deletes that a compaction converts: no row changes, and PyIceberg reads the table again."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionRunner
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import convert_equality_deletes as conversion
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.convert_equality_deletes import (
    ConvertedDeletes,
    convert_equality_deletes,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.equality_delete import delete_by_equality, delete_by_values, upsert_by_equality
from tests.spark.formats.iceberg.maintenance.keyed_deletes import COMMITS, KeyedDeleteTable
from tests.spark.maintained_table import CATALOG, MaintainedTable, ProgressThatRuns
from tests.spark.maintenance_flow import compact, with_six_files_and_deletes

SUMMARY = {"lake.action": "compaction", "lake.run-key": "0" * 32}
RESOLVED = "commit positions"


def convert(table: MaintainedTable, progress: Progress | None = None) -> ConvertedDeletes:
    return convert_equality_deletes(table.handle, 3, SUMMARY, progress or Progress())


@pytest.fixture(autouse=True)
def _one_is_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "MANY_EQUALITY_DELETES", 1)


def equality_delete_files(spark: SparkSession, name: str) -> int:
    spark.sql(f"REFRESH TABLE {name}")
    return spark.table(f"{name}.delete_files").filter("content = 2").count()


@pytest.mark.parametrize("version", [2, 3])
@settings(
    max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_rows_after_a_conversion_are_those_before_it(spark: SparkSession, version: int, data: st.DataObject) -> None:
    granularity = data.draw(st.sampled_from(["file", "partition"])) if version == 2 else "file"
    table = KeyedDeleteTable(spark, version, granularity)
    handle = IcebergTable(spark, CATALOG, TableName.parse(table.name.removeprefix("lake_default.")))
    commits = data.draw(st.lists(COMMITS, min_size=3, max_size=8))
    positions_after = data.draw(st.integers(0, len(commits)))
    for number, written in enumerate(commits):
        if written.rows or written.deletes:
            table.write(handle.refresh().java, written)
        if number == positions_after and table.rows:
            table.delete([row.id for row in table.rows][:: data.draw(st.integers(2, 4))])
    expected = {row.id: row.values for row in table.rows}
    handle.refresh()
    if handle.head() is None:
        return
    written_before = equality_delete_files(spark, table.name)
    assert {row["id"] for row in spark.table(table.name).collect()} == expected.keys()

    converted = convert_equality_deletes(handle, 3, SUMMARY, Progress())

    assert (converted.files, dict(converted.left)) == (written_before, {})
    assert equality_delete_files(spark, table.name) == 0
    assert {row["id"] for row in spark.table(table.name).collect()} == expected.keys()
    outside = StaticTable.from_metadata(handle.refresh().java.operations().current().metadataFileLocation())
    read = {row.pop("id"): row for row in outside.scan().to_arrow().to_pylist()}
    assert read == expected


@pytest.mark.parametrize("version", [2, 3])
def test_arrow_rewrites_files_whose_equality_deletes_were_converted(spark: SparkSession, version: int) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark, version=version))
    upsert_by_equality(spark, table.handle.java, {20: ("south", 7), 30: ("south", 8)})
    delete_by_equality(spark, table.handle.java, [21])
    table.rows.update({20: ("south", 7), 30: ("south", 8)})
    table.rows.pop(21)

    report = compact(table, runner=CompactionRunner.ARROW)

    assert (report.outcome, report.equality_deletes_converted, report.equality_deletes_left) == (Outcome.DONE, 2, {})
    assert "2 equality delete files became 3 positions" in report.reason
    assert report.groups_by_arrow == report.groups_rewritten > 0
    assert {row["id"]: (row["region"], row["amount"]) for row in table.records()} == table.rows
    assert table.rows_in_data_files() == table.rows


def with_deleted_keys(spark: SparkSession, version: int) -> tuple[MaintainedTable, int]:
    """Return two files of ten rows, and the head before row 5 of the first was deleted by key; 8 and 15 by position."""
    table = MaintainedTable(spark, version=version)
    table.append(0, 10)
    table.append(10, 10)
    table.delete([8, 15])
    began = int(table.head())
    delete_by_equality(spark, table.handle.java, [5])
    table.rows.pop(5)
    return table, began


def rewrite_of(spark: SparkSession, table: MaintainedTable, began: int, id_: int) -> Any:
    """Return a rewrite of the file with a row, which began at a snapshot and is to be committed: Iceberg's own."""
    jvm: Any = spark._jvm
    java = table.handle.java
    old, rows = next(
        (path, rows)
        for path in table.live_files()
        for rows in [pq.read_table(path.removeprefix("file:"))]
        if id_ in rows["id"].to_pylist()
    )
    tasks = table.handle.java.newScan().useSnapshot(began).planFiles().iterator()
    file = next(file for file in iter(lambda: tasks.next().file(), None) if str(file.location()) == old)
    path = Path(old.removeprefix("file:")).with_name(f"rewritten-{uuid4().hex}.parquet")
    alive = pc.invert(pc.is_in(rows["id"], pa.array([8, 15])))
    pq.write_table(rows.filter(alive), path)
    copy = jvm.org.apache.iceberg.DataFiles.builder(java.spec()).withPath(f"file:{path}").withFormat("parquet")
    copy = copy.withFileSizeInBytes(path.stat().st_size).withRecordCount(pc.sum(alive).as_py()).build()
    rewrite = java.newRewrite().validateFromSnapshot(began).deleteFile(file).addFile(copy)
    return rewrite.dataSequenceNumber(java.snapshot(began).sequenceNumber())


def assert_converted(table: MaintainedTable) -> None:
    assert equality_delete_files(table.spark, table.name) == 0
    assert table.rows_read() == table.rows
    assert {row["id"]: (row["region"], row["amount"]) for row in table.records()} == table.rows


@pytest.mark.parametrize("id_", [5, 12], ids=["with the row", "without it"])
@pytest.mark.parametrize("version", [2, 3])
def test_no_row_comes_back_by_a_rewrite_that_began_before_its_delete_and_is_committed_first(
    spark: SparkSession, version: int, id_: int
) -> None:
    table, began = with_deleted_keys(spark, version)
    resolved: list[int] = []

    def rewritten() -> None:
        resolved.append(1)
        if len(resolved) == 1:
            rewrite_of(spark, table, began, id_).commit()

    converted = convert(table, ProgressThatRuns(RESOLVED, rewritten, times=2))

    assert (converted.files, converted.rows) == (1, 1)
    # A file that has gone with the row has to be looked through in its new place.
    assert len(resolved) == (2 if id_ == 5 else 1)
    assert_converted(table)


@pytest.mark.parametrize("version", [2, 3])
def test_no_row_comes_back_by_a_rewrite_that_began_before_its_delete_and_is_committed_last(
    spark: SparkSession, version: int
) -> None:
    table, began = with_deleted_keys(spark, version)
    with_row, without = (rewrite_of(spark, table, began, id_) for id_ in (5, 12))

    assert convert(table).files == 1

    with pytest.raises(Py4JJavaError, match="found new"):
        with_row.commit()
    without.commit()
    assert_converted(table)


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_and_rows_that_a_writer_adds_meanwhile_stay(spark: SparkSession, version: int) -> None:
    table, _ = with_deleted_keys(spark, version)
    table.rows.update({6: ("south", 1), 16: ("south", 2)})

    converted = convert(
        table,
        ProgressThatRuns(
            RESOLVED,
            lambda: upsert_by_equality(spark, table.handle.java, {6: ("south", 1), 16: ("south", 2)}),
        ),
    )

    assert (converted.files, converted.rows) == (1, 1)
    assert equality_delete_files(spark, table.name) == 1
    assert table.rows_read() == table.rows
    assert convert(table).rows == 2
    assert_converted(table)


@pytest.mark.parametrize("version", [2, 3])
def test_positions_that_a_writer_deletes_meanwhile_in_the_same_file_stay_deleted(
    spark: SparkSession, version: int
) -> None:
    table, _ = with_deleted_keys(spark, version)
    other = table.other_session()

    converted = convert(table, ProgressThatRuns(RESOLVED, lambda: table.delete([6], other)))

    assert converted.files == 1
    assert_converted(table)


def test_a_rollback_meanwhile_is_resolved_from_where_it_went(spark: SparkSession) -> None:
    table, began = with_deleted_keys(spark, 2)
    delete_by_equality(spark, table.handle.java, [6])

    def back() -> None:
        table.handle.java.manageSnapshots().rollbackTo(began).commit()
        delete_by_equality(spark, table.handle.java, [7])

    converted = convert(table, ProgressThatRuns(RESOLVED, back))

    table.rows.pop(7)
    table.rows[5] = ("north", 50)
    assert (converted.files, converted.rows) == (1, 1)
    assert_converted(table)


def test_keys_that_match_no_row_go_by_a_commit_that_readers_take_for_a_rewrite(spark: SparkSession) -> None:
    table = MaintainedTable(spark, version=2)
    table.append(0, 10)
    delete_by_equality(spark, table.handle.java, [77])

    assert (convert(table).files, convert(table).files) == (1, 0)

    head = table.outside().current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary.operation.value == "replace"
    assert_converted(table)


RENAMED = "ALTER TABLE {} RENAME COLUMN region TO place"


def test_keys_of_a_renamed_column_are_read_by_their_field(spark: SparkSession) -> None:
    table = MaintainedTable(spark, version=2)
    table.append(0, 3, "north")
    table.append(3, 3, "south")
    delete_by_values(spark, table.handle.java, [{"region": "north"}])
    spark.sql(RENAMED.format(table.name))
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMN region STRING")

    assert convert(table).rows == 3

    assert equality_delete_files(spark, table.name) == 0
    assert sorted(row["id"] for row in table.records()) == [3, 4, 5]


def test_deletes_whose_key_column_was_dropped_stay_and_are_reported(spark: SparkSession) -> None:
    table = MaintainedTable(spark, version=2)
    table.append(0, 3)
    delete_by_values(spark, table.handle.java, [{"amount": 10}])
    delete_by_equality(spark, table.handle.java, [2])
    spark.sql(f"ALTER TABLE {table.name} DROP COLUMN amount")

    converted = convert(table)

    assert (converted.files, dict(converted.left)) == (1, {"a key column is nested or was dropped": 1})
    assert equality_delete_files(spark, table.name) == 1


def test_few_equality_delete_files_are_left_to_the_rewrite(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "MANY_EQUALITY_DELETES", 2)
    table, _ = with_deleted_keys(spark, 2)

    report = compact(table)

    assert (report.outcome, report.equality_deletes_converted) == (Outcome.DONE, 0)
    assert_converted(table)
