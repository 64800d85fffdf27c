"""Partitions by a column that was dropped: no deleted row comes back, and every scan can be planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import convert_equality_deletes as conversion
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.rebase_commit import changed_files
from tests.spark.append_flow import append
from tests.spark.formats.iceberg.maintenance.keyed_deletes import KeyedDeleteTable, Written
from tests.spark.maintained_table import MaintainedTable
from tests.spark.maintenance_flow import compact, rewrite_manifests
from tests.spark.row_change_flow import delete
from tests.spark.upsert_flow import Flow

VALUES = {"number": 1, "text": "a", "price": None, "raw": None, "day": None, "region": None}


def without_region(table: MaintainedTable | KeyedDeleteTable) -> None:
    """Partition anew, and drop the column that the table was partitioned by."""
    table.spark.sql(f"ALTER TABLE {table.name} DROP PARTITION FIELD region")
    table.spark.sql(f"ALTER TABLE {table.name} DROP COLUMN region")


def ids(spark: SparkSession, name: str) -> set[int]:
    spark.sql(f"REFRESH TABLE {name}")
    return {row["id"] for row in spark.sql(f"SELECT id FROM {name}").collect()}


def with_deletes(spark: SparkSession, version: int, **properties: str) -> MaintainedTable:
    """Six small files of one partition, and a large file of another one with a delete by position."""
    table = MaintainedTable(spark, version=version, partitioned=True, properties=properties)
    for place in range(6):
        table.append(10 * place, 2, "north")
    table.append(1_000, 3_000, "south")
    table.delete([1_001])
    without_region(table)
    return table


@pytest.mark.parametrize("version", [2, 3])
def test_a_compaction_rewrites_all_files_in_one_commit(spark: SparkSession, version: int) -> None:
    table = with_deletes(spark, version)
    merged = rewrite_manifests(table)
    assert merged.outcome is Outcome.NOTHING_DUE
    assert ids(spark, table.name) == table.rows.keys()

    asked: dict[str, Any] = {
        "level": CompactionLevel.MINOR,
        "min_input_files": 2,
        "target_file_size": 8_192,
        "max_commits": 4,
    }
    planned = table.on_worker().plan_compaction(table.compaction(**asked))

    report = compact(table, **asked)

    assert (planned.files_rewritten, planned.delete_files_removed) == (7, 1)
    assert planned.reason.partition(":")[0] == report.reason.partition(":")[0]
    assert ids(spark, table.name) == table.rows.keys()
    summaries = spark.sql(f"SELECT summary FROM {table.name}.snapshots").collect()
    removed = [row["summary"]["deleted-data-files"] for row in summaries if "deleted-data-files" in row["summary"]]
    assert (report.level, removed) == ("full", ["7"])
    assert "all files in one commit, as deletes lie in partitions by the dropped column of 'region'" in report.reason
    assert report.after is not None
    assert report.after.delete_files == 0
    assert delete(table, where="id = 1002").rows_deleted == 1
    assert ids(spark, table.name) == table.rows.keys() - {1_002}


def test_a_compaction_of_a_part_is_refused_where_files_are_due(spark: SparkSession) -> None:
    table = with_deletes(spark, 2)
    with pytest.raises(UnsupportedError, match=r"partitions by 'region', whose column was dropped.* without where"):
        compact(table, where="id < 100")
    with pytest.raises(UnsupportedError, match="deleted rows would come back"):
        table.on_worker().plan_compaction(table.compaction(where="id < 100"))
    not_due: dict[str, Any] = {"where": "id < 100", "min_input_files": 100, "level": CompactionLevel.MINOR}
    assert table.on_worker().plan_compaction(table.compaction(**not_due)).outcome is Outcome.NOTHING_DUE
    assert compact(table, **not_due).outcome is Outcome.NOTHING_DUE
    assert ids(spark, table.name) == table.rows.keys()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_retry_goes_on_where_a_rewrite_of_such_partitions_was_cut_off(spark: SparkSession, version: int) -> None:
    table = MaintainedTable(spark, version=version, partitioned=True)
    for place in range(3):
        table.append(10 * place, 2, "north")
    without_region(table)
    compact(table, level=CompactionLevel.FULL)
    spark.sql(f"INSERT INTO {table.name} VALUES (50, 500)")
    before, head = table.handle, table.head()

    retried = compact(table, level=CompactionLevel.FULL)

    assert (retried.outcome, retried.files_rewritten) == (Outcome.DONE, 1)
    changed = changed_files(before, head=table.head(), base=head)
    assert changed is not None
    assert len(changed) == 2
    assert ids(spark, table.name) == table.rows.keys() | {50}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("many", [1, 100])
def test_deletes_by_key_are_not_converted_and_a_compaction_applies_them(
    spark: SparkSession, version: int, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "MANY_EQUALITY_DELETES", many)
    keyed = KeyedDeleteTable(spark, version)
    table = MaintainedTable(spark)
    table.name = keyed.name.removeprefix("lake_default.")
    for region in ("north", "south"):
        rows = [{**VALUES, "number": number} for number in (1, 2, 3)]
        keyed.write(table.handle.java, Written(rows=rows, spec=1, region=region))
    deleted = Written(keys=("number",), deletes=[{**VALUES, "number": 2}], spec=1, region="south")
    keyed.write(table.handle.java, deleted)
    without_region(keyed)
    report = compact(table, level=CompactionLevel.MAJOR)
    assert ids(spark, table.name) == {row.id for row in keyed.rows}
    assert report.equality_deletes_converted == 0
    assert report.after is not None
    assert (report.level, report.after.delete_files) == ("full", 0)


@pytest.mark.parametrize("version", [2, 3])
def test_no_delete_is_written_for_files_of_such_a_partition(spark: SparkSession, version: int) -> None:
    table = MaintainedTable(spark, version=version, partitioned=True)
    table.append(0, 20, "north")
    without_region(table)
    before = table.files_on_disk()
    with pytest.raises(UnsupportedError, match=r"partitions by 'region', whose column was dropped, cannot be deleted"):
        delete(table, where="id = 1")
    assert ids(spark, table.name) == table.rows.keys()
    assert table.files_on_disk() == before
    compact(table, level=CompactionLevel.FULL)
    assert delete(table, where="id = 1").rows_deleted == 1
    assert ids(spark, table.name) == table.rows.keys() - {1}


def test_rows_are_not_added_while_deletes_are_in_danger(flow: Flow, tmp_path: Path) -> None:
    table = with_deletes(flow.spark, 2)
    (tmp_path / "a.jsonl").write_text('{"id": 5000, "amount": 1}\n')
    source = Files(path=f"{tmp_path}/*.jsonl", format="json", schema="id BIGINT, amount BIGINT")
    with pytest.raises(UnsupportedError, match="deleted rows would come back"):
        append(flow, "run 1", table=table.name, source=source)
    compact(table)
    assert append(flow, "run 1", table=table.name, source=source).rows_appended == 1
    assert ids(flow.spark, table.name) == table.rows.keys() | {5_000}


def test_a_field_whose_value_is_kept_or_null_is_no_danger(spark: SparkSession) -> None:
    table = MaintainedTable(spark, version=2)
    spark.sql(f"ALTER TABLE {table.name} ADD PARTITION FIELD bucket(4, region)")
    table.append(0, 20, "north")
    table.delete([1])
    spark.sql(f"ALTER TABLE {table.name} DROP PARTITION FIELD bucket(4, region)")
    spark.sql(f"ALTER TABLE {table.name} DROP COLUMN region")
    assert delete(table, where="id = 2").rows_deleted == 1
    assert ids(spark, table.name) == table.rows.keys() - {2}


@pytest.mark.parametrize("partition", ["name", "bucket(2, name)", "truncate(1, name)"])
def test_a_merge_by_merge_on_read_is_refused_as_iceberg_fails_on_the_lost_partition(flow: Flow, partition: str) -> None:
    flow.catalog()
    flow.spark.sql(
        f"CREATE TABLE {flow.table} (id BIGINT, name STRING, n INT) USING iceberg PARTITIONED BY ({partition}) "
        "TBLPROPERTIES ('format-version' = '3', 'write.merge.mode' = 'merge-on-read')"
    )
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a', 1), (2, 'b', 2)")
    flow.spark.sql(f"ALTER TABLE {flow.table} DROP PARTITION FIELD {partition}")
    flow.spark.sql(f"ALTER TABLE {flow.table} DROP COLUMN name")
    flow.arrive("1.jsonl", {"id": 1, "n": 9, "op": "u"}, {"id": 3, "n": 3, "op": "u"})
    merge: dict[str, Any] = {"strategy": UpsertStrategy.MERGE, "exclude_columns": ("op", "name")}
    with pytest.raises(UnsupportedError, match=r"strategy='merge' is not possible, .* partitioned by was dropped"):
        flow.apply(**merge)
    flow.spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('write.merge.mode' = 'copy-on-write')")
    assert flow.apply(**merge).outcome is Outcome.APPLIED
    assert flow.rows() == {1: (9,), 2: (2,), 3: (3,)}


def test_a_void_field_of_a_dropped_column_goes_as_the_refusal_says(spark: SparkSession) -> None:
    table = MaintainedTable(spark, version=1, partitioned=True)
    spark.sql(f"ALTER TABLE {table.name} ADD PARTITION FIELD bucket(1, id)")
    for place in range(2):
        table.append(10 * place, 2, "north")
    without_region(table)
    obstacle = table.on_worker().unfit_for("compaction")
    assert obstacle is not None
    assert "its partition field region" in obstacle
    assert obstacle.endswith("ALTER TABLE ... DROP PARTITION FIELD region")

    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('format-version' = '2')")
    spark.sql(f"ALTER TABLE {table.name} DROP PARTITION FIELD region")

    assert table.on_worker().unfit_for("compaction") is None
    report = compact(table, level=CompactionLevel.FULL)
    assert (report.outcome, report.files_rewritten, report.failed_groups) == (Outcome.DONE, 2, 0)
    assert ids(spark, table.name) == table.rows.keys()
