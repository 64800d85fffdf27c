"""The strategy that deletes rows by position: what it leaves, and what other writers do to it meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import (
    CommitConflictError,
    RolledBackError,
    UnknownOutcomeError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.commits import metadata_swap
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.write_deletes import write_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.rows import row_positions
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts import position_upsert
from tests.soak.tiny_batches import planned_by_default
from tests.spark.equality_delete import delete_by_equality
from tests.spark.formats.foreign_commits import compact
from tests.spark.said_settings import said
from tests.spark.upsert_flow import Flow, InterruptedProgress, NewFlow, row

V2 = TableLayout(properties={"format-version": "2"})


@pytest.fixture
def flow(new_flow: NewFlow) -> Flow:
    return new_flow(strategy=UpsertStrategy.POSITIONS)


def test_rows_of_orc_files_are_replaced_deleted_and_added_over_many_batches(flow: Flow) -> None:
    flow.arrive("1.jsonl", *(row(number, "a", number) for number in range(50)))
    report = flow.apply("run 1", create=TableLayout(file_format="orc"))
    assert (report.strategy, report.rows_inserted) == ("positions", 50)
    flow.arrive("2.jsonl", *(row(number, "b") for number in range(10, 20)), row(5, "", op="d"), row(77, "", op="d"))
    report = flow.apply("run 2")
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (0, 10, 1)
    flow.arrive("3.jsonl", *(row(number, "c") for number in range(15, 25)), row(5, "back"), row(60, "new"))
    report = flow.apply("run 3")
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (2, 10, 0)
    expected = {number: ("a", number) for number in range(50)}
    expected |= dict.fromkeys(range(10, 20), ("b", 0)) | dict.fromkeys(range(15, 25), ("c", 0))
    expected |= {5: ("back", 0), 60: ("new", 0)}
    assert flow.rows() == expected
    as_spark_reads = {r["id"]: (r["name"], r["n"]) for r in flow.spark.table(flow.table).collect()}
    assert as_spark_reads == expected
    before = flow.rows()
    compact(flow)
    assert flow.rows() == before


def test_spark_compiles_no_code_for_a_batch_of_other_keys(flow: Flow) -> None:
    jvm: Any = flow.spark._jvm
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(5_000)))
    flow.apply("run 1", create=TableLayout())
    counts = []
    with planned_by_default(flow.spark):
        for run in range(2, 5):
            flow.arrive(f"{run}.jsonl", *(row(number, "b") for number in range(run * 1_000, run * 1_000 + 500)))
            assert flow.apply(f"run {run}").rows_updated == 500
            counts.append(int(compiled.getCount()))
    assert counts[1:] == counts[1:2] * 2


def test_rows_that_keep_values_of_the_table_are_staged_as_one_file_though_the_join_shuffles(flow: Flow) -> None:
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(200)))
    flow.apply("run 1", create=TableLayout())
    flow.arrive("2.jsonl", *({"id": number, "name": "b", "op": "u"} for number in range(200)))
    partial = Files(path=f"{flow.inbox}/2.jsonl", format="json", schema="id BIGINT, name STRING, op STRING")
    with planned_by_default(flow.spark), said(flow.spark, {"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        report = flow.apply("run 2", source=partial, missing_columns=MissingColumns.KEEP)
    assert (report.strategy, report.rows_updated) == ("positions", 200)
    added = flow.spark.sql(f"SELECT summary['added-data-files'] FROM {flow.table}.snapshots ORDER BY committed_at")
    assert added.collect()[-1][0] == "1"


def test_many_positions_come_as_bitmaps_and_are_the_same(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_positions, "MOST_LISTED", 2)
    properties = "'format-version' = '3', 'write.merge.mode' = 'merge-on-read'"
    flow.make_table("id BIGINT, name STRING, n INT", f"TBLPROPERTIES ({properties})")
    # One file, whose positions are in three bitmaps of 32,768.
    flow.spark.range(0, 70_000, 1, 1).selectExpr("id", "'a' AS name", "0 AS n").writeTo(flow.table).append()
    edges = (0, 1, 32_767, 32_768, 65_535, 65_536, 69_999)
    flow.arrive("1.jsonl", *(row(number, "b") for number in edges), row(32_769, "", op="d"), row(70_000, "new"))
    report = flow.apply("run 1")
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (1, 7, 1)
    expected = {number: ("a", 0) for number in range(70_000) if number != 32_769}
    assert flow.rows() == expected | dict.fromkeys(edges, ("b", 0)) | {70_000: ("new", 0)}


@pytest.mark.parametrize("repeats", [0, 1])
def test_of_many_keys_one_that_the_table_holds_twice_gets_one_row(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, repeats: int
) -> None:
    monkeypatch.setattr(row_positions, "MOST_LISTED", 2)
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(9)))
    flow.apply("run 1")
    for _ in range(repeats):
        flow.spark.sql(f"INSERT INTO {flow.table} VALUES (5, 'again', 0)")
    flow.arrive("2.jsonl", *(row(number, "b") for number in range(4, 12)))
    report = flow.apply("run 2")
    assert (report.rows_inserted, report.rows_updated) == (3, 5 + repeats)
    assert flow.rows() == {n: ("a" if n < 4 else "b", 0) for n in range(12)}


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_key_that_moves_to_another_partition_is_deleted_in_its_old_one(flow: Flow, version: str) -> None:
    layout = TableLayout(partition_by=("name",), properties={"format-version": version})
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"), row(3, "b"))
    flow.apply("run 1", create=layout)
    flow.arrive("2.jsonl", row(1, "b", 7))
    flow.apply("run 2")
    assert flow.rows() == {1: ("b", 7), 2: ("a", 0), 3: ("b", 0)}
    flow.spark.sql(f"ALTER TABLE {flow.table} ADD PARTITION FIELD bucket(2, id)")
    flow.arrive("3.jsonl", row(1, "c"), row(2, "c"), row(4, "c"))
    flow.apply("run 3")
    assert flow.rows() == {1: ("c", 0), 2: ("c", 0), 3: ("b", 0), 4: ("c", 0)}


NEW_BRANCH = {
    UpsertStrategy.POSITIONS: "(9, 'z', 9), (2, 'z', 9)",
    UpsertStrategy.EQUALITY: "(9, 'z', 9), (2, 'z', 9)",
    UpsertStrategy.COPY_ON_WRITE: "(9, 'z', 9)",
}


@pytest.mark.parametrize("strategy", NEW_BRANCH)
def test_a_new_branch_begins_where_main_is_when_it_is_committed(flow: Flow, strategy: UpsertStrategy) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(3, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"), row(2, "b"))
    insert = f"INSERT INTO {flow.table} VALUES {NEW_BRANCH[strategy]}"
    progress = InterruptedProgress(at="commit", then=lambda: flow.spark.sql(insert))
    report = flow.apply("run 2", strategy=strategy, branch="audit", progress=progress)
    assert report.attempts == 1
    found = flow.spark.read.option("branch", "audit").table(flow.table).collect()
    assert sorted(found) == [(1, "b", 0), (2, "b", 0), (3, "a", 0), (9, "z", 9)]
    assert flow.rows().keys() >= {1, 3, 9}
    made = flow.loaded().snapshot_by_name("audit")
    assert made is not None
    assert made.parent_snapshot_id == flow.loaded().metadata.current_snapshot_id


def test_a_table_of_version_1_is_copied_and_positions_are_refused_there(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    flow.make_table("id BIGINT, name STRING, n INT", "TBLPROPERTIES ('format-version'='1')")
    with pytest.raises(UnsupportedError, match="format version 1 has no deletes; use 'auto'"):
        flow.apply("run 1")
    report = flow.apply("run 1", strategy=UpsertStrategy.AUTO)
    assert (report.strategy, report.strategy_reason) == (
        "copy-on-write",
        "format version 1 has no deletes; the table has no rows, 0 data files written anew",
    )


def test_kept_columns_are_computed_again_when_a_row_changed_meanwhile(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 5))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"))
    writer = InterruptedProgress(
        at="commit", then=lambda: flow.spark.sql(f"UPDATE {flow.table} SET n = 6 WHERE id = 1")
    )
    kept: dict[str, Any] = {"exclude_columns": ("op", "n"), "missing_columns": MissingColumns.KEEP}
    report = flow.apply("run 2", progress=writer, **kept)
    assert (report.attempts, flow.rows()) == (1, {1: ("b", 6)})


@pytest.mark.parametrize("strategy", [UpsertStrategy.POSITIONS, UpsertStrategy.EQUALITY])
def test_files_of_a_refused_commit_are_deleted(new_flow: NewFlow, strategy: UpsertStrategy) -> None:
    flow = new_flow(strategy=strategy)
    flow.arrive("1.jsonl", row(1, "a"))
    first = flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"))
    flow.apply("run 2")
    before = flow.data_files()
    rollback = f"CALL system.rollback_to_snapshot('{flow.table}', {first.committed[-1]})"
    flow.arrive("3.jsonl", row(1, "c"))
    progress = InterruptedProgress(at="commit", then=lambda: flow.spark.sql(rollback))
    with pytest.raises(CommitConflictError, match=r"another driver has applied|is no ancestor"):
        flow.apply("run 3", progress=progress, max_attempts=1)
    assert flow.data_files() == before


def update_and_expire(flow: Flow) -> None:
    flow.spark.sql(f"UPDATE {flow.table} SET n = 7 WHERE id = 3")
    now = datetime.now(UTC) + timedelta(seconds=1)
    flow.spark.sql(
        f"CALL system.expire_snapshots(table => '{flow.table}', older_than => TIMESTAMP '{now:%F %T.%f}', "
        "retain_last => 1)"
    )


@pytest.mark.parametrize(
    ("strategy", "phase"),
    [
        (UpsertStrategy.POSITIONS, "resolve"),
        (UpsertStrategy.POSITIONS, "mark"),
        (UpsertStrategy.COPY_ON_WRITE, "stage"),
    ],
)
def test_a_batch_whose_base_is_expired_while_it_is_read_starts_over(
    flow: Flow, strategy: UpsertStrategy, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(3, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"), row(3, "a"))
    flow.apply("run 2")
    flow.arrive("3.jsonl", row(1, "c"), row(2, "c"))

    def deletes_written_late(*arguments: Any) -> Any:
        monkeypatch.undo()
        update_and_expire(flow)
        return write_deletes(*arguments)

    if phase == "mark":
        monkeypatch.setattr(position_upsert, "write_deletes", deletes_written_late)
    progress = InterruptedProgress(at=phase, then=lambda: update_and_expire(flow))
    report = flow.apply("run 3", strategy=strategy, progress=progress)
    assert (report.outcome, report.attempts) == (Outcome.APPLIED, 2)
    assert flow.rows() == {1: ("c", 0), 2: ("c", 0), 3: ("a", 7)}
    known = {Path(found[0]).name for found in flow.spark.sql(f"SELECT file_path FROM {flow.table}.all_files").collect()}
    assert flow.data_files() == known


@pytest.mark.parametrize("layout", [TableLayout(), V2], ids=["v3", "v2"])
@pytest.mark.parametrize("failing", ["write_upserted_rows", "write_deletes"])
def test_no_file_is_left_when_rows_or_deletes_cannot_be_written(
    flow: Flow, layout: TableLayout, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"))
    flow.apply("run 1", create=layout)
    before = flow.data_files()
    flow.arrive("2.jsonl", row(1, "b"), row(3, "b"))
    done: list[object] = []

    def fail(*arguments: Any) -> Any:
        raise OSError("the disk is full")

    def noted(*arguments: Any) -> Any:
        done.append(original(*arguments))
        return done[0]

    other = {"write_upserted_rows": "write_deletes", "write_deletes": "write_upserted_rows"}[failing]
    original = getattr(position_upsert, other)
    monkeypatch.setattr(position_upsert, other, noted)
    monkeypatch.setattr(position_upsert, failing, fail)
    with pytest.raises(OSError, match="the disk is full"):
        flow.apply("run 2")
    assert len(done) == 1
    assert flow.data_files() == before
    monkeypatch.undo()
    flow.apply("run 2")
    assert flow.rows() == {1: ("b", 0), 2: ("a", 0), 3: ("b", 0)}


@pytest.mark.parametrize("layout", [TableLayout(), V2], ids=["v3", "v2"])
def test_equality_deletes_of_other_writers_stay_in_force(flow: Flow, layout: TableLayout) -> None:
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(1, 6)))
    flow.apply("run 1", create=layout)
    jvm: Any = flow.spark._jvm
    java = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(flow.spark._jsparkSession, flow.table)
    delete_by_equality(flow.spark, java, keys=[2])
    flow.arrive("2.jsonl", row(1, "b"), row(2, "b"))
    report = flow.apply("run 2")
    flow.arrive("3.jsonl", row(3, "c"))
    flow.apply("run 3")
    assert (report.rows_inserted, report.rows_updated) == (1, 1)
    found = {r["id"]: r["name"] for r in flow.spark.table(flow.table).collect()}
    assert found == {1: "b", 2: "b", 3: "c", 4: "a", 5: "a"}


def test_a_row_id_never_belongs_to_two_rows(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"))
    another_key = f"UPDATE {flow.table} SET id = 99 WHERE id = 1"
    flow.apply("run 2", progress=InterruptedProgress(at="commit", then=lambda: flow.spark.sql(another_key)))
    assert flow.rows() == {1: ("b", 0), 2: ("a", 0), 99: ("a", 0)}
    assert len(set(flow.row_ids().values())) == 3


def test_a_column_added_and_filled_meanwhile_is_not_lost(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"))

    def add_and_fill() -> None:
        flow.spark.sql(f"ALTER TABLE {flow.table} ADD COLUMN x INT")
        flow.spark.sql(f"UPDATE {flow.table} SET x = 7")

    kept = MissingColumns.KEEP
    flow.apply("run 2", progress=InterruptedProgress(at="commit", then=add_and_fill), missing_columns=kept)
    assert flow.rows() == {1: ("b", 0, 7)}


def test_files_of_a_commit_that_was_made_and_was_rolled_back_before_it_was_refused_are_kept(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    first = flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"))
    send = metadata_swap._send
    committed: list[int] = []

    def sent_twice(*commit: Any) -> None:
        send(*commit)
        committed.append(flow.loaded().metadata.current_snapshot_id or 0)
        flow.spark.sql(f"CALL system.rollback_to_snapshot('{flow.table}', {first.committed[-1]})")
        send(*commit)

    with monkeypatch.context() as patched:
        patched.setattr(metadata_swap, "_send", sent_twice)
        with pytest.raises(UnknownOutcomeError, match="Nothing was deleted"):
            flow.apply("run 2")
    assert flow.rows() == {1: ("a", 0)}
    assert flow.loaded().scan(snapshot_id=committed[0]).to_arrow()["name"].to_pylist() == ["b"]
    with pytest.raises(RolledBackError):
        flow.apply("run 2")


@pytest.mark.parametrize("strategy", [UpsertStrategy.POSITIONS, UpsertStrategy.MERGE])
def test_a_refusal_of_what_has_was_made_is_taken_for_a_success(
    flow: Flow, strategy: UpsertStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"))
    send = metadata_swap._send

    def sent_twice(*commit: Any) -> None:
        # As a database driver does that lost the first answer.
        send(*commit)
        send(*commit)

    monkeypatch.setattr(metadata_swap, "_send", sent_twice)
    report = flow.apply("run 2", strategy=strategy)
    assert report.attempts == 1
    assert flow.rows() == {1: ("b", 0)}
    assert flow.commits_of(report.run_key) == 1


@pytest.mark.parametrize("strategy", [UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE])
def test_a_key_that_the_table_held_twice_does_not_hide_a_row_that_is_new(
    spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    flow = Flow(spark, f"twice.{strategy.name.lower()}", tmp_path)
    flow.arrive("1.jsonl", row(1, "a"), row(2, "b"), row(3, "c"))
    flow.apply("run 1")
    spark.sql(f"INSERT INTO {flow.table} SELECT * FROM {flow.table} WHERE id <= 2")
    flow.arrive("2.jsonl", row(1, "A"), row(2, "b", op="d"), row(3, "C"), row(4, "D"))
    report = flow.apply("run 2", strategy=strategy)
    assert (report.rows_inserted, report.rows_deleted) == (1, 2)
    assert flow.rows() == {1: ("A", 0), 3: ("C", 0), 4: ("D", 0)}


def test_merge_counts_each_row_of_a_key_that_the_table_held_twice(spark: SparkSession, tmp_path: Path) -> None:
    flow = Flow(spark, "twice.merged", tmp_path)
    flow.arrive("1.jsonl", row(1, "a"), row(2, "b"), row(3, "c"))
    flow.apply("run 1")
    spark.sql(f"INSERT INTO {flow.table} SELECT * FROM {flow.table} WHERE id <= 2")
    flow.arrive("2.jsonl", row(1, "A"), row(2, "b", op="d"), row(3, "C"), row(4, "D"))
    report = flow.apply("run 2", strategy=UpsertStrategy.MERGE)
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (1, 3, 2)
    found = flow.loaded().scan().to_arrow().to_pylist()
    assert sorted((r["id"], r["name"]) for r in found) == [(1, "A"), (1, "A"), (3, "C"), (4, "D")]
