"""LakePagePlugin: the lake page in Airflow's navigation.

Every process of Airflow's imports this file, so it imports nothing heavy. The app is made where it is asked for, which
only the api-server does.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin

from airflow_lake_provider.contracts.lake_page import PAGE, URL_ROUTE
from airflow_lake_provider.plugins.lake_page.addresses import root_path


class LakePagePlugin(AirflowPlugin):
    """Plugin with the page, by the entry point ``airflow.plugins``."""

    name = "lake"

    def __init__(self) -> None:
        page = f"{root_path()}{PAGE}/"
        self.external_views = [
            {
                "name": "Lake",
                "href": page,
                "icon": f"{page}static/lake.svg",
                "destination": "nav",
                "category": "browse",
                "url_route": URL_ROUTE,
            }
        ]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]  # made when it is asked for
        """The app, as the api-server mounts it."""
        from airflow_lake_provider.plugins.lake_page.routes import make_app

        return [{"name": "lake", "app": make_app(), "url_prefix": PAGE}]
