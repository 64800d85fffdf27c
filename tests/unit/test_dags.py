"""The DAGs of this repository load, and keep what their files promise."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionStrategy
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import to_plain
from airflow_lake_provider.contracts.reports.job import LoadReport, Outcome
from airflow_lake_provider.contracts.table_name import TableName, TablePatterns
from airflow_lake_provider.get_provider_info import get_provider_info

FOLDER = Path(__file__).parents[2] / "dags"
FILES = sorted(FOLDER.glob("*.py"))


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    """DAGs by id; ``Any`` because their operators' own attributes are asked for."""
    from airflow.dag_processing.dagbag import DagBag

    bag: Any = DagBag(dag_folder=FOLDER, collect_dags=False)
    for file in FILES:
        bag.process_file(str(file))
    assert bag.import_errors == {}
    found: dict[str, Any] = dict(bag.dags)
    return found


def test_every_file_holds_the_dag_of_its_name(dags: dict[str, Any]) -> None:
    assert sorted(dags) == [file.stem for file in FILES]
    assert all(dag.doc_md for dag in dags.values())


def test_orders_are_ingested_every_quarter_of_an_hour_one_run_at_a_time(dags: dict[str, Any]) -> None:
    dag = dags["ingest_orders"]
    assert (dag.schedule, dag.max_active_runs, dag.catchup) == (timedelta(minutes=15), 1, False)
    assert [task.task_id for task in dag.topological_sort()] == ["products", "orders", "order_items"]
    assert {task.table for task in dag.tasks} == {"shop.products", "shop.orders", "shop.order_items"}
    assert all(task.retries == 2 for task in dag.tasks)


def test_events_are_appended_a_history_is_kept_and_a_table_is_whole_one_after_the_other(dags: dict[str, Any]) -> None:
    tasks = dags["load_order_events"].topological_sort()
    loaded = [(type(task).__name__, task.table, task.upstream_task_ids) for task in tasks]
    assert loaded == [
        ("LakeAppendOperator", "shop.order_events", set()),
        ("LakeUpsertOperator", "mart.order_history", {"events"}),
        ("LakeUpsertOperator", "mart.revenue_by_day", {"history"}),
    ]
    assert dags["load_order_events"].max_active_runs == 1


def test_a_commit_to_orders_starts_the_revenue_and_two_runs_never_race(dags: dict[str, Any]) -> None:
    dag = dags["on_new_orders_snapshot"]
    (asset,) = dag.schedule
    assert asset.uri == "iceberg://lake_default/shop/orders"
    assert len(asset.watchers) == 1
    assert dag.max_active_runs == 1
    assert dag.get_task("new_snapshot").downstream_task_ids == {"revenue"}
    assert dag.get_task("new_snapshot").consumer == dag.get_task("revenue").consumer


def test_a_commit_to_a_table_of_the_shop_maintains_it_and_no_two_runs_race(dags: dict[str, Any]) -> None:
    dag = dags["maintain_by_commits"]
    assets = {asset.uri: bool(asset.watchers) for asset in dag.timetable.asset_condition.objects}
    tables = ("orders", "order_items", "products")
    assert assets == {f"iceberg://lake_default/shop/{table}": table == "orders" for table in tables}
    assert dag.max_active_runs == 1
    assert dag.get_task("by_commits.plan").only_changed is True


def test_who_writes_the_watched_table_gives_its_asset_the_same_watcher(dags: dict[str, Any]) -> None:
    (outlet,) = dags["ingest_orders"].get_task("orders").outlets
    assert len(outlet.watchers) == 1
    for name in ("products", "order_items"):
        (outlet,) = dags["ingest_orders"].get_task(name).outlets
        assert not outlet.watchers


