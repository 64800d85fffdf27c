"""Addresses of the lake page, which tasks link and the api-server serves."""

from __future__ import annotations

# Below the path of ``[api] base_url``.
PAGE = "/lake"
# Of the page within Airflow's UI: ``/plugin/lake``.
URL_ROUTE = "lake"
