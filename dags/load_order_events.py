"""Keep every event of the shop's orders, the history of their status, and the revenue of each day.

Three loads beside the upserts of ``ingest_orders``: rows that are added once, versions that begin and end, and a
DataFrame of one's own that is the whole of its table.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import DAG

from airflow_lake_provider import Files, History, LakeTable, PySparkFunction, Query, SchemaContract, TableLayout
from airflow_lake_provider.operators.append import LakeAppendOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

INBOX = "{{ var.value.get('shop_inbox', 'inbox/shop') }}/*.jsonl.gz"
ROW = "STRUCT<order_id STRING, status STRING>"
SCHEMA = f"value STRUCT<op STRING, before {ROW}, after {ROW}, source STRUCT<table STRING, lsn BIGINT, ts_ms BIGINT>>"
EVENTS = """
SELECT coalesce(value.after.order_id, value.before.order_id) AS order_id, value.after.status AS status,
       value.op AS op, value.source.lsn AS lsn, timestamp_millis(value.source.ts_ms) AS changed_at
FROM source WHERE value.source.table = 'orders'
"""

with DAG(
    dag_id="load_order_events",
    schedule=timedelta(hours=1),
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["lake", "shop"],
    doc_md=__doc__,
):
    events = LakeAppendOperator(
        task_id="events",
        table="shop.order_events",
        source=Query(EVENTS, Files(INBOX, schema=SCHEMA)),
        create=TableLayout(partition_by=["days(changed_at)"]),
    )
    history = LakeUpsertOperator(
        task_id="history",
        table="mart.order_history",
        source=Query(EVENTS, Files(INBOX, schema=SCHEMA)),
        keys=["order_id"],
        order_by=["changed_at", "lsn"],
        delete_when="op = 'd'",
        schema_contract=SchemaContract(exclude_columns=["op"]),
        merge_engine=History(track=["status"]),
    )
    revenue = LakeUpsertOperator(
        task_id="revenue",
        table="mart.revenue_by_day",
        source=PySparkFunction(
            "shop_functions.revenue:revenue_by_day",
            over={"orders": LakeTable("shop.orders")},
            params={"left_out": "cancelled"},
        ),
        keys=["day"],
        complete=True,
    )
    # One after the other: on a small machine three drivers at once would only wait for each other.
    events >> history >> revenue