def test_every_night_all_tables_are_maintained_by_at_most_twenty_lines(dags: dict[str, Any]) -> None:
    dag = dags["nightly_maintenance"]
    assert (dag.schedule, dag.max_active_runs, dag.catchup) == ("30 2 * * *", 1, False)
    plan, run, verdict = (dag.get_task(f"nightly.{name}") for name in ("plan", "run", "verdict"))
    assert plan.allowed_tables == ("shop.*", "mart.*", "lake_ops.*")
    assert run.partial_kwargs["allowed_tables"] == [*plan.allowed_tables]
    assert verdict.upstream_task_ids == {"nightly.plan", "nightly.run"}
    # What has ended well may be tried again: it is not due any more.
    assert (plan.retries, run.retries) == (1, 1)
    lines = (FOLDER / "nightly_maintenance.py").read_text().splitlines()
    assert len(lines[lines.index("with DAG(") :]) <= 20


def test_the_night_maintains_the_tables_of_history_and_leases_beside_the_others(dags: dict[str, Any]) -> None:
    allowed = dags["nightly_maintenance"].get_task("nightly.plan").allowed_tables
    settings = get_provider_info()["config"]["lake"]["options"]
    own = [settings[name]["default"] for name in ("maintenance_history", "maintenance_leases")]
    patterns = TablePatterns.parse("*", allowed)
    asked = ("shop.orders", "staging.orders", *own)
    assert {each: patterns.matches(each) for each in asked} == {each: each != "staging.orders" for each in asked}


@pytest.mark.parametrize("text", ["shop.*; DROP", "a b", "shop.*\n", "[a]", "", "shop.'x'"])
def test_the_form_of_all_tables_takes_patterns_of_names(dags: dict[str, Any], text: str) -> None:
    pattern = dags["nightly_maintenance"].params.get_param("tables").schema["pattern"]
    assert not re.search(pattern, text) or text.endswith("\n")
    assert re.search(pattern, "shop.dim_*")


def test_the_form_starts_by_hand_only_and_says_first_what_it_would_do(dags: dict[str, Any]) -> None:
    dag = dags["maintain_one_table"]
    assert dag.schedule is None
    assert dag.params["dry_run"] is True
    assert dag.get_task("chosen_action").downstream_task_ids == {"compaction", "snapshot_expiry"}


def test_a_day_is_published_only_after_its_check_and_then_tagged(dags: dict[str, Any]) -> None:
    dag = dags["publish_after_check"]
    assert (dag.schedule, dag.max_active_runs, dag.catchup) == ("0 6 * * *", 1, False)
    assert [task.task_id for task in dag.topological_sort()] == ["load", "check", "publish", "tag"]
    assert dag.get_task("publish").upstream_task_ids == {"check"}
    assert dag.get_task("load").branch == dag.get_task("publish").published_branch
    assert {task.table for task in dag.tasks if task.task_id != "check"} == {"shop.prices"}


def test_a_day_is_checked_by_its_commit_where_the_report_of_the_driver_was_lost(
    dags: dict[str, Any], lake_catalog: SqlCatalog
) -> None:
    prices = pa.table({"sku": ["a", "b"], "price": pa.array([1, 2], pa.decimal128(12, 2))})
    table = lake_catalog.create_table("shop.prices", prices.schema)
    table.append(prices)
    snapshot = str(table.metadata.current_snapshot_id)
    lost = LoadReport(table="shop.prices", outcome=Outcome.APPLIED, reason="lost", committed=(snapshot,))
    check = dags["publish_after_check"].get_task("check").python_callable
    assert check(to_plain(lost)) == 2
    assert check({**to_plain(lost), "after": {"snapshot": snapshot}}) == 2
    assert check({**to_plain(lost), "after": {"snapshot": None}}) == 0


def test_a_rollback_starts_by_hand_and_names_the_head_that_was_looked_at(dags: dict[str, Any]) -> None:
    dag = dags["roll_back_one_table"]
    assert dag.schedule is None
    assert dag.get_task("rollback").expected_snapshot_id == "{{ params.head }}"


def test_old_rows_go_only_after_somebody_has_approved_what_a_dry_run_has_counted(dags: dict[str, Any]) -> None:
    dag = dags["expire_rows_after_approval"]
    assert [task.task_id for task in dag.topological_sort()] == ["look", "is_due", "approve", "expire"]
    look, is_due, approve, expire = (dag.get_task(name) for name in ("look", "is_due", "approve", "expire"))
    assert (look.only_plan, expire.only_plan) == (True, False)
    assert (look.table, look.column, look.kept_for) == (expire.table, expire.column, expire.kept_for)
    assert expire.upstream_task_ids == {"approve"}
    # Nobody's answer is none, and only a success lets the next task run.
    assert (approve.defaults, expire.trigger_rule) == (["Reject"], "all_success")
    asked = [is_due.python_callable({"outcome": outcome}) for outcome in ("planned", "nothing-new")]
    assert asked == [True, False]


