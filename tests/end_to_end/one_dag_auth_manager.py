"""An auth manager of Airflow's own kind whose viewers may read one DAG only, and no plugins, as by FAB's roles."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

READABLE = "nightly"


class OneDagAuthManager(SimpleAuthManager):
    """The simple auth manager, but for DAGs and plugins that viewers may not read."""

    def is_authorized_dag(self, *, user: Any, details: Any = None, **asked: Any) -> bool:
        """Answer for a DAG; without one, as the simple auth manager does."""
        if user.role == "viewer" and details is not None and details.id not in (None, READABLE):
            return False
        return super().is_authorized_dag(user=user, details=details, **asked)

    def is_authorized_view(self, *, access_view: AccessView, user: Any) -> bool:
        """Answer for a view; viewers have all but that of plugins."""
        if user.role == "viewer" and access_view is AccessView.PLUGINS:
            return False
        return super().is_authorized_view(access_view=access_view, user=user)
