"""Upsert what the shop's change stream brought into three lake tables.

Each file of the inbox holds Debezium events of all tables, as the connector wrote them. A file is applied once; a
corrected file under the same name is applied again; the DAG may run as often as it likes.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import DAG

from airflow_lake_provider import Debezium, TableLayout
from airflow_lake_provider.assets.lake_table import lake_table_asset
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

INBOX = "{{ var.value.get('shop_inbox', 'inbox/shop') }}/*.jsonl.gz"

with DAG(
    dag_id="ingest_orders",
    schedule=timedelta(minutes=15),
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["lake", "shop"],
    doc_md=__doc__,
):
    products = LakeUpsertOperator(
        task_id="products",
        table="shop.products",
        source=Debezium(
            INBOX,
            table="public.products",
            schema="sku STRING, name STRING, price DECIMAL(12,2), stock INT, weight_kg DOUBLE, attrs STRING, "
            "description STRING, price_history ARRAY<INT>, discontinued BOOLEAN, launched DATE, legacy_code STRING, "
            "image_ref STRING",
        ),
        keys=["sku"],
        outlets=[lake_table_asset("shop.products")],
    )
    # [START orders]
    orders = LakeUpsertOperator(
        task_id="orders",
        table="shop.orders",
        source=Debezium(
            INBOX,
            table="public.orders",
            schema="order_id STRING, customer_id BIGINT, status STRING, placed_at TIMESTAMP, shipped_at TIMESTAMP, "
            "delivery_date DATE, total DECIMAL(12,2), paid BOOLEAN, item_count INT, shipping STRING, comment STRING, "
            "picks ARRAY<INT>",
        ),
        keys=["order_id"],
        create=TableLayout(partition_by=["months(placed_at)"]),
        # The watcher of this asset starts on_new_orders_snapshot, whoever commits; the task adds no event of its own.
        outlets=[lake_table_asset("shop.orders", watch=True)],
    )
    # [END orders]
    order_items = LakeUpsertOperator(
        task_id="order_items",
        table="shop.order_items",
        source=Debezium(
            INBOX,
            table="public.order_items",
            schema="order_id STRING, line_no INT, sku STRING, qty INT, unit_price DECIMAL(12,2), "
            "discount DECIMAL(12,2), options ARRAY<INT>, gift BOOLEAN",
        ),
        keys=["order_id", "line_no"],
        outlets=[lake_table_asset("shop.order_items")],
    )
    # One after the other: on a small machine three drivers at once would only wait for each other.
    products >> orders >> order_items