@pytest.mark.parametrize(
    "dag_id", ["expire_rows_after_approval", "maintain_one_table", "nightly_maintenance", "roll_back_one_table"]
)
def test_no_form_takes_free_text(dags: dict[str, Any], dag_id: str) -> None:
    for name, param in _params(dags[dag_id]):
        schema = param.schema
        kind = schema.get("type", "string")
        kinds = {kind} if isinstance(kind, str) else set(kind)
        bounded = "enum" in schema or kinds <= {"boolean", "integer", "null"}
        whole = re.fullmatch(r"\^.+\$(\(\?!\\n\))?", schema.get("pattern", ""))
        assert bounded or whole, name


def _params(dag: Any) -> list[tuple[str, Any]]:
    return [(name, dag.params.get_param(name)) for name in dag.params]


SQL = ["shop.orders; DROP TABLE x", "a.b WHERE reflect('java.lang.System','getenv','HOME')", "a.b/*x*/", "a.`b`", "a"]


FORMS_OF_ONE_TABLE = ["maintain_one_table", "roll_back_one_table"]


@pytest.mark.parametrize("dag_id", FORMS_OF_ONE_TABLE)
@pytest.mark.parametrize("text", SQL)
def test_the_forms_table_is_a_name_as_the_package_understands_it(dags: dict[str, Any], text: str, dag_id: str) -> None:
    pattern = dags[dag_id].params.get_param("table").schema["pattern"]
    assert not re.search(pattern, text)
    for allowed in ("shop.orders", "shop.eu.orders", "mart.order_revenue"):
        assert re.search(pattern, allowed)
    with pytest.raises(InvalidSpecError):
        TableName.parse(text)


@pytest.mark.parametrize("table", ["staging.orders", "shop", "shopx.orders", "my.shop.orders", "shop.", "mart.a/b"])
def test_the_form_takes_tables_of_the_list_only(dags: dict[str, Any], table: str) -> None:
    for dag_id in FORMS_OF_ONE_TABLE:
        dag = dags[dag_id]
        assert not re.search(dag.params.get_param("table").schema["pattern"], table)
        jobs = [task for task in dag.tasks if hasattr(task, "allowed_tables")]
        assert jobs
        assert {task.allowed_tables for task in jobs} == {("shop.*", "mart.*")}


def test_no_form_removes_what_is_younger_than_a_day(dags: dict[str, Any]) -> None:
    dag = dags["maintain_one_table"]
    pattern = dag.params.get_param("older_than").schema["pattern"]
    for age in ("PT1S", "P0D", "P0DT1S", "PT23H", "P-1D", "1", "P1D\nx"):
        assert not re.search(pattern, age), age
    assert re.search(pattern, "P1D")
    arguments = [getattr(task, "partial_kwargs", vars(task)) for task in dag.tasks]
    ages = {given["minimum_age"] for given in arguments if "older_than" in given}
    assert ages == {timedelta(days=1)}


def test_the_forms_choices_are_those_of_the_package(dags: dict[str, Any]) -> None:
    params = dags["maintain_one_table"].params
    assert params.get_param("level").schema["enum"] == [level.value for level in CompactionLevel]
    assert set(params.get_param("strategy").schema["enum"]) <= {strategy.value for strategy in CompactionStrategy}


def test_no_dag_hands_a_form_to_sql(dags: dict[str, Any]) -> None:
    for dag in dags.values():
        for task in dag.tasks:
            texts = [getattr(task, name, None) for name in ("where", "query", "delete_when", "audits")]
            # A source is a text or an object, of which only a Query has SQL.
            texts.append(getattr(getattr(task, "source", None), "query", None))
            assert "{{" not in str(texts), task.task_id
