"""Each commit of each action fails once: what its retry finds, does and says.

CI lets the last commit of each action of several commits fail; with ``LAKE_EXAMPLES`` set, each one of all actions.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from pyiceberg.table.snapshots import ancestors_of
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from tests.spark.actions_of_several_commits import ACTIONS, Action
from tests.spark.faulty_catalog import FaultyCatalog
from tests.spark.kept_tables import KeptTables

# What a failed try cleans up needs a catalog that has recovered by then.
CLEANING = {
    "merge",
    "audited positions",
    "audited merge",
    "a cut key change",
    "incremental",
    "compact, and deletes stay",
}
ALL = "LAKE_EXAMPLES" in os.environ
PLAYED = [name for name, (_, commits) in ACTIONS.items() if ALL or commits > 1]
POINTS = [
    (name, point, once)
    for name in PLAYED
    for point in range(1 if ALL else ACTIONS[name][1], ACTIONS[name][1] + 1)
    for once in ((False, True) if ALL and name in CLEANING else (False,))
]
ACTED = {Outcome.APPLIED, Outcome.DONE}


@dataclass(frozen=True)
class Uninterrupted:
    """An action of which nothing failed, and the tables from before it, so that it can be due again.

    :param left: what its tables hold after it.
    """

    action: Action
    due: KeptTables
    report: JobReport
    left: dict[str, Any]
    commits: int


@pytest.fixture(scope="module")
def uninterrupted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Uninterrupted]:
    """Carry out an action of which nothing fails, once for all its points."""

    @cache
    def carried_out(name: str) -> Uninterrupted:
        folder = tmp_path_factory.mktemp("whole")
        action = ACTIONS[name][0](spark, folder)
        due = KeptTables.of(spark, action.tables, folder / "due")
        catalog = FaultyCatalog.of(spark)
        with catalog.refusing():
            report = action.run()
            commits = catalog.commits()
        return Uninterrupted(action, due, report, action.left(), commits)

    return carried_out


@pytest.mark.parametrize("name", PLAYED)
def test_every_commit_of_an_action_is_among_the_points(
    uninterrupted: Callable[[str], Uninterrupted], name: str
) -> None:
    assert uninterrupted(name).commits == ACTIONS[name][1]
    assert uninterrupted(name).report.outcome in {*ACTED, Outcome.PLANNED}


@pytest.mark.parametrize(
    ("name", "point", "once"), POINTS, ids=[f"{n}, {p}{', once' if o else ''}" for n, p, o in POINTS]
)
def test_a_retry_ends_as_an_uninterrupted_run_and_hides_nothing(
    spark: SparkSession, uninterrupted: Callable[[str], Uninterrupted], name: str, point: int, once: bool
) -> None:
    whole = uninterrupted(name)
    action, wanted = whole.action, whole.left
    whole.due.put_back()
    with FaultyCatalog.of(spark).refusing(point, once=once):
        failed = _tried(action)
    left, known = action.left(), _snapshots(action)
    if isinstance(failed, JobReport):
        # Tried again at once, or said: what comes after the rows is no reason to fail a task that has applied them.
        assert not _unlike(left, wanted) or failed.warnings
    else:
        assert isinstance(failed, LakeProviderError)
        assert failed.retry_may_help, failed
    retry = action.run()
    assert not _unlike(action.left(), wanted)
    made = _snapshots(action) - known
    if retry.outcome is Outcome.ALREADY_APPLIED:
        # It names what the try before it has committed.
        assert retry.committed
        assert (made, set(retry.committed) - known) == (set(), set())
    else:
        assert set(retry.committed) == made
    if left["0"] != wanted["0"]:
        assert retry.outcome is whole.report.outcome


def _unlike(left: dict[str, Any], wanted: dict[str, Any]) -> list[Any]:
    """Return what differs: table, name, what is there, what is to be there."""
    tables = ((place, left[place] or {}, wanted[place] or {}) for place in wanted)
    return [(p, key, a.get(key), b.get(key)) for p, a, b in tables for key in {*a, *b} if a.get(key) != b.get(key)]


def _tried(action: Action) -> JobReport | Exception:
    try:
        return action.run()
    except Exception as error:  # noqa: BLE001  # which one is the question
        return error


def _snapshots(action: Action) -> set[str]:
    """Return the snapshots of the branch that is written to, which begins where main is."""
    table = action.target()
    if table is None:
        return set()
    head = table.snapshot_by_name(action.branch) or table.current_snapshot()
    return {str(snapshot.snapshot_id) for snapshot in ancestors_of(head, table.metadata)}
