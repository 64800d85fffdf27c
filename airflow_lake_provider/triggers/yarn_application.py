"""A trigger that waits for the end of a YARN application, for a deferred task that submitted it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

if TYPE_CHECKING:
    from airflow_lake_provider.hooks.lake_spark_submit import LakeSparkSubmitHook

# As many as the official operator takes; then the task looks itself, and says what is wrong.
_MAX_FAILURES = 10
# As of the official operator, so that many tasks do not flood the resource manager.
_LEAST_SECONDS = 10.0


class YarnApplicationTrigger(BaseTrigger):
    """Wait until a YARN application has ended, its time is over, or nobody can tell.

    Its event is ``{"job": ..., "overdue": bool}``. The task asks YARN itself how the application ended.

    :param application_id: such as ``application_1764000000000_0001``.
    :param spark_conn_id: Spark connection, whose extra has the address of the resource manager.
    :param poll_interval: seconds between two questions, at least 10.
    :param deadline: seconds since 1970 after which the task is resumed all the same.
    :param hook_arguments: of SparkSubmitHook, beside those that follow from the others.
    :param job: given back in the event.
    """

    def __init__(
        self,
        *,
        application_id: str,
        spark_conn_id: str,
        poll_interval: float = _LEAST_SECONDS,
        deadline: float | None = None,
        hook_arguments: Mapping[str, Any] | None = None,
        job: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's has no annotations
        self.application_id = application_id
        self.spark_conn_id = spark_conn_id
        self.poll_interval = poll_interval
        self.deadline = deadline
        self.hook_arguments = dict(hook_arguments or {})
        self.job = dict(job or {})
        self._hook: LakeSparkSubmitHook | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments."""
        names = ("application_id", "spark_conn_id", "poll_interval", "deadline", "hook_arguments", "job")
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncGenerator[TriggerEvent, None]:
        """Yield one event."""
        overdue = await self._wait()
        yield TriggerEvent({"job": self.job, "overdue": overdue})  # type: ignore[no-untyped-call]  # as above

    async def _wait(self) -> bool:
        """Wait for a reason to resume the task; True where that is the time."""
        failures = 0
        while failures <= _MAX_FAILURES:
            try:
                has_ended = await asyncio.to_thread(self._has_ended)
            # Whatever it is, the task meets it as well, and fails with it.
            except Exception as error:  # noqa: BLE001
                failures += 1
                self.log.warning("YARN application %s cannot be looked at: %s", self.application_id, error)
            else:
                failures = 0
                if has_ended:
                    return False
            if self.deadline is not None and time.time() > self.deadline:
                return True
            await asyncio.sleep(max(_LEAST_SECONDS, self.poll_interval))
        return False

    async def on_kill(self) -> None:
        """End the application of a task that a user failed or cleared, and remove its secrets.

        Airflow also calls it where another triggerer has taken the trigger over. It does so after a minute in which
        this one did not reach the database. The task waits on there, and so does its application.
        """
        if await asyncio.to_thread(self._is_waited_for):
            self.log.info("Another triggerer waits for YARN application %s", self.application_id)
        else:
            await asyncio.to_thread(self._kill)

    def _has_ended(self) -> bool:
        from airflow_lake_provider.hooks.lake_spark_submit import ENDED

        self._hook = self._hook or self._new_hook()
        try:
            return self._hook.query_yarn_application_status(self.application_id) in ENDED
        except Exception:
            # The next look reads the connection anew.
            self._hook = None
            raise

    def _is_waited_for(self) -> bool:
        """Tell whether the task is deferred, which one that a user failed or cleared is not."""
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        task = self.task_instance
        if task is None:
            return False
        states = RuntimeTaskInstance.get_task_states(
            dag_id=task.dag_id, map_index=task.map_index, task_ids=[task.task_id], run_ids=[task.run_id]
        )
        return "deferred" in states.get(task.run_id, {}).values()

    def _kill(self) -> None:
        self._new_hook().on_kill()

    def _new_hook(self) -> LakeSparkSubmitHook:
        # A DAG file that only names an operator never asks YARN.
        from airflow_lake_provider.hooks.lake_spark_submit import LakeSparkSubmitHook

        staged_in = str(self.job.get("staged_in", ""))
        return LakeSparkSubmitHook.of_application(
            self.application_id, self.spark_conn_id, self.hook_arguments, staged_in
        )
