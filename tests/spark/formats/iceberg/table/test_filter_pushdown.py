"""Keys and predicates that ORC's reader would compare with its statistics otherwise than Spark compares values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import AuditFailedError
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.delete_rows import delete_rows
from airflow_lake_provider.spark_jobs.actions.update_rows import update_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.iceberg_format import IcebergFormat
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from tests.spark.upsert_flow import Flow

# UTF-8 orders these texts as they stand here, UTF-16 puts the last before the second.
LETTER, WIDE, EMOJI = "A", "\uff21", "\U0001f600"
ANCIENT, RECENT = "1582-10-04", "2024-02-29"
ORC = TableLayout(file_format="orc")


def written(flow: Flow, name: str, *rows: dict[str, Any]) -> None:
    flow.inbox.mkdir(parents=True, exist_ok=True)
    (flow.inbox / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def flow_of(spark: SparkSession, folder: Path, name: str, schema: str, **changes: Any) -> Flow:
    source = Files(path=f"{folder}/inbox/*.jsonl", format="json", schema=schema)
    arguments = {"source": source, "keys": ("k",), "create": ORC, "delete_when": None, "exclude_columns": ()}
    return Flow(spark, f"orc.{name}", folder / "inbox", {**arguments, **changes})


def held(flow: Flow) -> list[tuple[Any, ...]]:
    """Rows as Spark reads them where it has no predicate to push."""
    rows = flow.spark.table(flow.table).collect()
    return sorted((tuple(row) for row in rows), key=lambda row: row[-1])


def job(flow: Flow, run: str) -> dict[str, Any]:
    return {"catalog": "lake_default", "table": flow.table, "run": RunIdentity.of("dag", run, "task", "-1")}


@pytest.mark.parametrize("strategy", [UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE])
def test_an_orc_table_gets_no_text_key_twice(spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy) -> None:
    flow = flow_of(spark, tmp_path, f"texts_{strategy.name}", "k STRING, v INT", strategy=strategy)
    written(flow, "1.jsonl", *({"k": key, "v": n} for n, key in enumerate([LETTER, WIDE, EMOJI])))
    flow.apply("run 1")
    written(flow, "2.jsonl", {"k": WIDE, "v": 7})
    flow.apply("run 2")
    assert held(flow) == [(LETTER, 0), (EMOJI, 2), (WIDE, 7)]


def test_an_orc_table_gets_no_old_day_twice(spark: SparkSession, tmp_path: Path) -> None:
    schema = "k DATE, at TIMESTAMP, v INT"
    flow = flow_of(spark, tmp_path, "days", schema, keys=("k", "at"), strategy=UpsertStrategy.POSITIONS)
    days = ["0001-01-01", ANCIENT, RECENT]
    written(flow, "1.jsonl", *({"k": day, "at": f"{day}T10:00:00", "v": n} for n, day in enumerate(days)))
    flow.apply("run 1")
    # Each in a batch of its own: of one day the range is that day.
    for number, day in enumerate(days):
        written(flow, f"{number + 2}.jsonl", {"k": day, "at": f"{day}T10:00:00", "v": 10 + number})
        flow.apply(f"run {number + 2}")
    texts = spark.table(flow.table).selectExpr("string(k)", "string(at)", "v").collect()
    assert sorted(map(tuple, texts)) == [(day, f"{day} 10:00:00", 10 + n) for n, day in enumerate(days)]


def test_a_predicate_finds_the_rows_of_orc_files_that_it_is_true_for(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_of(spark, tmp_path, "predicates", "k STRING, day DATE, v INT")
    rows = [(LETTER, RECENT), (WIDE, RECENT), (EMOJI, ANCIENT), ("B", ANCIENT), ("C", "0001-01-01")]
    written(flow, "1.jsonl", *({"k": key, "day": day, "v": n} for n, (key, day) in enumerate(rows)))
    flow.apply("run 1")
    first = str(flow.spark.sql(f"SELECT snapshot_id FROM {flow.table}.snapshots").collect()[0][0])
    seen = read_changes(spark, flow.table, None, first, where=f"k = '{WIDE}'").collect()
    assert [row["v"] for row in seen] == [1]
    update = UpdateRowsSpec(**job(flow, "run 2"), assignments={"v": "10"}, where=f"v < 5 AND day = DATE '{ANCIENT}'")
    assert update_rows(spark, update, Progress()).rows_updated == 2
    delete = DeleteRowsSpec(**job(flow, "run 3"), where=f"k IN ('{WIDE}', 'nobody')")
    report = delete_rows(spark, delete, Progress())
    assert report.rows_deleted == 1
    # The proof looks at the same files, whose rows are still in them.
    assert set(report.retained_by or ()) == {"branch main", "history"}
    assert sorted((row[0], row[2]) for row in held(flow)) == [(LETTER, 0), ("B", 10), ("C", 4), (EMOJI, 10)]


def test_deleted_text_keys_of_orc_files_are_told_from_those_that_live_on(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_of(spark, tmp_path, "gone", "k STRING, v INT")
    written(flow, "1.jsonl", {"k": LETTER, "v": 0}, {"k": WIDE, "v": 1}, {"k": EMOJI, "v": 2})
    flow.apply("run 1")
    first = str(flow.spark.sql(f"SELECT snapshot_id FROM {flow.table}.snapshots").collect()[0][0])
    # The key lives on in another row, of a file that also holds keys on both sides of it.
    values = f"('{LETTER}{LETTER}', 3), ('{WIDE}', 4), ('{EMOJI}{EMOJI}', 5)"
    spark.sql(f"INSERT INTO {flow.table} SELECT /*+ COALESCE(1) */ * FROM VALUES {values} AS t(k, v)")
    delete_rows(spark, DeleteRowsSpec(**job(flow, "run 2"), where="v = 1"), Progress())
    found = read_changes(spark, flow.table, first, None).collect()
    assert sorted((row["_change_type"], row["v"]) for row in found) == [("upsert", 3), ("upsert", 4), ("upsert", 5)]


def test_a_predicate_on_floating_point_numbers_finds_nan_and_both_zeros(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_of(spark, tmp_path, "floats", "k STRING, d DOUBLE", create=TableLayout())
    written(flow, "0.jsonl", {"k": "x", "d": 5.0})
    flow.apply("run 0")
    for key, number in (("nan", "double('NaN')"), ("minus", "-0.0D"), ("plus", "0.0D")):
        spark.sql(f"INSERT INTO {flow.table} VALUES ('{key}', {number})")
    zeros = DeleteRowsSpec(**job(flow, "run 1"), where="d = 0.0")
    report = delete_rows(spark, zeros, Progress())
    assert report.rows_deleted == 2
    assert "history" in (report.retained_by or ())
    assert delete_rows(spark, DeleteRowsSpec(**job(flow, "run 2"), where="d > 100"), Progress()).rows_deleted == 1
    assert [row["k"] for row in spark.table(flow.table).collect()] == ["x"]


def test_queries_and_audits_find_the_rows_of_orc_files(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_of(spark, tmp_path, "queried", "k STRING, v INT")
    written(flow, "1.jsonl", *({"k": key, "v": n} for n, key in enumerate([LETTER, WIDE, EMOJI])))
    flow.apply("run 1")
    query = f"SELECT * FROM source WHERE k = '{WIDE}'"
    copied = flow_of(spark, tmp_path, "copied", "", source=Query(query, over=LakeTable(flow.table)))
    assert copied.apply("run 2").batch_rows == 1
    audits = Audits(queries={"no wide letters": f"SELECT * FROM audited WHERE k = '{WIDE}'"})
    written(flow, "2.jsonl", {"k": LETTER, "v": 9})
    with pytest.raises(AuditFailedError, match="1 rows"):
        flow.apply("run 3", audits=audits)
    snapshot = str(flow.loaded().metadata.current_snapshot_id)
    rows = IcebergFormat().table(spark, "lake_default", TableName.parse(flow.table), {}).rows_at(snapshot)
    assert rows.where(f"k = '{WIDE}'").count() == 1


@pytest.mark.parametrize(
    ("where", "matching"),
    [
        ("k LIKE 'eu%' OR v = 3", {1, 3}),
        ("NOT (k LIKE 'eu%' OR v = 3)", {0}),
        ("k NOT LIKE 'eu%' AND v < 9", {0, 3}),
        ("k LIKE 'eu%'", {1}),
    ],
)
@pytest.mark.parametrize("transform", ["k", "truncate(4, k)"])
def test_the_beginning_of_a_text_is_not_asked_of_a_partition_that_is_null(
    spark: SparkSession, tmp_path: Path, where: str, matching: set[int], transform: str
) -> None:
    layout = TableLayout(partition_by=(transform,))
    name = f"nulls_{transform[:5]}_{len(where)}"
    flow = flow_of(spark, tmp_path, name, "k STRING, v INT", keys=("v",), create=layout)
    keys = ["de", "eu-west", None, "us"]
    written(flow, "1.jsonl", *({"k": key, "v": n} for n, key in enumerate(keys)))
    flow.apply("run 1")
    first = str(flow.spark.sql(f"SELECT snapshot_id FROM {flow.table}.snapshots").collect()[0][0])
    seen = read_changes(spark, flow.table, None, first, where=where).collect()
    assert {row["v"] for row in seen} == matching
    report = delete_rows(spark, DeleteRowsSpec(**job(flow, "run 2"), where=where), Progress())
    assert report.rows_deleted == len(matching)
    assert {row[1] for row in held(flow)} == {0, 1, 2, 3} - matching
