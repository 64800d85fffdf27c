"""One upsert and nothing else, for tests that look over its shoulder."""

from __future__ import annotations

import os

from airflow.sdk import DAG

from airflow_lake_provider import Debezium
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

with DAG(dag_id="products_once", schedule=None):
    LakeUpsertOperator(
        task_id="products",
        table="shop.products",
        source=Debezium(
            "{{ var.value.shop_inbox }}/*.jsonl.gz",
            table="public.products",
            schema="sku STRING, name STRING, price DECIMAL(12,2), stock INT, weight_kg DOUBLE, attrs STRING, "
            "description STRING, price_history ARRAY<INT>, discontinued BOOLEAN, launched DATE, legacy_code STRING, "
            "image_ref STRING",
        ),
        keys=["sku"],
        conf={
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": os.environ["SPARK_EVENTS"],
            # So that a test can search it.
            "spark.eventLog.compress": "false",
        }
        if "SPARK_EVENTS" in os.environ
        else None,
    )
