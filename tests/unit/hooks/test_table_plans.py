"""Plans of the tables of a catalog, by a policy for all or for each, and with an entry for a table that is broken."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pendulum
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ServiceUnavailableError
from pyiceberg.table import Table

from airflow_lake_provider.contracts.errors import AccessDeniedError, CatalogUnavailableError, InvalidSpecError
from airflow_lake_provider.hooks import look_at_tables
from airflow_lake_provider.hooks.bounded_catalogs.iceberg_catalog import IcebergCatalog
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.maintenance_history import MaintenanceHistory
from airflow_lake_provider.hooks.table_health import table_health
from airflow_lake_provider.hooks.table_plans import plan_tables, table_plans
from airflow_lake_provider.hooks.table_policy import PolicyReader, table_policies
from airflow_lake_provider.maintenance.plan import NotPlanned, TablePlan
from airflow_lake_provider.maintenance.planner import ORDER
from airflow_lake_provider.tables.base import ListedTable, LoadedTable
from tests.made_tables import register

Append = Callable[..., int]


@pytest.fixture
def three(orders: Table, lake_catalog: SqlCatalog, append: Append, tmp_path: Path) -> None:
    """Make a table that is due, one that is not, and one that is broken."""
    for number in range(8):
        append(orders, number)
    well = lake_catalog.create_table("shop.well", orders.schema(), properties={"maintenance": "rare"})
    append(well, 1)
    register(tmp_path / "catalog.db", "lake_default", "shop", {"gone": f"file://{tmp_path}/gone.metadata.json"})


@pytest.mark.usefixtures("three")
def test_tables_are_planned_by_the_default_policy_and_the_most_urgent_comes_first() -> None:
    plans = table_plans("shop.*")
    assert [(each.table, [task["action"] for task in each.tasks]) for each in plans] == [
        ("shop.orders", ["compaction"]),
        ("shop.gone", []),
        ("shop.well", []),
    ]
    assert "BrokenMetadataError" in (plans[1].error or "")


@pytest.mark.usefixtures("three")
def test_what_the_dag_names_holds_for_all_tables() -> None:
    plans = table_plans("shop.*", policy={"compaction": {"min_input_files": 50}, "owner": "nobody"})
    assert [each.tasks for each in plans] == [[], [], []]
    assert {each.table: each.owner for each in plans} == {
        "shop.orders": "nobody",
        "shop.well": "nobody",
        # File and DAG say whose it is, though nothing in it can be read.
        "shop.gone": "nobody",
    }


@pytest.mark.usefixtures("three")
def test_a_table_is_planned_by_the_file_and_by_its_own_properties(lake_catalog: SqlCatalog, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text("tables:\n  shop.well: {priority: 5}\n  shop.g*: {owner: team-g}\n")
    with lake_catalog.load_table("shop.orders").transaction() as change:
        change.set_properties({"lake.maintenance.paused": "true"})
    plans = table_plans("shop.*", policy_file=str(file))
    assert [(each.table, each.tasks) for each in plans] == [("shop.well", []), ("shop.gone", []), ("shop.orders", [])]
    assert plans[1].owner == "team-g"
    assert {each.why for each in plans[2].not_planned} == {"The policy pauses the table."}


@pytest.mark.usefixtures("three")
def test_a_policy_that_is_broken_is_an_error_of_its_table_alone(lake_catalog: SqlCatalog) -> None:
    with lake_catalog.load_table("shop.orders").transaction() as change:
        change.set_properties({"lake.maintenance.orphans.mod": "off"})
    plans = {each.table: each for each in table_plans("shop.*")}
    assert "lake.maintenance.orphans.mod" in (plans["shop.orders"].error or "")
    assert plans["shop.orders"].tasks == []
    assert plans["shop.well"].error is None


@pytest.mark.parametrize("patterns", ["shop.a*", ["shop.a.b", "shop.x*"]])
def test_a_table_that_shares_its_dotted_name_with_another_is_not_taken_for_it(
    patterns: str | list[str], lake_catalog: SqlCatalog, orders: Table, append: Append, tmp_path: Path
) -> None:
    lake_catalog.create_namespace("shop.a")
    paused = {"lake.maintenance.paused": "true"}
    wanted = lake_catalog.create_table("shop.a.b", orders.schema(), properties=paused)
    for number in range(8):
        append(orders, number)
    append(wanted, 1)
    database = tmp_path / "catalog.db"
    # Of a namespace "shop" and a table "a.b"; it is due, and nobody pauses it.
    register(database, "lake_default", "shop", {"a.b": lake_catalog.load_table("shop.orders").metadata_location})
    plans = {each.table: each for each in table_plans(patterns)}
    assert plans.keys() == {"shop.a.b", "shop.a%2Eb"} - ({"shop.a%2Eb"} if isinstance(patterns, list) else set())
    assert [each.tasks for each in plans.values()] == [[]] * len(plans)
    assert {each.why for each in plans["shop.a.b"].not_planned} == {"The policy pauses the table."}
    if "shop.a%2Eb" in plans:
        assert (plans["shop.a%2Eb"].error or "").startswith("UnsupportedError: table shop.a%2Eb: no operator can name")


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("strange", ["a\0b", "a\ud800"], ids=["NUL", "half a surrogate pair"])
@pytest.mark.parametrize("place", ["location", "write.data.path", "manifest-list"])
def test_a_location_that_is_no_path_stops_no_plan(
    place: str, strange: str, lake_catalog: SqlCatalog, tmp_path: Path
) -> None:
    metadata = json.loads(Path(lake_catalog.load_table("shop.orders").metadata_location[len("file://") :]).read_text())
    holder = {"location": metadata, "write.data.path": metadata["properties"]}.get(place, metadata["snapshots"][0])
    holder[place] = f"file:///{strange}" if place == "location" else f"file:///{strange}/x"
    (tmp_path / "odd.metadata.json").write_text(json.dumps(metadata))
    register(tmp_path / "catalog.db", "lake_default", "shop", {"odd": f"file://{tmp_path}/odd.metadata.json"})
    plans = {each.table: each for each in table_plans("shop.*")}
    assert plans.keys() == {"shop.orders", "shop.well", "shop.gone", "shop.odd"}
    assert [task["action"] for task in plans["shop.orders"].tasks] == ["compaction"]


# Eight snapshots are past their retention nine days later.
DUE: dict[str, Any] = {"policy": {"expiry": {"min_snapshots": 7}}}
LATER = timedelta(days=9)


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("now", [datetime.now(UTC), pendulum.now("Europe/Paris")], ids=["of Python", "of Airflow"])
def test_ages_count_against_the_moment_that_is_given(now: datetime) -> None:
    (plan,) = table_plans("shop.orders", **DUE, now=now + LATER)
    assert plan.error is None
    assert [task["action"] for task in plan.tasks] == ["snapshot-expiry", "compaction"]
    assert plan.planned_at == datetime.fromtimestamp((now + LATER).timestamp(), UTC)


def expiry_of(plan: TablePlan) -> NotPlanned:
    """Return why the snapshots of a table stay."""
    assert "snapshot-expiry" not in [task["action"] for task in plan.tasks]
    (left_out,) = (each for each in plan.not_planned if each.action == "snapshot-expiry")
    return left_out


AHEAD_OF_UTC = timezone(timedelta(hours=9))


@pytest.mark.parametrize(
    "now", [datetime.fromisoformat("2026-11-30T06:00:00"), datetime.min.replace(tzinfo=AHEAD_OF_UTC)]
)
@pytest.mark.parametrize("function", [table_plans, table_health])
@pytest.mark.usefixtures("orders")
def test_a_moment_without_a_zone_or_without_a_year_in_utc_is_refused(
    function: Callable[..., Any], now: datetime
) -> None:
    with pytest.raises(InvalidSpecError, match=r"^now must be .*got datetime\.datetime"):
        function("shop.*", now=now)


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(("namespace", "name"), [("shop", "twin"), ("backup", "orders"), ("backup", "or ders")])
@pytest.mark.parametrize("tables", ["*", ["shop.orders"]], ids=["all tables", "one of them"])
def test_no_expiry_is_planned_of_a_table_that_the_catalog_has_twice(
    lake_catalog: SqlCatalog, tmp_path: Path, namespace: str, name: str, tables: Any
) -> None:
    lake_catalog.create_namespace_if_not_exists(namespace)
    orders = lake_catalog.load_table("shop.orders")
    register(tmp_path / "catalog.db", "lake_default", namespace, {name: orders.metadata_location})
    # The entry stays behind, and reads what this one would expire.
    orders.append(pa.table({"id": [9]}, schema=orders.schema().as_arrow()))
    later = datetime.now(UTC) + LATER
    plans = {each.table: each for each in table_plans(tables, **DUE, now=later)}
    other = f"{namespace}.{name.replace(' ', '%20')}"
    left_out = expiry_of(plans["shop.orders"])
    assert left_out.is_unsupported
    assert f"The catalog has this table as {other}, too" in left_out.why
    assert [task["action"] for task in plans["shop.orders"].tasks] == ["compaction"]
    if other in plans and plans[other].error is None:
        assert "The catalog has this table as shop.orders, too" in expiry_of(plans[other]).why


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("tables", ["*", "shop.orders"])
def test_no_expiry_is_planned_where_the_other_entry_of_the_table_does_not_answer(
    lake_catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: str
) -> None:
    orders = lake_catalog.load_table("shop.orders")
    register(tmp_path / "catalog.db", "lake_default", "shop", {"entry": orders.metadata_location})
    load, asked = IcebergCatalog.load_listed, list[str]()

    def away(catalog: IcebergCatalog, table: ListedTable) -> LoadedTable:
        asked.append(str(table))
        if str(table) == "shop.entry":
            raise ServiceUnavailableError("503")
        return load(catalog, table)

    monkeypatch.setattr(IcebergCatalog, "load_listed", away)
    monkeypatch.setattr(look_at_tables, "BEFORE_SECOND_LOOK", 0.0)
    hook, later = LakeCatalogHook(), datetime.now(UTC) + LATER
    history = MaintenanceHistory(hook, "off")
    planned = plan_tables(tables, PolicyReader(hook, policy=DUE["policy"]), later, history=history)
    (plan,) = (each for each in planned.plans if each.table == "shop.orders")
    left_out = expiry_of(plan)
    assert "did not answer whether shop.entry" in left_out.why
    # Nobody is told to drop a table for one answer that did not come.
    assert (left_out.is_unsupported, left_out.is_waiting, planned.overlaps) == (False, True, ())
    assert [task["action"] for task in plan.tasks] == ["compaction"]
    assert asked.count("shop.entry") == (2 if tables == "*" else 1)


@pytest.mark.usefixtures("three")
def test_a_copy_of_a_table_or_one_below_it_keeps_no_snapshots(lake_catalog: SqlCatalog) -> None:
    orders = lake_catalog.load_table("shop.orders")
    lake_catalog.create_namespace("backup")
    lake_catalog.create_table("backup.orders", orders.schema())
    lake_catalog.create_table("backup.below", orders.schema(), location=f"{orders.location()}/below")
    (alone,) = table_plans("shop.orders", **DUE, now=datetime.now(UTC) + LATER)
    assert [task["action"] for task in alone.tasks] == ["snapshot-expiry", "compaction"]


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(("days", "looked_at"), [(0, ["orders"]), (9, ["orders", "well", "gone"])])
def test_other_tables_are_looked_at_where_snapshots_would_go_and_else_not(
    monkeypatch: pytest.MonkeyPatch, days: int, looked_at: list[str]
) -> None:
    loaded: list[str] = []
    load = IcebergCatalog.load_listed

    def noted(catalog: IcebergCatalog, table: ListedTable) -> LoadedTable:
        loaded.append(table.levels[-1])
        return load(catalog, table)

    monkeypatch.setattr(IcebergCatalog, "load_listed", noted)
    table_plans("shop.orders", **DUE, now=datetime.now(UTC) + timedelta(days=days), history="off")
    assert sorted(loaded) == sorted(looked_at)


@pytest.mark.usefixtures("three")
def test_snapshots_stay_where_the_catalog_does_not_list_its_other_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    list_tables = LakeCatalogHook.list_tables

    def refused(hook: LakeCatalogHook, within: tuple[str, ...] = ()) -> list[ListedTable]:
        if not within:
            raise AccessDeniedError("the catalog may not be listed")
        return list_tables(hook, within)

    monkeypatch.setattr(LakeCatalogHook, "list_tables", refused)
    (plan,) = table_plans("shop.orders", **DUE, now=datetime.now(UTC) + LATER)
    assert [task["action"] for task in plan.tasks] == ["compaction"]
    left_out = expiry_of(plan)
    assert left_out.is_waiting
    assert "the catalog may not be listed" in left_out.why


DAYS = {"keep": "P30D"}
CURVE = {"strategy": "zorder", "level": "full"}


def make_events(catalog: SqlCatalog) -> None:
    """Make a table of eight small files."""
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
    table = catalog.create_table("shop.events", schema)
    for number in range(8):
        table.append(pa.table({"id": [number], "at": [datetime(2020, 1, 1, tzinfo=UTC)]}, schema=schema))


@pytest.mark.parametrize(
    ("policy", "action", "why"),
    [
        ({"row_expiry": {"column": "at", **DAYS}}, "expire-rows", None),
        (
            {"row_expiry": {"column": "made", **DAYS}},
            "expire-rows",
            "'made', which is none of its columns ['at', 'id']",
        ),
        ({"row_expiry": {"column": "id", **DAYS}}, "expire-rows", "'id' is of type long; rows have an age by date"),
        ({"statistics": {"every": "P1D", "columns": ["id"]}}, "compute-statistics", None),
        ({"statistics": {"every": "P1D", "columns": ["ids"]}}, "compute-statistics", "that the table lacks: ['ids']"),
        ({"compaction": {**CURVE, "sort_by": ["ID", "at"]}}, "compaction", None),
        ({"compaction": {**CURVE, "sort_by": ["ids", "at"]}}, "compaction", "that the table lacks: ['ids']"),
    ],
)
def test_a_policy_that_names_a_column_which_the_table_lacks_is_no_work_that_each_run_refuses(
    policy: dict[str, Any], action: str, why: str | None, lake_catalog: SqlCatalog
) -> None:
    make_events(lake_catalog)
    (plan,) = table_plans("shop.events", policy=policy)
    assert (action in [task["action"] for task in plan.tasks]) is (why is None)
    left_out = [each for each in plan.not_planned if each.action == action]
    assert [each.is_unsupported for each in left_out] == ([True] if why else [])
    assert all((why or "") in each.why for each in left_out)


@pytest.mark.parametrize("column", ["ids", "at"])
def test_manifests_do_not_wait_for_a_compaction_that_the_table_rules_out(column: str, lake_catalog: SqlCatalog) -> None:
    make_events(lake_catalog)
    is_fit = column == "at"
    policy = {"compaction": {**CURVE, "sort_by": ["id", column]}, "manifests": {"mergeable": 2}, "tags": {"daily": 7}}
    (plan,) = table_plans("shop.events", policy=policy)
    actions = ["create-tag", "compaction"] if is_fit else ["create-tag", "rewrite-manifests"]
    assert [task["action"] for task in plan.tasks] == actions
    named = [*(each.action for each in plan.actions), *(each.action for each in plan.not_planned)]
    assert sorted(named) == sorted(ORDER)
    unsupported = [each.why for each in plan.not_planned if each.is_unsupported]
    assert len(unsupported) == (0 if is_fit else 1)
    assert all("that the table lacks: ['ids']" in each for each in unsupported)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Calls of a catalog that are not answered before it answers again: by the name of the method, how many."""
    left: dict[str, int] = {}
    monkeypatch.setattr(look_at_tables, "BEFORE_SECOND_LOOK", 0.0)

    def interrupt(name: str) -> None:
        call = getattr(IcebergCatalog, name)

        def answered(catalog: IcebergCatalog, *given: Any) -> Any:
            if left.get(name, 0) > 0:
                left[name] -= 1
                raise ServiceUnavailableError("503: the catalog starts")
            return call(catalog, *given)

        monkeypatch.setattr(IcebergCatalog, name, answered)

    for name in ("load_listed", "namespace_properties", "list_tables"):
        interrupt(name)
    return left


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("call", ["load_listed", "namespace_properties"])
def test_tables_whose_catalog_was_away_for_a_moment_are_looked_at_again(call: str, interrupted: dict[str, int]) -> None:
    interrupted[call] = 1
    plans = {each.table: each for each in table_plans("shop.*", history="off")}
    assert [task["action"] for task in plans["shop.orders"].tasks] == ["compaction"]
    assert [name for name, each in plans.items() if each.error] == ["shop.gone"]
    interrupted[call] = 1
    assert [each.table for each in table_policies("shop.*") if each.error and "503" in each.error] == []
    interrupted[call] = 1
    healths = table_health("shop.*", policies=PolicyReader(LakeCatalogHook()))
    assert [each.table for each in healths if "503" in f"{each.error}{each.policy_error}"] == []


