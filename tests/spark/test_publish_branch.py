"""A branch that an upsert wrote is published: main has its rows, and its run keys."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.applied.applied_history import applied_of_source
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import CommitConflictError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.metadata_changes import PublishBranchSpec, RollbackSpec
from tests.spark.metadata_change_flow import carry_out, commit, plan
from tests.spark.upsert_flow import Flow, NewFlow, row
from tests.table_facts import facts

ONE = {1: ("a", 1)}
TWO = {1: ("a", 1), 2: ("b", 2)}


@pytest.fixture(params=[2, 3])
def with_branch(new_flow: NewFlow, request: pytest.FixtureRequest) -> Flow:
    """Return a table with a row on main, and another on the branch ``load``."""
    flow = new_flow(create=TableLayout(properties={"format-version": str(request.param)}))
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(2, "b", 2))
    assert flow.apply("run 2", branch="load").outcome is Outcome.APPLIED
    assert (flow.rows(), flow.rows("load")) == (ONE, TWO)
    return flow


def test_a_rollback_of_a_published_branch_is_told_by_the_position(with_branch: Flow) -> None:
    first = with_branch.loaded().current_snapshot()
    assert first is not None
    carry_out(with_branch, PublishBranchSpec, branch="load")
    table = with_branch.loaded()
    position = SourcePosition.read(table.properties, "inbox")
    assert applied_of_source(facts(table), "inbox").newest == position.generation == 2
    # Main goes on from there, and goes back to before.
    assert with_branch.apply("run 3").outcome is Outcome.APPLIED
    assert with_branch.rows() == TWO
    carry_out(with_branch, RollbackSpec, snapshot_id=str(first.snapshot_id))
    assert with_branch.rows() == ONE
    assert with_branch.apply("run 3").outcome is Outcome.APPLIED
    assert with_branch.rows() == TWO


def test_a_branch_that_main_has_left_behind_is_refused(with_branch: Flow) -> None:
    planned = plan(with_branch, PublishBranchSpec, branch="load")
    with_branch.arrive("3.jsonl", row(3, "c", 3))
    with_branch.apply("run 3")
    on_main = with_branch.rows()
    with pytest.raises(CommitConflictError):
        commit(with_branch, planned)
    with pytest.raises(UnsupportedError, match="which branch 'load' lacks"):
        plan(with_branch, PublishBranchSpec, branch="load")
    with pytest.raises(UnsupportedError, match="there is no branch 'lod'"):
        plan(with_branch, PublishBranchSpec, branch="lod")
    assert with_branch.rows() == on_main
