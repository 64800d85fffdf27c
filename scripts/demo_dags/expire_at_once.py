"""Expire all snapshots but the newest, whatever their age: those of the demo are minutes old.

A night of a real lake keeps days of them, see dags/nightly_maintenance.py. What readers and tags need stays here, too.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator

TABLES = [
    *("shop.products", "shop.orders", "shop.order_items", "shop.order_events"),
    *("mart.order_revenue", "mart.order_history", "mart.revenue_by_day"),
]

with DAG(dag_id="expire_at_once", schedule=None, max_active_tasks=1, doc_md=__doc__):
    LakeSnapshotExpiryOperator.partial(
        task_id="expire",
        older_than=timedelta(seconds=1),
        minimum_age=timedelta(0),
        retain_last=1,
    ).expand(table=TABLES)
