"""Addresses of the page and of Airflow's own pages, below the path of ``[api] base_url``.

Every process of Airflow's imports this with the plugin, so it imports nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode, urlsplit

from airflow.sdk.configuration import conf

from airflow_lake_provider.contracts.lake_page import PAGE

if TYPE_CHECKING:
    from airflow_lake_provider.plugins.lake_page.stored_entries import Place


def root_path() -> str:
    """Return the path of ``[api] base_url``, without a slash at its end."""
    base_url: str = conf.get("api", "base_url", fallback="")
    return urlsplit(base_url).path.rstrip("/")


def login_url(page: str) -> str:
    """Return the address of Airflow's login, which leads back to a page of ours.

    :param page: path and query of the page, below the path of ``[api] base_url``.
    """
    return f"{root_path()}/api/v2/auth/login?{urlencode({'next': page})}"


def run_url(place: Place, *, of_task: bool = False) -> str:
    """Return the address of a DAG run in Airflow's UI, or of the task instance in it."""
    run = f"{root_path()}/dags/{quote(place.dag_id, safe='')}/runs/{quote(place.run_id, safe='')}"
    mapped = f"/mapped/{place.map_index}" if place.map_index >= 0 else ""
    return f"{run}/tasks/{quote(place.task_id, safe='')}{mapped}" if of_task else run


def table_url(conn_id: str, table: str) -> str:
    """Return the address of a table's page.

    :param conn_id: connection of its catalog.
    :param table: whole name.
    """
    return f"{root_path()}{PAGE}/table?{urlencode({'conn': conn_id, 'table': table})}"
