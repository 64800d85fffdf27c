"""Operators of this package do not meet what ``default_args`` of a DAG say to those of other packages."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

import airflow_lake_provider
from airflow_lake_provider.contracts.author.dead_letter import RepairedLetters
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.dead_letter_replay import LakeDeadLetterReplayOperator
from airflow_lake_provider.operators.lake_application import LakeApplicationOperator, lake_application
from airflow_lake_provider.operators.lake_maintenance import lake_maintenance
from airflow_lake_provider.sensors.lake_snapshot import LakeSnapshotSensor
from tests.unit.operators.submitted import COMPACT

PACKAGE = Path(airflow_lake_provider.__file__).parent
MODULES = [path for folder in ("operators", "sensors") for path in (PACKAGE / folder).glob("*.py")]
OF_OTHERS = {
    # Of SparkSubmitOperator, and of operators for Dataproc.
    "application": "/opt/jobs/report.py",
    "application_args": ["--day", "{{ ds }}"],
    "job": {"placement": {}},
    "operator": "equal",
    "arguments": ["--day"],
    "spark_arguments": {},
}


def classes() -> set[type[BaseOperator]]:
    modules = [import_module(f"{PACKAGE.name}.{path.parent.name}.{path.stem}") for path in MODULES]
    named = {each for module in modules for each in vars(module).values() if inspect.isclass(each)}
    return {each for each in named if issubclass(each, BaseOperator) and each.__module__.startswith(PACKAGE.name)}


def test_arguments_of_operators_of_other_packages_are_not_met() -> None:
    with DAG("d", schedule=None, default_args={**OF_OTHERS, "retries": 3}):
        compaction: Any = LakeCompactionOperator(task_id="compact", table="shop.orders")
        application: Any = LakeApplicationOperator(task_id="several", tasks=[COMPACT])
        mapped: Any = LakeCompactionOperator.partial(task_id="mapped").expand(table=["shop.orders"])
        sensor = LakeSnapshotSensor(task_id="wait", table="shop.orders")
        lake_application("group", tasks=[COMPACT])
        lake_maintenance("nightly")
    made = (compaction, application, mapped.unmap({"table": "shop.orders"}), sensor)
    assert [task.retries for task in made] == [3, 3, 3, 3]


def test_the_name_of_an_application_in_default_args_is_that_of_spark_alone() -> None:
    with DAG("d", schedule=None, default_args={"name": "nightly"}):
        compaction = LakeCompactionOperator(task_id="compact", table="shop.orders")
        mapped = LakeCompactionOperator.partial(task_id="mapped").expand(table=["shop.orders"])
        application = LakeApplicationOperator(task_id="several", tasks=[COMPACT])
        named = LakeCompactionOperator(task_id="named", table="shop.orders", name="mine")
        replay = LakeDeadLetterReplayOperator(task_id="replay", target="shop.orders")
    made: list[Any] = [compaction, mapped.unmap({"table": "shop.orders"}), application, named, replay]
    assert [task.name for task in made] == ["nightly", "nightly", "nightly", "mine", "nightly"]
    # Under another name the table would have applied none of its letters.
    assert replay.tasks[0].source == RepairedLetters("lake_ops.dead_letters", name="lake_ops.dead_letters")


@pytest.mark.parametrize("operator", sorted(classes(), key=str))
def test_an_operator_hands_arguments_on_by_a_name_that_default_args_do_not_have(operator: type[BaseOperator]) -> None:
    # Airflow fills it as it does a named argument.
    parameters = inspect.signature(vars(operator).get("__init__", lambda: None)).parameters.values()
    handed_on = [each.name for each in parameters if each.kind is each.VAR_KEYWORD]
    assert all(name.startswith("of_") for name in handed_on)
