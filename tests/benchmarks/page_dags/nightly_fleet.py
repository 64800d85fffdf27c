"""Maintain a thousand tables, a few of those that are due."""

from __future__ import annotations

import os

from airflow.sdk import DAG

from airflow_lake_provider.operators.lake_maintenance import lake_maintenance

with DAG("nightly_fleet", schedule=None):
    lake_maintenance("fleet", tables=["fleet.*"], max_tables=int(os.environ["LAKE_PAGE_MAINTAINED"]))
