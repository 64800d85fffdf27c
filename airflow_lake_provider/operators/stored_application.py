"""The application that Airflow keeps for the retry of a task: under which keys, and when to forget it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_lake_provider.operators.task_run import TaskRun

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk import Context

    Base = SparkSubmitOperator
else:
    Base = object

# Attributes of an operator with the keys under which Airflow keeps its application for a retry. A state without its
# application would be taken for that of the next one, so it is forgotten first.
_KEYS = ("_K8S_DRIVER_STATUS_KEY", "external_id_key")


class StoredApplication(Base):
    """Part of an operator whose retry may reconnect to the application of the try before it."""

    # True when its driver has nothing left to do. Who could not wait for its end does not know whether it runs.
    _is_over = False

    def name_keys(self, context: Context) -> None:
        """Give each clearing keys of its own: a cleared task is not reconnected to the application it had before."""
        tries = TaskRun(context, self.retries or 0).tries_of_application
        for name in _KEYS:
            setattr(self, name, f"{getattr(type(self), name)} {tries}")

    def may_follow(self, context: Context) -> bool:
        """Tell whether an application of an earlier try may run, or has left reports that nobody has read.

        What the metadata says of its tables is of a moment amid its work, or without what it has to tell.
        """
        self.name_keys(context)
        store = context.get("task_state_store")
        # Asked in a first try, too: what the author has lowered the retries to may hide that this is none.
        if store is None or not self.durable or context["ti"].try_number <= 1:
            return False
        try:
            application = store.get(self.external_id_key)
            if not application:
                return False
            status = str(super().get_job_status(application, context))
            return bool(self.is_job_active(status) or self.is_job_succeeded(status))
        # The official operator asks again, and says what is wrong.
        except Exception:  # noqa: BLE001
            return True
        finally:
            # The one that submits has arguments of its own.
            self._hook = None

    def leave_application(self, context: Context) -> None:
        """Let the retry submit an application of its own, unless this one may still run.

        Airflow would take the result of one that has ended.
        """
        store = context.get("task_state_store") if self._is_over else None
        # Where that fails, the retry finds the reports that are there, and asks the tables for the others.
        with suppress(Exception):
            for key in (getattr(self, name) for name in _KEYS):
                # The official operator takes an empty text for a state that it has noted.
                if store is not None and store.get(key) is not None:
                    store.delete(key)
