"""A DAG that does nothing but start: what is measured is when it was asked to."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_lake_provider.assets.lake_table import lake_table_asset

with DAG(
    "on_bench_snapshot",
    schedule=[lake_table_asset("bench.lag", watch=True)],
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    is_paused_upon_creation=False,
):
    EmptyOperator(task_id="started")
