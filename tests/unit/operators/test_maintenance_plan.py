"""The plan of a run of maintenance: its jobs, what it reports, and what it says in the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError, NoSuchTableError
from pyiceberg.table import Table

from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError, MissingTableError
from airflow_lake_provider.hooks.bounded_catalogs.iceberg_catalog import IcebergCatalog
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.maintenance_history import MaintenanceHistory
from airflow_lake_provider.hooks.maintenance_leases import MaintenanceLeases
from airflow_lake_provider.maintenance.history_entries import HistoryRun, history_entries
from airflow_lake_provider.maintenance.leases import MaintenanceLease
from airflow_lake_provider.maintenance.outcomes import outcomes_of_run
from airflow_lake_provider.operators.maintenance_plan import NOT_RUN, SUMMARY, LakeMaintenancePlanOperator
from tests.made_tables import register

if TYPE_CHECKING:
    from airflow.sdk import Context

Append = Callable[..., int]


def plan(**arguments: Any) -> LakeMaintenancePlanOperator:
    return LakeMaintenancePlanOperator(task_id="plan", **arguments)


@pytest.mark.usefixtures("five", "pushed")
@pytest.mark.parametrize("policy_file", [None, "lake_policy.yaml", "of/another.yaml"])
def test_a_policy_file_is_taken_from_the_bundle_of_the_dag_and_then_from_the_folder_of_dags(
    policy_file: str | None,
    context: Context,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bundle, dags = tmp_path / "bundle", tmp_path / "dags"
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(dags))
    context["ti"].bundle_instance = SimpleNamespace(path=bundle)  # type: ignore[attr-defined]  # of the task runner
    for folder, pool in ((dags, "away"), (bundle, "here")):
        file = folder / (policy_file or "lake_policy.yaml")
        file.parent.mkdir(parents=True)
        file.write_text(f"tables: {{shop.*: {{pool: {pool}}}}}")
        # Whoever plans takes no pool, so a table of one is left out.
        assert plan(tables="shop.orders", policy_file=policy_file, run_pool="other").execute(context) == []
        assert f"Its policy asks for pool {pool!r}" in capsys.readouterr().out


@pytest.mark.usefixtures("five")
def test_due_tables_are_jobs_and_broken_ones_are_reported(
    context: Context, pushed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (job,) = plan(tables=["shop.*"]).execute(context)
    assert job["name"] == "maintenance of shop.orders"
    assert [(task["action"], task["table"]) for task in job["tasks"]] == [("compaction", "shop.orders")]
    assert job["expected"][0]["why"].startswith("7 of 8 data files")
    reports = {each["table"]: (each["action"], each["outcome"], each["error"]) for each in pushed[NOT_RUN]}
    assert reports == {
        "shop.gone": ("plan", "failed", "BrokenMetadataError"),
        "shop.nogc": ("snapshot-expiry", "unsupported", "UnsupportedError"),
    }
    assert pushed[SUMMARY].items() >= {"tables": 5, "due": 1, "jobs": 1, "failed": 1, "unsupported": 1}.items()
    assert pushed["outcome"] == "5 tables, 1 due, 1 jobs, 1 core-seconds, 1 failed, 1 unsupported"
    lines = capsys.readouterr().out
    assert "shop.orders: compaction (minor): 7 of 8 data files" in lines
    assert "shop.gone: plan failed: BrokenMetadataError" in lines
    # What needs nothing is counted, and has no line.
    assert "2 tables: Nothing is due." in lines
    assert "1 tables: The table has no snapshot." in lines
    assert "shop.well" not in lines


@pytest.mark.usefixtures("five")
def test_nothing_due_is_no_job_and_broken_tables_are_reported_nevertheless(
    context: Context, pushed: dict[str, Any]
) -> None:
    assert plan(tables=["shop.*", "!shop.orders"]).execute(context) == []
    assert [each["table"] for each in pushed[NOT_RUN] if each["outcome"] == "failed"] == ["shop.gone"]


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize("dry_run", [True, "True"])
def test_a_dry_run_says_what_it_would_do_and_returns_no_job(
    context: Context, pushed: dict[str, Any], dry_run: bool | str
) -> None:
    assert plan(tables="shop.*", dry_run=dry_run).execute(context) == []
    assert pushed["outcome"].startswith("dry run: 5 tables, 1 due, 1 jobs")
    # By its absence the verdict knows that there is nothing to judge.
    assert NOT_RUN not in pushed


@pytest.mark.usefixtures("five")
def test_xcom_is_small_however_many_tables_need_nothing(context: Context, pushed: dict[str, Any]) -> None:
    jobs = plan(tables=["shop.*", "!shop.gone"]).execute(context)
    assert len(json.dumps(jobs)) < 1000
    # Beside the entries of the lake page, which have a bound of their own.
    others = {key: value for key, value in pushed.items() if not key.startswith("lake_fleet")}
    assert "shop.well" not in json.dumps([jobs, others])


@pytest.mark.usefixtures("five", "pushed")
def test_a_named_table_that_does_not_exist_stops_no_other(context: Context, pushed: dict[str, Any]) -> None:
    (job,) = plan(tables=["shop.orders", "shop.ordrs"]).execute(context)
    assert [task["table"] for task in job["tasks"]] == ["shop.orders"]
    (report,) = pushed[NOT_RUN]
    assert (report["table"], report["error"]) == ("shop.ordrs", "MissingTableError")
    assert "did you mean 'shop.orders'?" in report["reason"]


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize("is_listed", [False, True])
def test_a_table_that_is_dropped_during_the_look_is_not_broken_and_one_that_stays_listed_is(
    context: Context,
    pushed: dict[str, Any],
    lake_catalog: SqlCatalog,
    monkeypatch: pytest.MonkeyPatch,
    is_listed: bool,
) -> None:
    load = IcebergCatalog.load_listed

    def lost(catalog: IcebergCatalog, table: Any) -> Any:
        if str(table) != "shop.well":
            return load(catalog, table)
        if not is_listed:
            lake_catalog.drop_table("shop.well")
        raise NoSuchTableError("shop.well")

    monkeypatch.setattr(IcebergCatalog, "load_listed", lost)
    plan(tables=["shop.*", "!shop.gone"]).execute(context)
    failed = {each["table"] for each in pushed[NOT_RUN] if each["outcome"] == "failed"}
    assert failed == ({"shop.well"} if is_listed else set())
    assert pushed[SUMMARY]["tables"] == (4 if is_listed else 3)


@pytest.mark.usefixtures("five", "pushed")
@pytest.mark.parametrize("declares", [False, True], ids=["location", "declared path"])
def test_a_table_that_lies_in_another_ones_location_is_told_of(
    declares: bool,
    context: Context,
    pushed: dict[str, Any],
    orders: Table,
    lake_catalog: SqlCatalog,
    capsys: pytest.CaptureFixture[str],
) -> None:
    inside = f"{orders.location()}//inside/"
    properties, location = ({"write.data.path": inside}, None) if declares else ({}, inside)
    lake_catalog.create_table("shop.inside", orders.schema(), location=location, properties=properties)
    plan(tables=["shop.*"]).execute(context)
    assert pushed[SUMMARY]["overlapping"] == 2
    said = capsys.readouterr().out
    assert f"shop.inside: {inside.rstrip('/')}" in said
    assert f" overlaps {orders.location()} of shop.orders; give each table a location of its own" in said


@pytest.mark.usefixtures("five", "pushed")
def test_of_a_table_that_the_catalog_has_twice_one_entry_is_to_go(
    context: Context, orders: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(tmp_path / "catalog.db", "lake_default", "shop", {"twin": orders.metadata_location})
    plan(tables=["shop.orders", "shop.twin"]).execute(context)
    said = capsys.readouterr().out
    assert "; drop one of them without PURGE" in said
    assert "give each table a location of its own" not in said


@pytest.mark.usefixtures("five", "pushed")
def test_a_form_names_no_table_that_the_file_does_not_allow(context: Context) -> None:
    with pytest.raises(MissingTableError, match=r"no table matches \* and mart\.\*"):
        plan(tables="*", allowed_tables=["mart.*"]).execute(context)
    assert len(plan(tables="*", allowed_tables=["shop.orders"]).execute(context)) == 1


@pytest.mark.usefixtures("five", "pushed")
def test_a_table_that_keeps_failing_by_the_history_rests(context: Context, capsys: pytest.CaptureFixture[str]) -> None:
    for hours in (3, 2, 1):
        at = datetime.now(UTC) - timedelta(hours=hours)
        who = HistoryRun(key=f"k{hours}", dag_id="d", run_id=f"r{hours}", task_id="v", try_number=1, at=at)
        failed = {"action": "compaction", "table": "shop.orders", "outcome": "failed", "reason": "memory ran out"}
        task = {"tasks": [failed], "expected": [{"core_seconds": 2.0}]}
        assert MaintenanceHistory(LakeCatalogHook()).record(history_entries(who, outcomes_of_run([task], [failed], [])))
    assert jobs_of_shop(plan(tables=["shop.*"]).execute(context)) == []
    lines = capsys.readouterr().out
    assert "shop.orders: compaction waits: Its last runs failed" in lines
    assert "memory ran out" in lines
    assert jobs_of_shop(plan(tables=["shop.*"], history="off").execute(context)) == ["shop.orders"]


def jobs_of_shop(jobs: list[dict[str, Any]]) -> list[str]:
    """Return the tables of jobs, without this package's own."""
    return [task["table"] for job in jobs for task in job["tasks"] if task["table"].startswith("shop.")]


