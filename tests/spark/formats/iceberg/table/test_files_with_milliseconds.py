"""Parquet files of other writers whose times are milliseconds, which Iceberg takes for microseconds in statistics."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionRunner
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, RowExpirySpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.delete_rows import delete_rows
from airflow_lake_provider.spark_jobs.actions.expire_rows import expire_rows
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table
from airflow_lake_provider.spark_jobs.formats.iceberg.iceberg_format import IcebergFormat
from airflow_lake_provider.spark_jobs.formats.iceberg.overwrites.whole_partitions import partition_filter
from airflow_lake_provider.spark_jobs.formats.iceberg.table.added_milliseconds import VECTORIZATION
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from airflow_lake_provider.tables.iceberg.maintenance_plans import plan_row_expiry
from tests.spark.jvm_commands import commands
from tests.spark.upsert_flow import Flow

NOW = datetime(2026, 11, 30, tzinfo=UTC)
FRESH, OLD = NOW - timedelta(days=1), NOW - timedelta(days=100)


@pytest.fixture(autouse=True)
def _vectors(spark: SparkSession) -> Iterator[None]:
    """The session of the tests is shared; that of a task is its own."""
    yield
    spark.conf.unset(VECTORIZATION)


def table_with(
    spark: SparkSession, folder: Path, name: str, *files: list[datetime], version: int = 3, by_dictionary: bool = True
) -> Flow:
    """A table whose files all came by add_files; ids count up from 0.

    :param by_dictionary: as pyarrow writes columns unless it is told not to.
    """
    schema = "ts TIMESTAMP, id BIGINT, v INT"
    source = Files(path=f"{folder}/inbox/*.jsonl", format="json", schema=schema)
    arguments = {"source": source, "keys": ("id", "ts"), "delete_when": None, "exclude_columns": ()}
    flow = Flow(spark, f"milliseconds.{name}", folder / "inbox", arguments)
    flow.make_table(schema, f"TBLPROPERTIES ('format-version' = '{version}')")
    number = 0
    for place, times in enumerate(files):
        ids = list(range(number, number + len(times)))
        number += len(times)
        columns = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "id": pa.array(ids, pa.int64())}
        rows = pa.table({**columns, "v": pa.array([0] * len(ids), pa.int32())})
        (folder / f"foreign{place}").mkdir()
        pq.write_table(
            rows, folder / f"foreign{place}" / "file.parquet", coerce_timestamps="ms", use_dictionary=by_dictionary
        )
        spark.sql(
            f"CALL lake_default.system.add_files(table => '{flow.table}', "
            f"source_table => '`parquet`.`file://{folder}/foreign{place}`')"
        )
    return flow


def millis(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def rows(flow: Flow) -> list[tuple[int, int]]:
    """Ids and values, read without a predicate."""
    return sorted((row["id"], row["v"]) for row in flow.spark.table(flow.table).collect())


def job(flow: Flow, run: str = "run 1") -> dict[str, Any]:
    return {"catalog": "lake_default", "table": flow.table, "run": RunIdentity.of("dag", run, "task", "-1")}


@pytest.mark.parametrize("by_dictionary", [False, True], ids=["plain", "dictionary"])
def test_rows_of_such_files_expire_by_their_own_age(spark: SparkSession, tmp_path: Path, by_dictionary: bool) -> None:
    name = "expiry_dictionary" if by_dictionary else "expiry"
    flow = table_with(spark, tmp_path, name, [FRESH, FRESH], [OLD, FRESH], [OLD], by_dictionary=by_dictionary)
    spec = RowExpirySpec(**job(flow), column="ts", keep=timedelta(days=30), max_share=1.0, asked_at=NOW)
    plan = plan_row_expiry(flow.on_worker(), spec)
    report = expire_rows(spark, spec, Progress())
    assert rows(flow) == [(0, 0), (1, 0), (3, 0)]
    assert report.rows_deleted == 2
    # Nobody can tell of whole files: all may have old rows, and some of them other ones.
    assert (plan.files_removed, plan.files_changed) == (0, 3)


@pytest.mark.parametrize(
    ("strategy", "version"),
    [(UpsertStrategy.POSITIONS, 2), (UpsertStrategy.COPY_ON_WRITE, 3), (UpsertStrategy.MERGE, 3)],
)
def test_a_row_of_such_a_file_with_a_time_in_its_key_is_updated(
    spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy, version: int
) -> None:
    flow = table_with(spark, tmp_path, f"keys_{strategy.name}", [FRESH, OLD], version=version)
    flow.arrive("1.jsonl", {"ts": FRESH.isoformat(), "id": 0, "v": 7})
    flow.apply("run 1", strategy=strategy)
    assert rows(flow) == [(0, 7), (1, 0)]


def test_a_deletion_by_time_finds_the_rows_of_such_files_and_who_keeps_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = table_with(spark, tmp_path, "deletion", [FRESH, OLD])
    since = f"ts >= TIMESTAMP '{FRESH.isoformat()}'"
    base = flow.head()
    assert [
        row["id"] for row in read_changes(spark, flow.table, None, base, mode="upserts", where=since).collect()
    ] == [0]
    report = delete_rows(spark, DeleteRowsSpec(**job(flow), where=since), Progress())
    assert report.rows_deleted == 1
    assert "history" in (report.retained_by or ())
    assert rows(flow) == [(1, 0)]


def test_a_query_over_such_a_table_finds_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    flow = table_with(spark, tmp_path, "query", [FRESH, OLD])
    table = IcebergFormat().table(spark, "lake_default", TableName.parse(flow.table), {})
    assert table.rows_at(flow.head()).where(f"ts = TIMESTAMP '{FRESH.isoformat()}'").count() == 1


def test_a_gone_row_whose_key_lives_on_in_such_a_file_is_no_delete(spark: SparkSession, tmp_path: Path) -> None:
    flow = table_with(spark, tmp_path, "gone", [FRESH, OLD])
    spark.sql(f"INSERT INTO {flow.table} VALUES (TIMESTAMP '{FRESH.isoformat()}', 0, 5)")
    base = flow.head()
    delete_rows(spark, DeleteRowsSpec(**job(flow), where="v = 5"), Progress())
    assert read_changes(spark, flow.table, base, None, keys=("id", "ts")).collect() == []


def test_an_overwrite_by_time_of_such_a_table_says_why_it_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    flow = table_with(spark, tmp_path, "overwrite", [FRESH, OLD])
    table = IcebergTable(spark, "lake_default", TableName.parse(flow.table))
    since = f"ts >= TIMESTAMP '{FRESH.isoformat()}'"
    assert partition_filter(table, since, allow_rows=True) is None
    with pytest.raises(InvalidSpecError, match=r"schema\.name-mapping\.default"):
        partition_filter(table, since, allow_rows=False)


@pytest.mark.parametrize("runner", [CompactionRunner.AUTO, CompactionRunner.SPARK])
def test_a_compaction_of_such_files_keeps_their_times(
    spark: SparkSession, tmp_path: Path, runner: CompactionRunner
) -> None:
    flow = table_with(spark, tmp_path, f"compaction_{runner.value}", [FRESH, OLD], [OLD])
    spec = CompactionSpec(**job(flow), level=CompactionLevel.FULL, runner=runner)
    assert compact_table(spark, spec, Progress()).files_rewritten == 2
    written = flow.loaded().scan().to_arrow().to_pylist()
    assert {row["id"]: row["ts"] for row in written} == {0: FRESH, 1: OLD, 2: OLD}


def compacted(flow: Flow, run: str = "compaction") -> str:
    """Write the files of main anew, in microseconds, and return the head of before; a task of another day begins."""
    base = flow.head()
    compact_table(flow.spark, CompactionSpec(**job(flow, run), level=CompactionLevel.FULL), Progress())
    flow.spark.conf.unset(VECTORIZATION)
    IcebergTable(flow.spark, "lake_default", TableName.parse(flow.table)).refresh()
    assert flow.spark.conf.get(VECTORIZATION, "true") == "true"
    return base


def test_a_snapshot_of_before_a_compaction_is_read_with_its_times(spark: SparkSession, tmp_path: Path) -> None:
    flow = table_with(spark, tmp_path, "as_of", [FRESH, OLD])
    base = compacted(flow)
    table = IcebergFormat().table(spark, "lake_default", TableName.parse(flow.table), {})
    read = table.rows_at(base).selectExpr("id", "unix_millis(ts) AS at").collect()
    assert {row["id"]: row["at"] for row in read} == {0: millis(FRESH), 1: millis(OLD)}


def test_a_column_of_times_that_was_dropped_since_is_read_with_them(spark: SparkSession, tmp_path: Path) -> None:
    flow = table_with(spark, tmp_path, "dropped", [FRESH, OLD])
    base = compacted(flow)
    spark.sql(f"ALTER TABLE {flow.table} DROP COLUMN ts")
    table = IcebergFormat().table(spark, "lake_default", TableName.parse(flow.table), {})
    read = table.rows_at(base).selectExpr("id", "unix_millis(ts) AS at").collect()
    assert {row["id"]: row["at"] for row in read} == {0: millis(FRESH), 1: millis(OLD)}


def test_a_column_of_times_that_was_renamed_since_is_read_with_them(spark: SparkSession, tmp_path: Path) -> None:
    flow = table_with(spark, tmp_path, "renamed", [FRESH, OLD])
    base = compacted(flow)
    spark.sql(f"ALTER TABLE {flow.table} RENAME COLUMN ts TO at")
    table = IcebergFormat().table(spark, "lake_default", TableName.parse(flow.table), {})
    read = table.rows_at(base).selectExpr("id", "unix_millis(ts) AS at").collect()
    assert {row["id"]: row["at"] for row in read} == {0: millis(FRESH), 1: millis(OLD)}


def test_changes_since_before_a_compaction_have_the_times_of_removed_files(spark: SparkSession, tmp_path: Path) -> None:
    flow = table_with(spark, tmp_path, "changes", [FRESH, OLD])
    base = flow.head()
    delete_rows(spark, DeleteRowsSpec(**job(flow), where="id = 0"), Progress())
    compacted(flow)
    changes = read_changes(spark, flow.table, base, None, keys=("id", "ts"))
    deleted = changes.selectExpr("_change_type", "id", "unix_millis(ts) AS at").collect()
    assert [tuple(row) for row in deleted] == [("delete", 0, millis(FRESH))]


def test_who_keeps_a_row_of_before_a_compaction_is_told(spark: SparkSession, tmp_path: Path) -> None:
    flow = table_with(spark, tmp_path, "proof", [FRESH, OLD])
    base = compacted(flow)
    since = f"ts >= TIMESTAMP '{FRESH.isoformat()}'"
    report = delete_rows(spark, DeleteRowsSpec(**job(flow), where=since), Progress())
    assert report.rows_deleted == 1
    assert base in (report.retained_by or {})["history"]


@pytest.mark.parametrize("strategy", [UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE])
def test_a_row_of_a_branch_that_no_compaction_wrote_anew_is_updated(
    spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    flow = table_with(spark, tmp_path, f"branch_{strategy.name}", [FRESH, OLD])
    spark.sql(f"ALTER TABLE {flow.table} CREATE BRANCH side")
    compacted(flow)
    flow.arrive("1.jsonl", {"ts": FRESH.isoformat(), "id": 0, "v": 7})
    flow.apply("run 1", strategy=strategy, branch="side")
    spark.conf.set(VECTORIZATION, "false")
    read = spark.sql(f"SELECT id, unix_millis(ts) AS at, v FROM {flow.table} VERSION AS OF 'side'").collect()
    assert sorted(map(tuple, read)) == [(0, millis(FRESH), 7), (1, millis(OLD), 0)]


@pytest.mark.parametrize("year", [1, 1800, 2101, 9999])
def test_times_of_any_year_are_read_right(spark: SparkSession, tmp_path: Path, year: int) -> None:
    time = datetime(year, 12, 31, tzinfo=UTC)
    flow = table_with(spark, tmp_path, f"year_{year}", [time, time])
    table = IcebergFormat().table(spark, "lake_default", TableName.parse(flow.table), {})
    read = table.rows_at(flow.head()).selectExpr("id", "unix_millis(ts) AS at").collect()
    assert {row["id"]: row["at"] for row in read} == {0: millis(time), 1: millis(time)}


def test_a_table_without_such_times_is_read_in_vectors(spark: SparkSession, tmp_path: Path) -> None:
    flow = table_with(spark, tmp_path, "vectors")
    spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('schema.name-mapping.default' = '[]')")
    spark.sql(f"INSERT INTO {flow.table} VALUES (TIMESTAMP '{FRESH.isoformat()}', 0, 5)")
    table = IcebergTable(spark, "lake_default", TableName.parse(flow.table)).refresh()
    assert spark.conf.get(VECTORIZATION, "true") == "true"
    # Nobody can tell this time from one of 1994 in milliseconds.
    spark.sql(f"INSERT INTO {flow.table} VALUES (TIMESTAMP '1970-01-10 00:00:00Z', 1, 5)")
    table.refresh()
    assert spark.conf.get(VECTORIZATION, "true") == "false"


def test_a_batch_plans_no_more_of_a_table_with_a_name_mapping(spark: SparkSession, tmp_path: Path) -> None:
    plans = {}
    for name, mapping in {"unmapped": "", "mapped": "'schema.name-mapping.default' = '[]', "}.items():
        (tmp_path / name).mkdir()
        flow = table_with(spark, tmp_path / name, name)
        spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ({mapping}'a' = 'b')")
        for run in range(3):
            flow.arrive(f"{run}.jsonl", *({"ts": FRESH.isoformat(), "id": id_, "v": run} for id_ in range(2)))
            with commands(spark) as sent:
                flow.apply(f"run {run}", strategy=UpsertStrategy.POSITIONS)
        plans[name] = sum("planFiles" in command for command in sent)
        assert rows(flow) == [(0, 2), (1, 2)]
    assert plans["mapped"] == plans["unmapped"]
