"""``airflow lake plan`` through Airflow's own command line, on real tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.maintenance_history import MaintenanceHistory
from airflow_lake_provider.hooks.maintenance_leases import MaintenanceLeases
from airflow_lake_provider.maintenance.history_entries import HistoryRun, history_entries
from airflow_lake_provider.maintenance.leases import MaintenanceLease
from airflow_lake_provider.maintenance.outcomes import outcomes_of_run
from airflow_lake_provider.maintenance.plan import TablePlan
from tests.made_tables import register
from tests.unit.cli.lake_command import run_lake

Append = Callable[..., int]


def test_it_prints_what_is_due_first_and_why_the_rest_is_left_out(
    many_small: Table, lake_catalog: SqlCatalog, append: Append, capsys: pytest.CaptureFixture[str]
) -> None:
    append(lake_catalog.create_table("shop.one_file", many_small.schema()), 1)
    run_lake("plan", "shop.*", "--output", "plain")
    due, left_out = capsys.readouterr().out.splitlines()[-2:]
    assert due.startswith("shop.orders")
    assert "compaction (minor)" in due
    assert "7 of 8 data files, 88%, would be gone by a merge; the threshold is 20%." in due
    assert "0 of 1 data files would be gone by a merge" in left_out
    assert "0 snapshots are past their retention; the threshold is 20. Nothing is due." in left_out


@pytest.mark.usefixtures("many_small")
def test_it_shows_what_waits_for_another_run_or_after_failures(capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(UTC)
    for number in range(3):
        who = HistoryRun(key=f"k{number}", dag_id="d", run_id="r", task_id="v", try_number=1, at=now)
        failed = {"action": "compaction", "table": "shop.orders", "outcome": "failed", "reason": "memory ran out"}
        job = {"tasks": [failed], "expected": [{"core_seconds": 2.0}]}
        entries = history_entries(who, outcomes_of_run([job], [failed], []))
        assert MaintenanceHistory(LakeCatalogHook(), "ops.mine").record(entries)
    run_lake("plan", "shop.*", "--output", "plain", "--history", "ops.mine")
    rests = capsys.readouterr().out.splitlines()[-1]
    assert "compaction (waits)" in rests
    assert "memory ran out" in rests
    lease = MaintenanceLease(
        table_name="", run_key="k", dag_id="weekly", run_id="r7", acquired_at=now, expires_at=now + timedelta(hours=1)
    )
    MaintenanceLeases(LakeCatalogHook()).take(["shop.orders"], lease)
    run_lake("plan", "shop.*", "--output", "plain")
    leased = capsys.readouterr().out.splitlines()[-1]
    assert "compaction (waits)" in leased
    assert "Run r7 of DAG weekly maintains it since" in leased


def test_it_shows_no_removal_of_files_that_a_run_would_refuse(
    many_small: Table, lake_catalog: SqlCatalog, append: Append, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = f"{many_small.location()}/inside"
    append(lake_catalog.create_table("shop.inside", many_small.schema(), location=inside), 1)
    file = tmp_path / "policies.yaml"
    file.write_text("tables:\n  '*': {orphans: {mode: delete}}\n")
    run_lake("plan", "shop.*", "--policy-file", str(file), "--output", "plain")
    of_orders, of_inside = capsys.readouterr().out.splitlines()[-2:]
    assert "remove-orphans" not in of_orders + of_inside
    assert f"may be there: {many_small.location()} overlaps {inside} of shop.inside. Give each table" in of_orders
    assert f"may be there: {inside} overlaps {many_small.location()} of shop.orders. Give each table" in of_inside


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_whole_plan_comes_as_json_and_as_yaml(
    output: str, read: Callable[[str], list[dict[str, object]]], many_small: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    run_lake("plan", "shop.orders", "--output", output)
    (row,) = read(capsys.readouterr().out)
    made = TablePlan.from_json(json.dumps(row))
    assert [(task["action"], task["table"], task["level"]) for task in made.tasks] == [
        ("compaction", "shop.orders", "minor")
    ]
    assert "remove-orphans" in [each.action for each in made.not_planned]


def test_a_table_that_cannot_be_read_is_a_line_with_its_error(
    many_small: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location = f"file://{tmp_path}/[red]gone.metadata.json"
    register(tmp_path / "catalog.db", "lake_default", "shop", {"gone": location, "[red]x": location})
    with pytest.raises(SystemExit) as stopped:
        run_lake("plan", "shop.*", "--output", "table")
    assert stopped.value.code == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "shop.%5Bred%5Dx" in printed
    assert "[red]gone.metadata.json" in printed.replace(" | ", "")
    assert "shop.orders" in printed


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["shop.absent"], r"MissingTableError: .*shop\.absent does not exist"),
        (["none.*"], r"No table of connection 'lake_default' matches none\.\*"),
    ],
)
def test_what_cannot_be_asked_is_refused(arguments: list[str], why: str, orders: Table) -> None:
    with pytest.raises(SystemExit, match=why):
        run_lake("plan", *arguments)