def lease(key: str) -> MaintenanceLease:
    """Return the lease that a run asks for."""
    now = datetime.now(UTC)
    later = now + timedelta(hours=1)
    return MaintenanceLease(table_name="", run_key=key, dag_id="weekly", run_id="r7", acquired_at=now, expires_at=later)


@pytest.mark.usefixtures("five", "pushed")
def test_a_table_that_another_run_maintains_is_left_alone_and_said(
    context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    leases = MaintenanceLeases(LakeCatalogHook())
    leases.take(["shop.orders"], lease("another"))
    assert jobs_of_shop(plan(tables=["shop.*"]).execute(context)) == []
    assert "shop.orders: compaction waits: Run r7 of DAG weekly maintains it since" in capsys.readouterr().out
    leases.give_back("another")
    # A retry of the plan has its leases already.
    for _ in range(2):
        assert jobs_of_shop(plan(tables=["shop.*"]).execute(context)) == ["shop.orders"]
    assert list(leases.take(["shop.orders"], lease("another"))) == ["shop.orders"]


@pytest.mark.usefixtures("five", "pushed")
@pytest.mark.parametrize("arguments", [{"dry_run": True}, {"max_tables": 0}])
def test_a_plan_without_a_job_takes_no_lease(
    arguments: dict[str, Any], context: Context, lake_catalog: SqlCatalog
) -> None:
    assert plan(tables=["shop.*"], **arguments).execute(context) == []
    assert ("lake_ops",) not in lake_catalog.list_namespaces()


@pytest.mark.usefixtures("five", "pushed")
def test_where_a_leased_table_leaves_room_in_the_budget_another_one_is_taken(
    context: Context, lake_catalog: SqlCatalog, orders: Table, append: Append
) -> None:
    second = lake_catalog.create_table("shop.second", orders.schema())
    for number in range(6):
        append(second, number)
    leases = MaintenanceLeases(LakeCatalogHook())
    leases.take(["shop.orders"], lease("another"))
    assert jobs_of_shop(plan(tables=["shop.*"], max_tables=1).execute(context)) == ["shop.second"]
    assert set(leases.take(["shop.second"], lease("a third"))) == {"shop.second"}


@pytest.mark.usefixtures("five")
def test_a_run_maintains_its_own_history_and_leases_unless_the_author_leaves_them_out(
    context: Context, pushed: dict[str, Any], lake_catalog: SqlCatalog
) -> None:
    plan(tables=["shop.*"]).execute(context)
    tables = pushed[SUMMARY]["tables"]
    assert lake_catalog.list_tables("lake_ops") == [("lake_ops", "maintenance_leases")]
    plan(tables=["shop.*"]).execute(context)
    assert pushed[SUMMARY]["tables"] == tables + 1
    for arguments in ({"tables": ["shop.*", "!lake_ops.*"]}, {"tables": ["shop.*"], "allowed_tables": ["shop.*"]}):
        plan(**arguments).execute(context)
        assert pushed[SUMMARY]["tables"] == tables
    with pytest.raises(MissingTableError, match="no table matches"):
        plan(tables=["none.*"]).execute(context)


def looks(jobs: list[dict[str, Any]]) -> list[str]:
    """Return the tables whose orphan files jobs look for."""
    return sorted(each["table"] for job in jobs for each in job["tasks"] if each["action"] == "remove-orphans")


@pytest.mark.usefixtures("five", "pushed")
def test_orphan_files_are_looked_for_where_the_look_is_remembered_and_once(
    context: Context, lake_catalog: SqlCatalog
) -> None:
    wanted: dict[str, Any] = {"tables": ["shop.orders", "!*ops.*"], "policy": {"orphans": {"mode": "delete"}}}
    assert looks(plan(**wanted, history="off").execute(context)) == []
    assert looks(plan(**wanted, dry_run=True).execute(context)) == []
    assert looks(plan(**wanted, history="ops.mine").execute(context)) == ["shop.orders"]
    # It is there before anything depends on it.
    assert lake_catalog.load_table("ops.mine").scan().count() == 0
    who = HistoryRun(key="k", dag_id="d", run_id="r", task_id="v", try_number=1, at=datetime.now(UTC))
    report = {"action": "remove-orphans", "table": "shop.orders", "outcome": "done", "orphans": {"data": 0}}
    job = {"tasks": [report], "expected": [{"core_seconds": 2.0}]}
    MaintenanceHistory(LakeCatalogHook(), "ops.mine").record(history_entries(who, outcomes_of_run([job], [report], [])))
    assert looks(plan(**wanted, history="ops.mine").execute(context)) == []
    # That of the setting knows nothing of it.
    assert looks(plan(**wanted).execute(context)) == ["shop.orders"]


@pytest.mark.usefixtures("five", "pushed")
@pytest.mark.parametrize("right", ["create_table", "commit_table"])
def test_orphan_files_are_left_alone_where_no_table_can_remember_the_look(
    context: Context, monkeypatch: pytest.MonkeyPatch, right: str
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise ForbiddenError("no right to create or to append")

    if right == "commit_table":
        # Somebody else has made it, and it can be read.
        MaintenanceHistory(LakeCatalogHook()).prepare()
    monkeypatch.setattr(SqlCatalog, right, refused)
    jobs = plan(tables=["shop.*"], policy={"orphans": {"mode": "delete"}}).execute(context)
    assert looks(jobs) == []
    assert jobs_of_shop(jobs) == ["shop.orders"]


@pytest.mark.usefixtures("five", "pushed")
def test_budgets_and_sizes_of_jobs_are_those_of_the_author(context: Context) -> None:
    nothings: list[dict[str, Any]] = [{"max_tables": 0}, {"max_core_seconds": 0}]
    for nothing in (*nothings, *({"max_bytes": each} for each in (0, "0", " 0 GB"))):
        assert plan(tables=["shop.*"], **nothing).execute(context) == []
    # Work that no run could take for its budget is done alone.
    for little in ({"max_core_seconds": 0.1}, {"max_bytes": "1B"}):
        assert jobs_of_shop(plan(tables=["shop.*"], **little).execute(context)) == ["shop.orders"]
    every = plan(tables=["shop.*"], policy={"compaction": {"min_input_files": 1}}, job_tables=1).execute(context)
    assert all(len({task["table"] for task in job["tasks"]}) == 1 for job in every)


@pytest.mark.usefixtures("five")
def test_a_run_has_no_more_jobs_than_airflow_maps_and_the_others_wait(
    context: Context, pushed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each of three tables is due, and each has an application of its own.
    asked: dict[str, Any] = {"allowed_tables": ["shop.*"], "policy": {"tags": {"daily": 1}}, "job_tables": 1}
    names = [each["name"] for each in plan(**asked).execute(context)]
    assert len(names) == 3
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "2")
    assert [each["name"] for each in plan(**asked).execute(context)] == names[:2]
    assert pushed[SUMMARY]["deferred"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"job_tables": 0}, "job_tables must be at least 1"),
        ({"max_bytes": "many"}, "max_bytes must be a size"),
        ({"max_bytes": False}, "max_bytes must be a size"),
        ({"max_core_seconds": "-5"}, "max_core_seconds must be 0 or more, got '-5'"),
        ({"job_core_seconds": "-0.5"}, "job_core_seconds must be 0 or more, got '-0.5'"),
        ({"max_bytes": "0 cakes"}, "max_bytes must be a size"),
        ({"max_tables": "{{ params.most }}"}, "max_tables is not templated"),
        ({"history": "{{ params.history }}"}, "history is not templated"),
        ({"history": False}, "table name False is not of the form"),
        ({"history": "maintenance_history"}, "table name 'maintenance_history' is not of the form"),
        ({"run_pool": "{{ params.pool }}"}, "run_pool is not templated"),
        ({"allowed_tables": "shop.*"}, "allowed_tables must be a list"),
    ],
)
def test_an_argument_that_cannot_be_is_refused_while_the_dag_is_parsed(arguments: Any, words: str) -> None:
    with pytest.raises(InvalidSpecError, match=words):
        plan(**arguments)


