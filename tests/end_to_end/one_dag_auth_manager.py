"""An auth manager of Airflow's own kind whose viewers may read one DAG only."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

READABLE = "nightly"


class OneDagAuthManager(SimpleAuthManager):
    """The simple auth manager, but for DAGs that viewers may not read."""

    def is_authorized_dag(self, *, user: Any, details: Any = None, **asked: Any) -> bool:
        """Answer for a DAG; without one, as the simple auth manager does."""
        if user.role == "viewer" and details is not None and details.id not in (None, READABLE):
            return False
        return super().is_authorized_dag(user=user, details=details, **asked)
