"""Tables in one application, by a list that a task makes: one has a bad file, to another one somebody commits.

All are upserted, but for one that is appended to.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, AssetAlias, Variable, task

from airflow_lake_provider.assets.lake_table import lake_table_asset
from airflow_lake_provider.operators.lake_application import lake_application

# The good ones, four unless told otherwise.
GOOD = [f"good_{number}" for number in range(int(os.environ.get("LAKE_GOOD_TABLES", "4")))]
# Each has one row, so that an append that was made twice shows.
APPENDED = GOOD[-1:]
TABLES = [*GOOD[:2], "bad", "busy", *GOOD[2:]]

with DAG(dag_id="many_tables", schedule=None):

    @task
    def upserts() -> list[dict[str, Any]]:
        """Return a task for each table."""
        inbox = Variable.get("shop_inbox")
        return [
            {
                **({"action": "append"} if table in APPENDED else {"action": "upsert", "keys": ["id"]}),
                "table": f"many.{table}",
                "source": {
                    "type": "files",
                    "path": f"{inbox}/many/{table}.jsonl",
                    "format": "json",
                    "schema": "id BIGINT, name STRING",
                },
                "max_attempts": 1,
            }
            for table in TABLES
        ]

    lake_application(
        "load",
        tasks=upserts(),
        parallelism=2,
        retries=1,
        retry_delay=timedelta(seconds=1),
        # Which tables there are is known when they are loaded.
        outlets=[AssetAlias("many")],
    )

for table in TABLES:
    with DAG(dag_id=f"after_{table}", schedule=[lake_table_asset(f"many.{table}")], is_paused_upon_creation=False):
        EmptyOperator(task_id="seen")
