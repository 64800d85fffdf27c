"""The run that operator tests are in: the second try of one task."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity

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
