"""Main has commits of a source whose input its position does not tell: nothing of that is added a second time."""

from __future__ import annotations

import time

import pytest

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.metadata_changes import PublishBranchSpec, RollbackSpec
from tests.spark.append_flow import COLUMNS, append, event, events_of
from tests.spark.metadata_change_flow import carry_out
from tests.spark.upsert_flow import Flow, NewFlow

ONE, TWO, THREE, FOUR = ((number, "a") for number in (1, 2, 3, 4))


def add(flow: Flow, number: int, branch: str | None = None) -> None:
    flow.arrive(f"{number}.jsonl", event(number))
    assert append(flow, f"run {number}", branch=branch).outcome is Outcome.APPLIED


def snapshots(flow: Flow) -> list[str]:
    return [str(each.snapshot_id) for each in flow.loaded().metadata.snapshots]


@pytest.mark.parametrize("publishes_by_spark", [False, True])
def test_files_that_a_published_branch_has_brought_are_not_added_again(
    new_flow: NewFlow, *, publishes_by_spark: bool
) -> None:
    flow = new_flow()
    add(flow, 1)
    # A branch begins anew with all files that are there.
    (flow.inbox / "1.jsonl").unlink()
    add(flow, 2, branch="load")
    if publishes_by_spark:
        flow.spark.sql(f"CALL lake_default.system.fast_forward('{flow.table}', 'main', 'load')")
    else:
        carry_out(flow, PublishBranchSpec, branch="load")
    assert events_of(flow) == [ONE, TWO]
    with pytest.raises(
        BadInputError, match=r"source inbox may be in the table \(1 of 1 files, the first is \S+2\.jsonl\)"
    ):
        append(flow, "run 3")
    # What came after the branch is none of it, by a path of its own.
    flow.arrive("4.jsonl", event(4), at=int(time.time()) + 100)
    newer = Files(path=f"{flow.inbox}/4.jsonl", format="json", schema=COLUMNS)
    assert append(flow, "run 4", source=newer).rows_appended == 1
    with pytest.raises(BadInputError, match="1 of 2 files"):
        append(flow, "run 5")
    assert events_of(flow) == [ONE, TWO, FOUR]
    # Applied once more is what was listed, and no other file of before.
    assert append(flow, "run 6", source=newer, on_repeat="apply").rows_appended == 1
    with pytest.raises(BadInputError, match="1 of 2 files"):
        append(flow, "run 7")
    assert append(flow, "run 8", on_repeat="apply").rows_appended == 2
    assert append(flow, "run 9").outcome is Outcome.NOTHING_NEW
    assert events_of(flow) == [ONE, TWO, TWO, FOUR, FOUR, FOUR]


@pytest.fixture
def rolled_back(new_flow: NewFlow) -> Flow:
    """Return a table of three appends that is back at the first."""
    flow = new_flow()
    for number in (1, 2, 3):
        add(flow, number)
    carry_out(flow, RollbackSpec, snapshot_id=snapshots(flow)[0])
    assert events_of(flow) == [ONE]
    return flow


def test_rows_that_another_tool_gave_back_after_a_rollback_are_not_added_again(rolled_back: Flow) -> None:
    third = snapshots(rolled_back)[2]
    rolled_back.spark.sql(f"CALL lake_default.system.set_current_snapshot('{rolled_back.table}', {third})")
    rolled_back.arrive("4.jsonl", event(4), at=int(time.time()) + 100)
    with pytest.raises(BadInputError, match="2 of 4 files"):
        append(rolled_back, "run 4")
    assert events_of(rolled_back) == [ONE, TWO, THREE]
    repaired = carry_out(rolled_back, RollbackSpec, snapshot_id=third)
    assert (repaired.source_positions, repaired.ref_after) == ({"inbox": 3}, third)
    assert carry_out(rolled_back, RollbackSpec, "again", snapshot_id=third).outcome is Outcome.NOTHING_DUE
    assert append(rolled_back, "run 4").rows_appended == 1
    assert events_of(rolled_back) == [ONE, TWO, THREE, FOUR]


def test_a_batch_that_was_picked_after_a_rollback_is_not_added_again(rolled_back: Flow) -> None:
    third = snapshots(rolled_back)[2]
    rolled_back.spark.sql(f"CALL lake_default.system.cherrypick_snapshot('{rolled_back.table}', {third})")
    assert events_of(rolled_back) == [ONE, THREE]
    with pytest.raises(BadInputError, match="2 of 3 files"):
        append(rolled_back, "run 2")
    assert events_of(rolled_back) == [ONE, THREE]
