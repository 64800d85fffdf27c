"""Identity of a run: two runs that are one to a table, and the tries that are retries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.run_key import RunIdentity

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

    Base = BaseOperator
else:
    Base = object


class IdentifiedRun(Base):
    """Part of an operator that knows who runs."""

    def run_identity(
        self, context: Context, batch: tuple[str, ...] = (), *, cleared_is_new: bool = False
    ) -> RunIdentity:
        """Return who runs: dag, run, task and map index, or the author's batch.

        :param batch: what names the batch, in place of the task.
        :param cleared_is_new: each run, and each clearing of its task, is somebody else; Airflow's retries are not.
        """
        instance = context["ti"]
        task = (instance.dag_id, instance.run_id, instance.task_id, str(instance.map_index))
        who = (*batch, *task, clearing(context)) if cleared_is_new else batch or task
        tries = self._tries_since_clearing(context) if cleared_is_new else instance.try_number
        return RunIdentity.of(*who, try_number=tries, run_after=None if batch else context["dag_run"].run_after)

    def is_retry(self, context: Context) -> bool:
        """Tell whether an earlier try of the same clearing failed; the first try after a clearing is none."""
        return self._tries_since_clearing(context) > 1

    def _tries_since_clearing(self, context: Context) -> int:
        instance = context["ti"]
        # As TaskInstance counts: clearing sets max_tries to the tries so far and as many retries again.
        first_try = instance.max_tries - (self.retries or 0) + 1
        return int(instance.try_number - max(1, first_try) + 1)


def clearing(context: Context) -> str:
    """Return a text that a clearing of the task changes and a retry does not: max_tries only grows by clearing."""
    return f"up to try {context['ti'].max_tries}"