@pytest.mark.usefixtures("three")
def test_a_catalog_that_does_not_come_back_is_an_error_which_a_retry_may_mend(
    interrupted: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    load = IcebergCatalog.load_listed

    def gone_now(catalog: IcebergCatalog, table: ListedTable) -> LoadedTable:
        interrupted["list_tables"] = interrupted["load_listed"] = 99
        return load(catalog, table)

    monkeypatch.setattr(IcebergCatalog, "load_listed", gone_now)
    with pytest.raises(CatalogUnavailableError, match="503"):
        table_plans("shop.*", history="off")


def hang(monkeypatch: pytest.MonkeyPatch, name: str) -> Counter[str]:
    """Have a catalog not answer for tables whose name begins so; return how often it is asked for each."""
    asked: Counter[str] = Counter()
    load = IcebergCatalog.load_listed

    def hangs(catalog: IcebergCatalog, table: ListedTable) -> LoadedTable:
        asked[str(table)] += 1
        if str(table).startswith(name):
            raise TimeoutError("no whole answer in time")
        return load(catalog, table)

    monkeypatch.setattr(IcebergCatalog, "load_listed", hangs)
    return asked


@pytest.mark.usefixtures("three", "interrupted")
def test_a_table_that_never_answers_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = hang(monkeypatch, "shop.well")
    plans = {each.table: each for each in table_plans("shop.*", history="off")}
    assert (plans["shop.well"].error or "").startswith("CatalogUnavailableError")
    assert plans["shop.orders"].tasks
    assert asked == {"shop.gone": 1, "shop.orders": 1, "shop.well": 2}


@pytest.mark.usefixtures("three", "interrupted")
def test_tables_that_all_hang_are_not_all_waited_for_twice(
    lake_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        lake_catalog.create_table(f"shop.hangs{number:02}", lake_catalog.load_table("shop.well").schema())
    asked = hang(monkeypatch, "shop.hangs")
    plans = {each.table: each for each in table_plans("shop.*", history="off")}
    assert plans["shop.orders"].tasks
    hanging = {name: times for name, times in asked.items() if "hangs" in name}
    assert (len(hanging), sum(times == 2 for times in hanging.values()), max(hanging.values())) == (20, 8, 2)
    assert all((plans[name].error or "").startswith("CatalogUnavailableError") for name in hanging)
