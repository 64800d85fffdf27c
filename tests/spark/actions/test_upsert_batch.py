"""The upsert as the driver runs it, on real tables, read back by PyIceberg."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType, UUIDType
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import (
    BadInputError,
    CommitConflictError,
    ForgottenRunError,
    RolledBackError,
)
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, SnapshotExpirySpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table, expire_snapshots
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.upsert_flow import SCHEMA, Flow, InterruptedProgress, Killed, kill, row


def test_a_missing_table_is_created_merge_on_read_with_the_layout_asked_for(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    layout = TableLayout(
        partition_by=("bucket(4, id)",),
        sort_by=("name DESC",),
        target_file_size=64_000_000,
        bloom_filter_columns=("id",),
        partition_summary_limit=20,
    )
    flow.apply(create=layout)
    table = flow.loaded()
    assert table.format_version == 3
    assert [table.schema().find_column_name(i) for i in table.schema().identifier_field_ids] == ["id"]
    assert [str(f.transform) for f in table.spec().fields] == ["bucket[4]"]
    assert [str(f.direction) for f in table.sort_order().fields] == ["DESC"]
    wanted = {
        "write.merge.mode": "merge-on-read",
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "write.target-file-size-bytes": "64000000",
        "write.summary.partition-limit": "20",
        "write.parquet.bloom-filter-enabled.column.id": "true",
    }
    assert wanted.items() <= table.properties.items()


def test_the_last_change_of_each_key_is_applied_and_the_report_counts_what_happened(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "b"), row(3, "c"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(2, "b1"), row(2, "b2"), row(3, "", op="d"), row(4, "d"), row(5, "", op="d"))
    report = flow.apply("run 2")
    assert flow.rows() == {1: ("a", 0), 2: ("b2", 0), 4: ("d", 0)}
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (1, 1, 1)
    assert (report.batch_rows, report.batch_keys) == (5, 4)
    assert report.after is not None
    assert report.after.snapshot == report.committed[-1] == str(flow.loaded().metadata.current_snapshot_id)


def test_on_repeat_applies_again_or_fails_as_asked(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1")
    with pytest.raises(BadInputError, match="on_repeat='fail'"):
        flow.apply("run 1", on_repeat=OnRepeat.FAIL)
    flow.spark.sql(f"UPDATE {flow.table} SET name = 'by hand'")
    assert flow.apply("run 1 cleared", on_repeat=OnRepeat.APPLY).outcome is Outcome.APPLIED
    assert flow.rows() == {1: ("a", 0)}
    flow.spark.sql(f"UPDATE {flow.table} SET name = 'by another'")
    retry = flow.apply("run 1 cleared", on_repeat=OnRepeat.APPLY)
    assert retry.outcome is Outcome.ALREADY_APPLIED, "Airflow's own retry of it took another writer's change back"
    assert flow.rows() == {1: ("by another", 0)}


def test_names_that_differ_in_case_and_names_of_any_characters_are_the_same_columns(flow: Flow) -> None:
    odd = "a `b`.c"
    flow.arrive("1.jsonl", {**row(1, "a"), odd: "x"}, {**row(2, "b"), odd: "y"})
    typed = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema=f"{SCHEMA}, `a ``b``.c` STRING")
    flow.apply("run 1", keys=("ID",), source=typed)
    assert [flow.loaded().schema().find_column_name(i) for i in flow.loaded().schema().identifier_field_ids] == ["id"]
    flow.arrive("2.jsonl", {**row(1, "a2", 5), odd: "z"})
    flow.apply("run 2", keys=("iD",), source=typed)
    held = {r["id"]: (r["name"], r[odd]) for r in flow.loaded().scan().to_arrow().to_pylist()}
    assert held == {1: ("a2", "z"), 2: ("b", "y")}


def test_run_keys_and_positions_survive_compaction_and_expiry_of_all_but_one_snapshot(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "b"))
    flow.apply("run 1")
    shared: dict[str, Any] = {"catalog": "lake_default", "table": flow.table, "run": RunIdentity.of("maintenance")}
    compact_table(flow.spark, CompactionSpec(level=CompactionLevel.FULL, **shared), Progress())
    now = datetime.now(UTC) + timedelta(seconds=1)
    expire_snapshots(
        flow.spark,
        SnapshotExpirySpec(expire_before=now, expire_stage_branches_before=now, retain_last=1, **shared),
        Progress(),
    )
    assert len(flow.loaded().metadata.snapshots) == 1
    assert flow.apply("run 1").outcome is Outcome.ALREADY_APPLIED
    assert flow.apply("run 2").outcome is Outcome.NOTHING_NEW
    flow.arrive("2.jsonl", row(2, "b2"))
    assert flow.apply("run 3").outcome is Outcome.APPLIED
    assert flow.rows() == {1: ("a", 0), 2: ("b2", 0)}


def test_uuid_keys_are_found_whatever_side_of_zero_they_are_on(flow: Flow) -> None:
    low, high = "3f000000-0000-4000-8000-000000000000", "c2000000-0000-4000-8000-000000000000"
    schema = Schema(NestedField(1, "id", UUIDType(), required=True), NestedField(2, "name", StringType()))
    table = flow.catalog().create_table(flow.table, schema, properties={"write.merge.mode": "merge-on-read"})
    columns = pa.schema([pa.field("id", pa.binary(16), nullable=False), pa.field("name", pa.string())])
    table.append(pa.table([[UUID(low).bytes, UUID(high).bytes], ["a", "a"]], schema=columns))
    source = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema="id STRING, name STRING")
    arguments: dict[str, Any] = {"source": source, "delete_when": None, "exclude_columns": ()}
    flow.arrive("1.jsonl", {"id": low, "name": "b"})
    assert flow.apply("run 1", **arguments).rows_updated == 1
    found = [(r["id"], r["name"]) for r in flow.spark.table(flow.table).collect()]
    assert sorted(found) == [(low, "b"), (high, "a")]


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_table_that_others_made_copy_on_write_is_upserted(flow: Flow, version: str) -> None:
    columns = "id BIGINT NOT NULL, name STRING, n INT"
    properties = f"'format-version'='{version}', 'write.merge.mode'='copy-on-write'"
    flow.make_table(columns, f"TBLPROPERTIES ({properties})")
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a', 0), (2, 'a', 0), (3, 'a', 0)")
    flow.arrive("1.jsonl", row(1, "b"), row(2, "", op="d"), row(4, "b"))
    report = flow.apply("run 1")
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (1, 1, 1)
    assert flow.rows() == {1: ("b", 0), 3: ("a", 0), 4: ("b", 0)}


# The phase of each strategy at whose beginning everything is written and nothing is visible.
LAST_PHASE = {
    UpsertStrategy.MERGE: "publish",
    UpsertStrategy.POSITIONS: "commit",
    UpsertStrategy.COPY_ON_WRITE: "commit",
}
each_strategy = pytest.mark.parametrize("strategy", LAST_PHASE)


def writer_beside_a_merge(flow: Flow) -> InterruptedProgress:
    """Return a writer that gets between the merge of the next batch and its publishing."""
    flow.changes["strategy"] = UpsertStrategy.MERGE
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "a2"))
    return InterruptedProgress(
        at="publish", then=lambda: flow.spark.sql(f"INSERT INTO {flow.table} VALUES (9, 'z', 9)")
    )


def test_a_writer_that_gets_in_between_makes_a_merge_decide_again(flow: Flow) -> None:
    writer = writer_beside_a_merge(flow)
    report = flow.apply("run 2", progress=writer)
    assert (report.outcome, report.attempts) == (Outcome.APPLIED, 2)
    assert flow.rows() == {1: ("a2", 0), 9: ("z", 9)}
    assert list(flow.loaded().metadata.refs) == ["main"]


def test_the_last_lost_race_is_a_conflict_that_leaves_the_table_alone(flow: Flow) -> None:
    writer = writer_beside_a_merge(flow)
    with pytest.raises(CommitConflictError, match="No data changed"):
        flow.apply("run 2", progress=writer, max_attempts=1)
    assert flow.rows() == {1: ("a", 0), 9: ("z", 9)}
    assert list(flow.loaded().metadata.refs) == ["main"]


@pytest.fixture(scope="module")
def one_batch_behind(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Flow:
    flow = Flow(spark, "flows.behind", tmp_path_factory.mktemp("behind"))
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "a2"), row(2, "b"))
    return flow


@pytest.mark.parametrize("phase", ["plan", "read", "merge", "publish", "resolve", "stage", "commit"])
def test_a_driver_killed_at_any_phase_leaves_a_batch_that_the_retry_applies_once(
    one_batch_behind: Flow, phase: str
) -> None:
    flow = one_batch_behind.copy(f"flows.killed_at_{phase}")
    strategy = UpsertStrategy.MERGE if phase in ("merge", "publish") else UpsertStrategy.POSITIONS
    with pytest.raises(Killed):
        flow.apply("run 2", progress=InterruptedProgress(at=phase, then=kill), strategy=strategy)
    assert flow.rows() == {1: ("a", 0)}
    report = flow.apply("run 2", strategy=strategy)
    assert flow.rows() == {1: ("a2", 0), 2: ("b", 0)}
    assert report.outcome is Outcome.APPLIED
    assert list(flow.loaded().metadata.refs) == ["main"], "what the killed driver left was not removed"


def test_a_table_rolled_back_behind_its_position_is_refused_until_told_to_apply(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    first = flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "a2"))
    flow.apply("run 2")
    flow.spark.sql(f"CALL system.rollback_to_snapshot('{flow.table}', {first.committed[-1]})")
    flow.arrive("3.jsonl", row(2, "b"))
    with pytest.raises(RolledBackError, match="on_repeat='apply'"):
        flow.apply("run 3")
    with pytest.raises(RolledBackError):
        flow.apply("run 2")
    assert flow.rows() == {1: ("a", 0)}
    flow.apply("run 3", on_repeat=OnRepeat.APPLY)
    assert flow.rows() == {1: ("a2", 0), 2: ("b", 0)}


def test_a_published_branch_does_not_look_like_a_roll_back(flow: Flow) -> None:
    for number in (1, 2, 3):
        flow.arrive(f"{number}.jsonl", row(number, "a"))
        flow.apply(f"run {number}")
    flow.arrive("4.jsonl", row(4, "audited"))
    flow.apply("run 4", branch="audit")
    flow.spark.sql(f"CALL system.fast_forward('{flow.table}', 'main', 'audit')")
    flow.arrive("5.jsonl", row(5, "b"))
    assert flow.apply("run 5").outcome is Outcome.APPLIED
    assert flow.rows() == {**dict.fromkeys((1, 2, 3), ("a", 0)), 4: ("audited", 0), 5: ("b", 0)}


@each_strategy
def test_a_roll_back_during_the_upsert_is_not_undone_by_its_commit(flow: Flow, strategy: UpsertStrategy) -> None:
    flow.changes["strategy"] = strategy
    flow.arrive("1.jsonl", row(1, "a"))
    first = flow.apply("run 1")
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (9, 'wrong', 9)")
    flow.arrive("2.jsonl", row(1, "a2"))
    rollback = f"CALL system.rollback_to_snapshot('{flow.table}', {first.committed[-1]})"
    flow.apply("run 2", progress=InterruptedProgress(at=LAST_PHASE[strategy], then=lambda: flow.spark.sql(rollback)))
    assert flow.rows() == {1: ("a2", 0)}


def test_a_retry_older_than_what_the_table_remembers_is_refused(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1")
    flow.spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('lake.run-keys-dropped-before' = '2000')")
    flow.spark.sql(f"CREATE TABLE {flow.table}_source USING iceberg AS SELECT 2L AS id, 'b' AS name, 1 AS n, 'u' AS op")
    source = LakeTable(f"{flow.table}_source")
    old = RunIdentity.of("d", "r", "t", try_number=2, run_after=datetime.fromtimestamp(1999, UTC))
    with pytest.raises(ForgottenRunError, match="attempt 2"):
        flow.apply(identity=old, source=source)
    fresh = RunIdentity.of("d", "r", "t", try_number=2, run_after=datetime.fromtimestamp(2001, UTC))
    assert flow.apply(identity=fresh, source=source).outcome is Outcome.APPLIED
    assert flow.rows() == {1: ("a", 0), 2: ("b", 1)}


@pytest.mark.parametrize(
    ("rows", "changes", "message"),
    [
        ([{"id": None, "name": "a", "n": 1, "op": "u"}], {}, "NULL"),
        ([row(1, "a")], {"keys": ("number",)}, "number"),
        ([{"id": "x", "name": "a", "n": 1, "op": "u"}], {}, "cannot be read"),
    ],
    ids=["null-key", "missing-key-column", "unparsable-row"],
)
def test_a_bad_batch_is_refused_and_nothing_of_it_is_applied(
    flow: Flow, rows: list[dict[str, Any]], changes: dict[str, Any], message: str
) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    before = flow.apply("run 1")
    flow.arrive("2.jsonl", row(7, "good"), *rows)
    with pytest.raises(BadInputError, match=message):
        flow.apply("run 2", **changes)
    assert str(flow.loaded().metadata.current_snapshot_id) == before.committed[-1]


def test_an_empty_batch_commits_nothing_and_says_so(flow: Flow) -> None:
    flow.inbox.mkdir()
    assert flow.apply("run 1").outcome is Outcome.EMPTY_BATCH
    flow.arrive("1.jsonl")
    assert flow.apply("run 2").outcome is Outcome.EMPTY_BATCH


@pytest.mark.parametrize(("missing", "expected"), [(MissingColumns.NULL, None), (MissingColumns.KEEP, 5)])
def test_a_column_that_the_batch_lacks_becomes_what_was_asked_for(
    flow: Flow, missing: MissingColumns, expected: int | None
) -> None:
    flow.arrive("1.jsonl", row(1, "a", n=5))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "a2"), row(2, "b"))
    narrow: dict[str, Any] = {"exclude_columns": ("op", "n")}
    with pytest.raises(BadInputError, match="missing_columns"):
        flow.apply("run 2", **narrow)
    flow.apply("run 2", missing_columns=missing, **narrow)
    assert flow.rows() == {1: ("a2", expected), 2: ("b", None)}
