"""Bring the revenue table up to date whenever the orders changed.

A commit to ``shop.orders`` starts a run. The run reads exactly the rows that changed since the revenue table last read
them, and commits rows and position together, so neither a retry nor a second event counts an order twice.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_lake_provider.assets.lake_table import lake_table_asset
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.sensors.lake_snapshot import LakeSnapshotSensor

with DAG(
    dag_id="on_new_orders_snapshot",
    schedule=[lake_table_asset("shop.orders", watch=True)],
    # Two runs at once would race for the same range of changes.
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["lake", "shop"],
    doc_md=__doc__,
):
    new_snapshot = LakeSnapshotSensor(
        task_id="new_snapshot",
        table="shop.orders",
        consumer="revenue",
        # Events of one asset may have been joined into an earlier run, which then has read everything.
        timeout=60,
        poke_interval=5,
        soft_fail=True,
    )
    # [START revenue]
    revenue = LakeIncrementalOperator(
        task_id="revenue",
        source="shop.orders",
        target="mart.order_revenue",
        consumer="revenue",
        keys=["order_id"],
        query="""
            SELECT order_id, customer_id, status, to_date(placed_at) AS placed_on,
                   CASE WHEN status = 'cancelled' THEN 0.00BD ELSE total END AS revenue, _change_type
            FROM changes
        """,
        outlets=[lake_table_asset("mart.order_revenue")],
    )
    # [END revenue]
    new_snapshot >> revenue
