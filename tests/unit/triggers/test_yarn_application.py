"""A trigger on a YARN application, against an HTTP server that answers as a resource manager does."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.api.datamodels._generated import TaskInstance
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import GetTaskStates, TaskStatesResult

from airflow_lake_provider.triggers import yarn_application
from airflow_lake_provider.triggers.yarn_application import YarnApplicationTrigger
from tests.unit.resource_manager import ResourceManager, resource_manager

APPLICATION = "application_1764000000000_0001"
KILL = f"/ws/v1/cluster/apps/{APPLICATION}/state"
JOB = {"report_path": "file:///r/a.json", "known_run_keys": ["00"], "started": 1.0, "application_id": APPLICATION}


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[ResourceManager]:
    """A resource manager that the Spark connection ``spark_default`` names."""
    with resource_manager(("FINISHED", "SUCCEEDED")) as found:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", found.connection)
        monkeypatch.setattr(yarn_application, "_LEAST_SECONDS", 0.01)
        yield found


def trigger(**arguments: Any) -> YarnApplicationTrigger:
    given = {"application_id": APPLICATION, "spark_conn_id": "spark_default", "poll_interval": 0.01, "job": JOB}
    return YarnApplicationTrigger(**{**given, **arguments})


async def event_of(waiting: YarnApplicationTrigger) -> Any:
    async with asyncio.timeout(60):
        return (await anext(waiting.run())).payload


@pytest.mark.parametrize("end", [("FINISHED", "SUCCEEDED"), ("FINISHED", "FAILED"), ("KILLED", "KILLED")])
async def test_the_task_resumes_when_its_application_has_ended_however_it_did(
    manager: ResourceManager, end: tuple[str, str]
) -> None:
    manager.answers = [("ACCEPTED", "UNDEFINED"), ("RUNNING", "UNDEFINED"), end]
    assert await event_of(trigger()) == {"job": JOB, "overdue": False}
    assert manager.requests == [f"/ws/v1/cluster/apps/{APPLICATION}"] * 3


async def test_the_task_resumes_when_yarn_has_forgotten_its_application(manager: ResourceManager) -> None:
    manager.answers = [("RUNNING", "UNDEFINED"), 404]
    assert await event_of(trigger()) == {"job": JOB, "overdue": False}
    assert len(manager.requests) == 2


async def test_a_manager_that_fails_for_a_while_ends_no_waiting(manager: ResourceManager) -> None:
    manager.answers = [*[503] * 10, ("RUNNING", "UNDEFINED"), *[503] * 10, ("FINISHED", "SUCCEEDED")]
    assert (await event_of(trigger()))["overdue"] is False
    assert len(manager.requests) == 22


async def test_a_manager_that_fails_for_good_hands_the_application_back_to_the_task(manager: ResourceManager) -> None:
    manager.answers = [503]
    assert await event_of(trigger()) == {"job": JOB, "overdue": False}
    assert len(manager.requests) == 11


async def test_a_deadline_resumes_the_task_while_the_application_runs(manager: ResourceManager) -> None:
    manager.answers = [("RUNNING", "UNDEFINED")]
    assert await event_of(trigger(deadline=time.time() + 0.2)) == {"job": JOB, "overdue": True}


async def test_what_ended_before_the_deadline_was_noticed_is_not_overdue(manager: ResourceManager) -> None:
    assert await event_of(trigger(deadline=time.time() - 1)) == {"job": JOB, "overdue": False}
    assert len(manager.requests) == 1


class StatesOfTasks:
    """Airflow's process border, as far as a trigger asks it for the state of a mapped task."""

    def __init__(self, state: str | None) -> None:
        self.state = state

    def send(self, message: GetTaskStates) -> TaskStatesResult:
        assert (message.dag_id, message.task_ids, message.run_ids, message.map_index) == ("d", ["t"], ["r"], 3)
        return TaskStatesResult(task_states={"r": {"t_3": self.state}})


# Airflow cancels a trigger that another triggerer has taken over as it cancels that of a task which a user ends.
@pytest.mark.parametrize(
    ("state", "killed"), [("deferred", []), ("failed", [KILL]), ("success", [KILL]), (None, [KILL]), ("queued", [KILL])]
)
async def test_only_an_application_whose_task_does_not_wait_for_it_any_more_is_killed(
    state: str | None, killed: list[str], manager: ResourceManager, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("spark3-submit", "spark-class"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", StatesOfTasks(state), raising=False)
    waiting: Any = trigger(hook_arguments={"spark_binary": "spark3-submit"})
    waiting.task_instance = TaskInstance(
        id=uuid4(), task_id="t", dag_id="d", run_id="r", try_number=1, map_index=3, dag_version_id=uuid4()
    )
    await waiting.on_kill()
    assert manager.killed == killed


def test_a_trigger_is_the_same_after_it_was_stored() -> None:
    stored = trigger(deadline=2.0, hook_arguments={"keytab": "/k"}).serialize()
    assert stored[0] == "airflow_lake_provider.triggers.yarn_application.YarnApplicationTrigger"
    assert stored[1].keys() == inspect.signature(YarnApplicationTrigger).parameters.keys()
    again = YarnApplicationTrigger(**json.loads(json.dumps(stored[1])))
    assert again.serialize() == stored