@pytest.mark.usefixtures("five", "pushed")
@pytest.mark.parametrize(
    "arguments",
    [{"tables": "shop orders"}, {"policy": {"compacton": {}}}, {"lake_conn_id": "nowhere"}, {"dry_run": "perhaps"}],
)
def test_what_no_retry_mends_fails_at_once(context: Context, arguments: Any) -> None:
    with pytest.raises(AirflowFailException) as refused:
        plan(**arguments).execute(context)
    assert isinstance(refused.value, LakeProviderError)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("tables", value) for value in (None, 3, {"shop.*": 1}, [], ["shop.orders", None], "shop orders")),
        *(("policy", value) for value in ("minor", ["compaction"], {"compactoin": {"level": "minor"}})),
        *(("policy_file", value) for value in (3, "  ")),
        *(("dry_run", value) for value in ("maybe", None, 1)),
        *(("max_core_seconds", value) for value in (float("nan"), -1, 10**400)),
        *(("job_core_seconds", value) for value in (float("nan"), -1.5)),
        ("max_tables", -1),
    ],
)
def test_an_argument_that_no_run_can_use_is_refused_as_the_dag_is_parsed(name: str, value: Any) -> None:
    with pytest.raises(InvalidSpecError, match=name.split("_", maxsplit=1)[0]):
        LakeMaintenancePlanOperator(**{"task_id": "t", name: value})


def test_templates_and_xcom_are_looked_at_when_they_are_rendered() -> None:
    of_params: Any = {
        "tables": ["{{ params.table }}"],
        "policy": {"paused": "{{ params.paused }}"},
        "dry_run": "{{ x }}",
    }
    assert plan(policy_file="{{ params.file }}", **of_params).tables == of_params["tables"]
    with DAG("d", schedule=None):
        other: Any = plan().output
        assert LakeMaintenancePlanOperator(task_id="x", tables=other, policy=other["policy"]).tables is other


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize("tables", [None, 3, {"shop.*": 1}])
def test_what_a_template_renders_to_no_patterns_fails_without_a_retry(context: Context, tables: Any) -> None:
    task = plan(tables="{{ params.tables }}")
    task.tables = tables
    with pytest.raises(AirflowFailException, match="are no patterns of table names"):
        task.execute(context)
