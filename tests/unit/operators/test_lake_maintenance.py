"""The jobs of a plan, and the group that an author writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest
from airflow.sdk import DAG
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.errors import (
    CatalogUnavailableError,
    InvalidSpecError,
    MissingTableError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reports.job import CompactionReport, Outcome
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.contracts.specs.spec_codec import Job
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.maintenance.costs import SHORT_JOB, SHORT_JOB_BYTES
from airflow_lake_provider.operators.lake_maintenance import (
    LakeMaintenanceOperator,
    lake_maintenance,
)
from airflow_lake_provider.operators.maintenance_plan import LakeMaintenancePlanOperator
from airflow_lake_provider.tables.base import ListedTable
from tests.unit.operators.test_application_outcomes import driver, last_try

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["driver", "last_try"]
pytestmark = pytest.mark.usefixtures("spark_connection", "job_directory", "lake_connection")

COMPACT = {"action": "compaction", "table": "shop.orders", "level": "full"}
JOB = {"name": "maintenance of shop.orders", "tasks": [COMPACT], "expected": [{"level": "full"}]}
DONE = {"action": "compaction", "table": "shop.orders", "outcome": "done"}


def named(table: str) -> dict[str, Any]:
    return {**COMPACT, "table": table}


def test_a_report_has_the_outcomes_of_maintenance(
    orders: Table,
    lake_catalog: SqlCatalog,
    append: Callable[..., int],
    context: Context,
    driver: Callable[..., list[Job]],
) -> None:
    others = lake_catalog.create_table("shop.others", orders.schema())
    for number in range(16):
        append((orders, others)[number % 2], number)
    done = CompactionReport(table="shop.orders", outcome=Outcome.DONE, reason="")
    refused = JobFailure.of(UnsupportedError("encrypted"))
    driver(**{"compaction shop.orders": done, "compaction shop.others": refused})
    job = LakeMaintenanceOperator(task_id="t", tasks=[COMPACT, named("shop.others")], expected=[{}, {}])
    assert [report["outcome"] for report in job.execute(context)] == ["done", "unsupported"]


@pytest.mark.parametrize("is_listed", [False, True])
@pytest.mark.parametrize("is_seen_by", ["worker", "driver"])
def test_a_table_that_was_dropped_since_the_plan_is_no_failure_and_keeps_no_other_waiting_for_a_retry(
    orders: Table,
    lake_catalog: SqlCatalog,
    append: Callable[..., int],
    context: Context,
    driver: Callable[..., list[Job]],
    monkeypatch: pytest.MonkeyPatch,
    is_seen_by: str,
    is_listed: bool,
) -> None:
    others = lake_catalog.create_table("shop.others", orders.schema())
    for number in range(16):
        append((orders, others)[number % 2], number)
    done = CompactionReport(table="shop.orders", outcome=Outcome.DONE, reason="")
    gone = JobFailure.of(MissingTableError("shop.others"))
    driver(**{"compaction shop.orders": done, "compaction shop.others": gone})
    if is_seen_by == "worker":
        lake_catalog.drop_table("shop.others")
    listed = [ListedTable(("shop", "others"))] if is_listed else []
    monkeypatch.setattr(LakeCatalogHook, "list_tables", lambda *_: listed)
    context["ti"].max_tries = 1 if not is_listed else 0
    job = LakeMaintenanceOperator(task_id="t", tasks=[COMPACT, named("shop.others")], expected=[{}, {}])
    assert [report["outcome"] for report in job.execute(context)] == ["done", "failed" if is_listed else "nothing-due"]


def test_a_catalog_that_does_not_answer_whether_a_table_was_dropped_hides_no_report(
    orders: Table,
    append: Callable[..., int],
    context: Context,
    driver: Callable[..., list[Job]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_away(*_: object) -> NoReturn:
        raise CatalogUnavailableError("lake")

    for number in range(8):
        append(orders, number)
    driver(**{"compaction shop.orders": CompactionReport(table="shop.orders", outcome=Outcome.DONE, reason="")})
    monkeypatch.setattr(LakeCatalogHook, "list_tables", is_away)
    job = LakeMaintenanceOperator(task_id="t", tasks=[COMPACT, named("shop.others")], expected=[{}, {}])
    assert [report["outcome"] for report in job.execute(context)] == ["done", "failed"]


@pytest.mark.parametrize(
    ("costs", "is_short"),
    [
        ([(SHORT_JOB, SHORT_JOB_BYTES)], True),
        ([(SHORT_JOB / 2, SHORT_JOB_BYTES / 2)] * 2, True),
        ([(SHORT_JOB, 0), (0.1, 0)], False),
        ([(1.0, SHORT_JOB_BYTES), (1.0, 1)], False),
        ([(1.0, 0), ()], False),
        ([], False),
    ],
)
def test_a_job_is_short_where_the_plan_expects_little_of_all_its_tasks(
    costs: list[tuple[float, ...]], is_short: bool
) -> None:
    expected = [dict(zip(("core_seconds", "bytes_rewritten"), each, strict=False)) for each in costs]
    assert LakeMaintenanceOperator(task_id="t", tasks=[COMPACT], expected=expected).is_short is is_short


@pytest.mark.parametrize(("number", "order"), [(1, "abc"), (2, "cba"), (3, "abc")])
def test_a_table_that_ends_each_driver_keeps_no_other_from_being_maintained(
    context: Context, number: int, order: str
) -> None:
    context["ti"].try_number, context["ti"].max_tries = number, 3
    tasks = [named(f"shop.{name}") for name in "abc"]
    expiry = {"action": "snapshot-expiry", "table": "shop.b"}
    made = LakeMaintenanceOperator(task_id="t", tasks=[*tasks[:1], expiry, *tasks[1:]]).table_tasks(context)
    assert list(dict.fromkeys(task.table for task in made)) == [f"shop.{name}" for name in order]
    # Those of one table stay in the order of the plan.
    assert [task.key for task in made if task.table == "shop.b"] == ["snapshot-expiry shop.b", "compaction shop.b"]


def group(**arguments: Any) -> tuple[Any, Any, Any]:
    with DAG("d", schedule=None, default_args={"pool": "spark"}) as dag:
        lake_maintenance("nightly", **arguments)
    plan, run, verdict = (dag.get_task(f"nightly.{name}") for name in ("plan", "run", "verdict"))
    return plan, run, verdict


def test_a_group_has_plan_jobs_and_verdict_and_gives_each_its_arguments() -> None:
    plan, run, verdict = group(
        tables=["shop.*"], lake_conn_id="lake", policy={"paused": True}, parallelism=2, retries=3, fail_on=["conflict"]
    )
    assert isinstance(plan, LakeMaintenancePlanOperator)
    assert (plan.tables, plan.lake_conn_id, plan.policy) == (["shop.*"], "lake", {"paused": True})
    assert run.partial_kwargs.items() >= {"lake_conn_id": "lake", "parallelism": 2, "retries": 3}.items()
    # Tables whose policy names another pool than that of the jobs are left out.
    assert (plan.run_pool, run.pool) == ("spark", "spark")
    assert (verdict.upstream_task_ids, verdict.fail_on) == ({"nightly.plan", "nightly.run"}, ("conflict",))
    # It tells of applications that were lost, and is red where only the plan saw something broken.
    assert verdict.trigger_rule == "all_done"
    mapped = run.unmap(JOB)
    assert (mapped.name, mapped.place(), mapped.expected) == (JOB["name"], "shop.orders", [{"level": "full"}])


def test_the_group_takes_no_argument_that_no_operator_has() -> None:
    with pytest.raises(TypeError, match="tabels"):
        group(tabels=["shop.*"])


def test_who_is_told_of_failures_is_told_by_each_task_of_the_group() -> None:
    def tell(context: Any) -> None:
        """Stand in for a notifier."""

    given: dict[str, Any] = {"on_failure_callback": tell, "owner": "shop"}
    with DAG("d", schedule=None) as dag:
        lake_maintenance("lake", pool="spark", **given)
        lake_maintenance("other", default_args=given)
    for group in ("lake", "other"):
        for name in ("plan", "run", "verdict"):
            task: Any = dag.get_task(f"{group}.{name}")
            assert list(task.on_failure_callback) == [tell], (group, name)
            assert task.owner == "shop", (group, name)
    assert dag.get_task("lake.verdict").pool != "spark"


def test_a_task_id_is_refused_by_its_name() -> None:
    with DAG("d", schedule=None), pytest.raises(InvalidSpecError, match="leave out task_id: the tasks are 'lake"):
        lake_maintenance("lake", task_id="mine")


def test_default_args_of_the_group_that_are_for_spark_are_not_those_of_plan_and_verdict() -> None:
    of_spark = {"pool": "spark", "retries": 3, "trigger_rule": "one_failed"}
    with DAG("d", schedule=None, default_args={"retries": 1}) as dag:
        lake_maintenance("lake", default_args={**of_spark, "owner": "shop", "lake_conn_id": "other", "tables": "a.*"})
    plan, run, verdict = (cast("Any", dag.get_task(f"lake.{name}")) for name in ("plan", "run", "verdict"))
    assert (run.pool, run.retries, run.trigger_rule) == ("spark", 3, "one_failed")
    assert (plan.pool, plan.retries, plan.trigger_rule) == ("default_pool", 1, "all_success")
    assert (verdict.pool, verdict.retries, verdict.trigger_rule) == ("default_pool", 1, "all_done")
    # Tables of another pool are left out by the one of the jobs.
    assert (plan.run_pool, plan.tables, plan.owner) == ("spark", "a.*", "shop")
    assert (plan.lake_conn_id, run.unmap(JOB).lake_conn_id, verdict.lake_conn_id) == ("other", "other", "other")


def test_the_queue_and_the_executor_of_the_group_are_those_of_each_task() -> None:
    with DAG("d", schedule=None) as dag:
        lake_maintenance("lake", queue="spark", executor="LocalExecutor")
    for name in ("plan", "run", "verdict"):
        task: Any = dag.get_task(f"lake.{name}")
        assert (task.queue, task.executor) == ("spark", "LocalExecutor"), name


@pytest.mark.parametrize("where", ["argument", "default_args", "DAG"])
def test_a_group_without_xcom_is_refused_as_its_tasks_hand_on_by_it(where: str) -> None:
    of_dag: dict[str, Any] = {"do_xcom_push": False} if where == "DAG" else {}
    arguments: dict[str, Any] = {"do_xcom_push": False} if where == "argument" else {}
    if where == "default_args":
        arguments = {"default_args": {"do_xcom_push": False}}
    words = "do_xcom_push must be true: lake.run takes the XCom of lake.plan, and lake.verdict that of both"
    with DAG("d", schedule=None, default_args=of_dag), pytest.raises(InvalidSpecError, match=words):
        lake_maintenance("lake", **arguments)
