"""A real table names the runs that it has applied."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from airflow_lake_provider.contracts.applied.applied_history import applied_runs
from airflow_lake_provider.contracts.table_properties import RECENT_RUN_KEYS, RUN_KEY
from tests.table_facts import facts

MINE, OTHERS = "aaaaaaaa", "bbbbbbbb"


@pytest.fixture
def apply(orders: Table) -> Callable[..., str]:
    """Commit one row with a run key and return the snapshot's id as text."""

    def run(key: str, branch: str = "main") -> str:
        orders.append(pa.table({"id": [1]}), snapshot_properties={RUN_KEY: key}, branch=branch)
        return str(orders.refresh().metadata.refs[branch].snapshot_id)

    return run


def test_only_the_runs_of_one_identity_newest_first(orders: Table, apply: Callable[..., str]) -> None:
    first, _, second = apply(MINE + "00000001"), apply(OTHERS + "00000001"), apply(MINE + "00000002")
    assert list(applied_runs(facts(orders), MINE).items()) == [(MINE + "00000002", second), (MINE + "00000001", first)]


def test_a_key_committed_twice_names_its_newer_commit(orders: Table, apply: Callable[..., str]) -> None:
    apply(MINE + "00000001")
    again = apply(MINE + "00000001")
    assert applied_runs(facts(orders), MINE) == {MINE + "00000001": again}


def test_the_property_remembers_what_expiry_took(orders: Table, apply: Callable[..., str]) -> None:
    kept = apply(MINE + "00000003")
    listed = f"{MINE}00000003@30,{OTHERS}00000002@20,{MINE}00000001@10"
    with orders.transaction() as transaction:
        transaction.set_properties({RECENT_RUN_KEYS: listed})
    assert applied_runs(facts(orders.refresh()), MINE) == {MINE + "00000003": kept, MINE + "00000001": None}


def test_a_branch_speaks_for_its_own_commits_and_not_by_the_tables_property(
    orders: Table, apply: Callable[..., str]
) -> None:
    shared = apply(MINE + "00000001")
    orders.manage_snapshots().create_branch(int(shared), "audit").commit()
    on_branch = apply(MINE + "00000002", branch="audit")
    with orders.transaction() as transaction:
        transaction.set_properties({RECENT_RUN_KEYS: f"{MINE}00000009@30"})
    found = applied_runs(facts(orders.refresh()), MINE, "audit")
    assert found == {MINE + "00000002": on_branch, MINE + "00000001": shared}
    assert MINE + "00000002" not in applied_runs(facts(orders), MINE)


def test_a_rolled_back_commit_was_not_applied(orders: Table, apply: Callable[..., str]) -> None:
    base = apply(MINE + "00000001")
    apply(MINE + "00000002")
    orders.manage_snapshots().rollback_to_snapshot(int(base)).commit()
    assert applied_runs(facts(orders.refresh()), MINE) == {MINE + "00000001": base}


def test_a_run_of_which_another_tool_rolled_the_commit_back_was_not_applied(
    orders: Table, apply: Callable[..., str]
) -> None:
    base = apply(MINE + "00000001")
    apply(MINE + "00000002")
    listed = f"{MINE}00000002@40,{MINE}00000001@30,{MINE}00000000@20"
    with orders.transaction() as transaction:
        transaction.set_properties({RECENT_RUN_KEYS: listed})
    orders.manage_snapshots().rollback_to_snapshot(int(base)).commit()
    # The last one has no snapshot, which expiry may have taken.
    assert applied_runs(facts(orders.refresh()), MINE) == {MINE + "00000001": base, MINE + "00000000": None}
    again = apply(MINE + "00000002")
    assert applied_runs(facts(orders.refresh()), MINE)[MINE + "00000002"] == again


def test_a_table_without_snapshots_and_a_branch_that_is_not_there_know_nothing(orders: Table) -> None:
    assert applied_runs(facts(orders), MINE) == {}
    assert applied_runs(facts(orders), MINE, "audit") == {}
