"""After a rollback the table remembers what main has applied, no more and no less.

Each table is one of format version 2, which the worker commits through PyIceberg, and one of version 3, which the
driver commits. Rows are read by PyIceberg and compared with a dict.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import (
    CommitConflictError,
    InvalidSpecError,
    RolledBackError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.contracts.specs.metadata_changes import RollbackSpec
from tests.spark.metadata_change_flow import carry_out, commit, plan
from tests.spark.upsert_flow import Flow, NewFlow, row

ONE = {1: ("a", 1)}
TWO = {1: ("a", 1), 2: ("b", 2)}
THREE = {1: ("a", 1), 2: ("b", 2), 3: ("c", 3)}


@pytest.fixture(params=[2, 3])
def three_runs(new_flow: NewFlow, request: pytest.FixtureRequest) -> Flow:
    """Return a table that three runs have put a row each into."""
    flow = new_flow(create=TableLayout(properties={"format-version": str(request.param)}))
    for number, name in enumerate("abc", 1):
        flow.arrive(f"{number}.jsonl", row(number, name, number))
        assert flow.apply(f"run {number}").outcome is Outcome.APPLIED
    assert flow.rows() == THREE
    return flow


def snapshots(flow: Flow) -> list[str]:
    """Snapshots in the order of their commits."""
    return [str(found.snapshot_id) for found in flow.loaded().metadata.snapshots]


def generation(flow: Flow) -> int:
    return SourcePosition.read(flow.loaded().properties, "inbox").generation


def test_a_run_that_was_kept_is_still_recognised(three_runs: Flow) -> None:
    for name in ("2.jsonl", "3.jsonl"):
        (three_runs.inbox / name).rename(three_runs.inbox.parent / name)
    carry_out(three_runs, RollbackSpec, snapshot_id=snapshots(three_runs)[0])
    assert three_runs.apply("run 1").outcome is Outcome.ALREADY_APPLIED
    assert three_runs.rows() == ONE


def test_rolling_back_twice_does_nothing_the_second_time(three_runs: Flow) -> None:
    wanted = snapshots(three_runs)[1]
    carry_out(three_runs, RollbackSpec, snapshot_id=wanted)
    before = three_runs.loaded().metadata_location
    assert carry_out(three_runs, RollbackSpec, "other run", snapshot_id=wanted).outcome is Outcome.NOTHING_DUE
    assert three_runs.loaded().metadata_location == before
    assert three_runs.rows() == TWO


def test_a_retry_takes_no_later_commit_away(three_runs: Flow) -> None:
    wanted = snapshots(three_runs)[0]
    carry_out(three_runs, RollbackSpec, snapshot_id=wanted)
    three_runs.apply("run 4")
    assert carry_out(three_runs, RollbackSpec, snapshot_id=wanted).outcome is Outcome.ALREADY_APPLIED
    assert three_runs.rows() == THREE
    # Another run means it.
    assert carry_out(three_runs, RollbackSpec, "other run", snapshot_id=wanted).outcome is Outcome.DONE
    assert three_runs.rows() == ONE
    assert generation(three_runs) == 1


def test_a_commit_between_decision_and_rollback_is_a_conflict_and_stays(three_runs: Flow) -> None:
    planned = plan(three_runs, RollbackSpec, snapshot_id=snapshots(three_runs)[0])
    three_runs.arrive("4.jsonl", row(4, "d", 4))
    three_runs.apply("run 4")
    with pytest.raises(CommitConflictError):
        commit(three_runs, planned)
    assert three_runs.rows() == {**THREE, 4: ("d", 4)}
    assert generation(three_runs) == 4


def test_what_main_cannot_go_back_to_is_refused_by_name(three_runs: Flow) -> None:
    first, second, third = snapshots(three_runs)
    with pytest.raises(UnsupportedError, match="no tag 'x'"):
        plan(three_runs, RollbackSpec, tag="x")
    with pytest.raises(UnsupportedError, match="snapshot 17 that was named is not in the table's metadata"):
        plan(three_runs, RollbackSpec, snapshot_id="17")
    with pytest.raises(UnsupportedError, match="no known snapshot of 2001"):
        plan(three_runs, RollbackSpec, timestamp=datetime(2001, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidSpecError, match=f"main is at snapshot {third} and not at expected_snapshot_id={second}"):
        plan(three_runs, RollbackSpec, snapshot_id=first, expected_snapshot_id=second)
    carry_out(three_runs, RollbackSpec, snapshot_id=first)
    with pytest.raises(UnsupportedError, match=f"snapshot {third} is no ancestor"):
        plan(three_runs, RollbackSpec, "other run", snapshot_id=third)


def test_a_table_that_somebody_else_rolled_back_is_repaired(three_runs: Flow) -> None:
    first = snapshots(three_runs)[0]
    three_runs.spark.sql(f"CALL lake_default.system.rollback_to_snapshot('{three_runs.table}', {first})")
    with pytest.raises(RolledBackError):
        three_runs.apply("run 3")
    report = carry_out(three_runs, RollbackSpec, snapshot_id=first)
    assert report.source_positions == {"inbox": 1}
    assert three_runs.apply("run 3").outcome is Outcome.APPLIED
    assert three_runs.rows() == THREE


def test_a_batch_that_another_tool_picked_onto_main_again_stays_applied(three_runs: Flow) -> None:
    _, second, third = snapshots(three_runs)
    call, table = "CALL lake_default.system", three_runs.table
    three_runs.spark.sql(f"{call}.rollback_to_snapshot('{table}', {second})")
    three_runs.spark.sql(f"INSERT INTO {table} VALUES (9, 'foreign', 9)")
    with pytest.raises(RolledBackError):
        three_runs.apply("run 3")
    three_runs.spark.sql(f"{call}.cherrypick_snapshot('{table}', {third})")
    head, rows = three_runs.head(), three_runs.rows()
    assert rows == {**THREE, 9: ("foreign", 9)}
    report = three_runs.apply("run 3")
    assert (report.outcome, report.committed) == (Outcome.ALREADY_APPLIED, (head,))
    assert carry_out(three_runs, RollbackSpec, snapshot_id=head).outcome is Outcome.NOTHING_DUE
    assert three_runs.apply("run 4").outcome is Outcome.NOTHING_NEW
    assert three_runs.rows() == rows


def test_a_history_that_the_metadata_log_has_lost_leaves_no_batch_out(three_runs: Flow) -> None:
    second = snapshots(three_runs)[1]
    forget_older_metadata(three_runs)
    report = carry_out(three_runs, RollbackSpec, snapshot_id=second)
    assert len(report.run_keys_removed) == 1
    # What the second run had consumed is not known: a person decides.
    with pytest.raises(RolledBackError):
        three_runs.apply("run 3")
    assert three_runs.apply("run 3", on_repeat=OnRepeat.APPLY).outcome is Outcome.APPLIED
    assert three_runs.rows() == THREE


def forget_older_metadata(flow: Flow) -> None:
    for entry in flow.loaded().metadata.metadata_log:
        Path(entry.metadata_file.removeprefix("file://").removeprefix("file:")).unlink()
    time.sleep(1.1)  # run keys have whole seconds


def test_a_source_that_was_first_consumed_after_the_snapshot_begins_again(new_flow: NewFlow) -> None:
    flow = new_flow()
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.spark.sql(f"CREATE TABLE {flow.table} (id BIGINT, name STRING, n INT) TBLPROPERTIES ('format-version'='2')")
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (9, 'foreign', 9)")
    (foreign,) = snapshots(flow)
    flow.apply("run 1")
    forget_older_metadata(flow)
    report = carry_out(flow, RollbackSpec, snapshot_id=foreign)
    assert report.source_positions == {"inbox": 0}
    assert flow.rows() == {9: ("foreign", 9)}
    assert flow.apply("run 1").outcome is Outcome.APPLIED
    assert flow.rows() == {9: ("foreign", 9), **ONE}
    assert RecentRunKeys.read(flow.loaded().properties).entries
