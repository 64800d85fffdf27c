"""The entry that a plan leaves for the lake page: true to the tables, bounded, and no reason to fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.maintenance.fleet_entries import (
    MOST_DETAIL_BYTES,
    MOST_DETAILS,
    MOST_ROWS,
    TableLook,
    fleet_entries,
)
from airflow_lake_provider.maintenance.fleet_run import FleetRun
from airflow_lake_provider.maintenance.health import TableHealth, broken_table
from airflow_lake_provider.maintenance.history import ConsumerLag
from airflow_lake_provider.maintenance.plan import NotPlanned, TablePlan
from airflow_lake_provider.maintenance.policy import EffectiveValue, Layer, TablePolicy
from airflow_lake_provider.operators.maintenance_plan import LakeMaintenancePlanOperator
from tests.made_tables import register

if TYPE_CHECKING:
    from airflow.sdk import Context

NOW = datetime(2026, 11, 28, 3, tzinfo=UTC)
Append = Callable[..., int]


@pytest.fixture
def three(orders: Table, lake_catalog: SqlCatalog, append: Append, tmp_path: Path) -> Table:
    """Make tables that are due, well and broken; return the first."""
    for number in range(8):
        append(orders, number)
    append(lake_catalog.create_table("shop.well", orders.schema(), properties={"lake.maintenance.priority": "-1"}), 1)
    register(tmp_path / "catalog.db", "lake_default", "shop", {"gone": f"file://{tmp_path}/gone.metadata.json"})
    return orders


def plan(context: Context, **arguments: Any) -> None:
    LakeMaintenancePlanOperator(task_id="plan", **arguments).execute(context)


def test_a_plan_leaves_what_its_look_has_seen_of_each_table_the_worst_first(
    context: Context, pushed: dict[str, Any], three: Table
) -> None:
    plan(context, tables=["shop.*"])
    header, rows = pushed["lake_fleet"], pushed["lake_fleet_rows_0"]["rows"]
    assert [row["table"] for row in rows] == ["shop.gone", "shop.orders", "shop.well"]
    assert "BrokenMetadataError" in rows[0]["error"]
    assert (header["conn_id"], header["authority"]) == ("lake_default", "lake_default")
    assert (header["tables"], header["looked_at"], header["parts"]) == (
        ["shop.*"],
        3,
        1,
    )
    three.refresh()
    files = three.inspect.files()
    assert rows[1]["files"] == files.num_rows == 8
    assert rows[1]["bytes"] == sum(files["file_size_in_bytes"].to_pylist())
    assert rows[1]["snapshots"] == len(three.snapshots())
    assert [each["action"] for each in rows[1]["due"]] == ["compaction"]
    assert "due" not in rows[2]


def test_details_have_the_snapshots_of_main_as_text_and_the_files_by_size(
    context: Context, pushed: dict[str, Any], three: Table
) -> None:
    plan(context, tables=["shop.*"])
    details = pushed["lake_fleet_details_0"]["tables"]["shop.orders"]
    three.refresh()
    assert [each["id"] for each in details["snapshots"]] == [str(each.snapshot_id) for each in three.snapshots()][::-1]
    assert {each["rows"] for each in details["snapshots"]} == {1}
    assert sum(details["files"]["by_size"]) == three.inspect.files().num_rows
    named = pushed["lake_fleet_details_0"]["tables"]["shop.well"]["policy"]
    assert [(each["key"], each["value"], each["layer"]) for each in named] == [("priority", "-1", "table")]
    assert pushed["lake_fleet_rows_0"]["rows"][1]["details"] == 0


def test_the_header_comes_behind_all_that_it_names(context: Context, pushed: dict[str, Any], three: Table) -> None:
    plan(context, tables=[three.name()[0] + ".*"], dry_run=True)
    ours = [key for key in pushed if key.startswith("lake_fleet")]
    assert ours == ["lake_fleet_rows_0", "lake_fleet_details_0", "lake_fleet"]
    assert pushed["lake_fleet"]["dry_run"] is True


@pytest.mark.usefixtures("three")
def test_a_database_that_takes_no_entry_fails_no_plan(context: Context) -> None:
    def refuse(key: str, value: Any) -> None:
        if key.startswith("lake_fleet"):
            raise ConnectionError(f"{key} of {len(value)}")

    context["ti"].xcom_push = refuse  # type: ignore[method-assign]  # of a stand-in
    plan(context, tables=["shop.*"])


def entries(looks: dict[str, TableLook], plans: list[TablePlan], **named: Any) -> dict[str, Any]:
    run = FleetRun(plans=tuple(plans))
    return dict(fleet_entries(run, looks, at=NOW, conn_id="lake", authority="lake", tables=["*"], **named))


def test_the_header_has_the_patterns_that_limit_a_look_unless_they_are_too_many() -> None:
    assert entries({}, [])["lake_fleet"]["allowed"] == ["*"]
    assert entries({}, [], allowed=["a.*", "b.*"])["lake_fleet"]["allowed"] == ["a.*", "b.*"]
    for names in ([f"a.t{number}" for number in range(101)], [f"a.{'t' * 300}"]):
        assert "allowed" not in entries({}, [], allowed=names)["lake_fleet"]


def test_a_look_at_changed_tables_that_has_seen_none_leaves_no_entry() -> None:
    assert entries({}, [], of_changed=True) == {}
    assert list(entries({}, [])) == ["lake_fleet"]


def test_an_entry_has_at_most_so_many_tables_and_says_how_many_it_left_out() -> None:
    names = [f"a.t{number:04d}" for number in range(MOST_ROWS + 3)]
    looks = {name: TableLook(health=broken_table(name, NOW, "x")) for name in names}
    made = entries(looks, [TablePlan(table=name, planned_at=NOW) for name in names])
    rows = [row for key, part in made.items() if key.startswith("lake_fleet_rows") for row in part["rows"]]
    assert (len(rows), made["lake_fleet"]["left_out"]) == (MOST_ROWS, 3)
    assert sum("details" in row for row in rows) == MOST_DETAILS
    parts = [part["tables"] for key, part in made.items() if key.startswith("lake_fleet_details")]
    assert sum(map(len, parts)) == MOST_DETAILS
    assert all(row["table"] in parts[row["details"]] for row in rows if "details" in row)


@pytest.mark.parametrize("text", ["x" * 10**5, "\x00" * 10**5, "\ud800" * 10**5], ids=["long", "control", "surrogates"])
def test_details_are_small_whatever_strangers_write(text: str) -> None:
    values = [EffectiveValue(key=f"k{n}", value=text, layer=Layer.TABLE, origin=text) for n in range(99)]
    snapshot = Snapshot(id="1", parent=None, at=0, summary={"operation": text, "engine-name": text})
    lags = tuple(ConsumerLag(consumer=text, snapshot="1", owner=text, target=text) for _ in range(99))
    health = replace(TableHealth(table="a.b", read_at=NOW), consumers=lags, score=1)
    left = tuple(NotPlanned(action="x", why=text, instead=text) for _ in range(99))
    look = TableLook(health=health, policy=TablePolicy(table="a.b", values=tuple(values)), newest=(snapshot,) * 30)
    made = entries({"a.b": look}, [TablePlan(table="a.b", planned_at=NOW, not_planned=left)])
    details = made["lake_fleet_details_0"]["tables"]["a.b"]
    assert len(json.dumps(details).encode()) <= MOST_DETAIL_BYTES
    assert len(json.dumps(made["lake_fleet_rows_0"]).encode()) <= MOST_DETAIL_BYTES


@pytest.mark.parametrize(("hours", "is_late"), [(1, False), (200, True), (None, True)])
def test_a_consumer_is_late_beyond_its_limit_and_where_its_snapshot_is_gone(hours: int | None, is_late: bool) -> None:
    from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy

    behind = None if hours is None else timedelta(hours=hours)
    health = TableHealth(
        table="a.b", read_at=NOW, consumers=(ConsumerLag(consumer="mart", snapshot="1", behind=behind),)
    )
    look = TableLook(health=health, policy=TablePolicy(table="a.b", policy=MaintenancePolicy()))
    row = entries({"a.b": look}, [TablePlan(table="a.b", planned_at=NOW)])["lake_fleet_rows_0"]["rows"][0]
    assert [each["is_late"] for each in row["consumers"]] == [is_late]
