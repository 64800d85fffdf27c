"""``airflow lake history`` through Airflow's own command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.maintenance_history import MaintenanceHistory
from airflow_lake_provider.maintenance.history_entries import HistoryRun, history_entries
from airflow_lake_provider.maintenance.outcomes import outcomes_of_run
from tests.unit.cli.lake_command import run_lake


@pytest.fixture
def three_runs(lake_catalog: SqlCatalog) -> None:
    """Write what three runs did, the oldest ten days ago."""
    before = {"data_files": 1412, "delete_files": 7, "snapshots": 9, "data_bytes": 10}
    after = {"data_files": 12, "delete_files": 0, "snapshots": 9, "data_bytes": 9}
    done = {"table": "shop.orders", "action": "compaction", "level": "minor", "outcome": "done", "reason": "merged"}
    failed = {"table": "shop.items", "action": "compaction", "outcome": "failed", "error": "JobFailedError"}
    history = MaintenanceHistory(LakeCatalogHook())
    for days, report in (
        (10, {**done, "reason": "old"}),
        (2, {**done, "before": before, "after": after, "seconds": {"plan": 1.0, "rewrite": 40.4}}),
        (1, {**failed, "reason": "[red]no\x1b[31m space"}),
    ):
        at = datetime.now(UTC) - timedelta(days=days)
        who = HistoryRun(key=f"k{days}", dag_id="nightly", run_id=f"r{days}", task_id="verdict", try_number=1, at=at)
        assert history.record(history_entries(who, outcomes_of_run([], [], [report])))


@pytest.mark.usefixtures("three_runs")
def test_it_prints_what_runs_of_a_week_did_the_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    run_lake("history", "shop.*", "--output", "plain")
    printed = capsys.readouterr().out
    assert printed.index("JobFailedError: [red]no [31m space") < printed.index("compaction (minor)")
    assert "1,412 to 12 files, 7 to 0 delete files" in printed
    assert "snapshots," not in printed
    assert "old" not in printed


@pytest.mark.usefixtures("three_runs")
@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        ([], ["r1", "r2"]),
        (["--since", "P20D"], ["r1", "r2", "r10"]),
        (["--since", "P9999Y"], ["r1", "r2", "r10"]),
        (["--outcome", "failed"], ["r1"]),
        (["--outcome", "failed", "--outcome", "done"], ["r1", "r2"]),
        (["shop.o*", "--since", "P20D"], ["r2", "r10"]),
        (["!shop.o*"], ["r1"]),
    ],
)
def test_rows_are_chosen_by_name_age_and_outcome(
    arguments: list[str], runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run_lake("history", *arguments, "--output", "json")
    assert [row["run_id"] for row in json.loads(capsys.readouterr().out)] == runs


@pytest.mark.usefixtures("three_runs")
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["none.*"], r"No row of the maintenance history of connection 'lake_default' matches none\.\*"),
        (["--since", "soon"], "InvalidSpecError: --since must be"),
        (["--history", "shop"], "InvalidSpecError: table name 'shop'"),
        (["--history", "off"], "InvalidSpecError: .*switched off"),
        (["--conn-id", "absent"], "InvalidConnectionError: connection 'absent'"),
    ],
)
def test_what_cannot_be_asked_is_said(arguments: list[str], why: str) -> None:
    with pytest.raises(SystemExit, match=why):
        run_lake("history", *arguments)


def test_a_catalog_without_a_history_says_so(lake_catalog: SqlCatalog) -> None:
    with pytest.raises(SystemExit, match="No row of the maintenance history"):
        run_lake("history")
