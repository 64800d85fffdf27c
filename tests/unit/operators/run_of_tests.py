"""The run that operator tests are in: the second try of one task."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity

if TYPE_CHECKING:
    from airflow.sdk import Context

RUN_AFTER = datetime(2026, 1, 1, tzinfo=UTC)
RUN = RunIdentity.of("dag", "run", "task", "-1", try_number=2, run_after=RUN_AFTER)
# A Spark connection that is nowhere: whatever starts Spark fails.
NO_SPARK: dict[str, Any] = {"spark_conn_id": "nowhere"}


class StateStore(dict[str, Any]):
    """Airflow's store of a task's state, which knows no None."""

    def set(self, key: str, value: Any) -> None:
        assert value is not None
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)

    @classmethod
    def of(cls, context: Context, **notes: str) -> StateStore:
        """Return the store of a task, with notes of its earlier tries."""
        store = cls(notes)
        # It has what operators call, and no connection to Airflow's API.
        context["task_state_store"] = store  # type: ignore[typeddict-item]
        return store
