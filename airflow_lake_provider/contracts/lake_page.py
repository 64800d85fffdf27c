"""Addresses of the lake page, which tasks link and the api-server serves."""

# Below the path of ``[api] base_url``.
from __future__ import annotations

PAGE = "/lake"
# Of the page within Airflow's UI: ``/plugin/lake``.
URL_ROUTE = "lake"
