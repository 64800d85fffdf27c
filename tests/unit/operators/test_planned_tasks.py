"""Tasks of a plan, given to the operator that carries them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table import Table

from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChangeSpec
from airflow_lake_provider.operators.lake_application import LakeApplicationOperator
from airflow_lake_provider.operators.table_task import answer_without_spark
from tests.unit.maintenance.plans_of_numbers import WELL, plan
from tests.unit.maintenance.test_planner import DUE

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("spark_connection", "job_directory", "lake_connection")

TAGS = {"daily": 7, "weekly": 4, "monthly": 12}


def application(tasks: list[dict[str, Any]]) -> LakeApplicationOperator:
    return LakeApplicationOperator(task_id="t", tasks=tasks)


@pytest.mark.parametrize("case", DUE, ids=lambda case: case[0])
def test_the_application_takes_the_tasks_of_every_plan(
    case: tuple[str, Any, Any, Any], context: Context, request: pytest.FixtureRequest
) -> None:
    tasks = plan(replace(WELL, **case[1]), **case[2]).tasks
    if any(task["action"] == "remove-orphans" for task in tasks):
        # Its folders are compared with those of other tables at once.
        request.getfixturevalue("orders")
    assert [task.error for task in application([*tasks]).table_tasks(context)] == [None] * len(tasks)


def test_tags_of_three_kinds_are_made_by_one_run(orders: Table, append: Callable[..., int], context: Context) -> None:
    head = append(orders, 1)
    made = plan(replace(WELL, table="shop.orders"), tags=TAGS)
    reports = application([*made.tasks]).execute(context)
    assert [report["outcome"] for report in reports] == ["done"] * 3
    tags = {name: ref.snapshot_id for name, ref in orders.refresh().refs().items() if name != "main"}
    assert tags == dict.fromkeys(("daily-2026-11-26", "weekly-2026-W48", "monthly-2026-11"), head)


def test_tags_that_the_worker_cannot_commit_are_each_planned_and_sent(
    orders: Table, append: Callable[..., int], context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(orders, 1)
    monkeypatch.setattr("airflow_lake_provider.hooks.lake_catalog.LakeCatalogHook.commit_metadata", lambda *_: False)
    tasks = application([*plan(WELL, tags=TAGS).tasks]).table_tasks(context)
    answer_without_spark(tasks)
    assert [task.error for task in tasks] == [None] * 3
    sent = [task.sent for task in tasks]
    assert all(isinstance(each, MetadataChangeSpec) for each in sent)
    assert {name: at for each in sent for name, at in each.change.expected_refs.items()} == dict.fromkeys(  # type: ignore[attr-defined]
        ("daily-2026-11-26", "weekly-2026-W48", "monthly-2026-11")
    )


def test_a_tag_of_one_name_is_made_once(context: Context) -> None:
    tag = {"action": "create-tag", "table": "shop.orders", "tag": "a"}
    first, second = application([tag, tag]).table_tasks(context)
    assert first.error is None
    assert "cannot stand behind another task of its table" in str(second.error)
