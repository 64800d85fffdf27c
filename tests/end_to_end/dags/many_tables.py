"""Tables in one application: one has a bad file, and in one another writer commits all the time."""

from __future__ import annotations

import os

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_lake_provider import Files
from airflow_lake_provider.assets.lake_table import lake_table_asset
from airflow_lake_provider.operators.lake_application import lake_application

# The good ones, four unless told otherwise.
GOOD = [f"good_{number}" for number in range(int(os.environ.get("LAKE_GOOD_TABLES", "4")))]
TABLES = [*GOOD[:2], "bad", "busy", *GOOD[2:]]
ASSETS = {table: lake_table_asset(f"many.{table}") for table in TABLES}

with DAG(dag_id="many_tables", schedule=None):
    lake_application(
        "load",
        tasks=[
            {
                "action": "upsert",
                "table": f"many.{table}",
                "source": Files(
                    "{{ var.value.shop_inbox }}/many/" + table + ".jsonl",
                    format="json",
                    schema="id BIGINT, name STRING",
                ),
                "keys": ["id"],
                "max_attempts": 1,
            }
            for table in TABLES
        ],
        parallelism=2,
        outlets=list(ASSETS.values()),
    )

for table, asset in ASSETS.items():
    with DAG(dag_id=f"after_{table}", schedule=[asset], is_paused_upon_creation=False):
        EmptyOperator(task_id="seen")
