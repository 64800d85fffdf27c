"""A DAG for each case of a test, with one upsert into a table of its own."""

from __future__ import annotations

import json
import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_lake_provider import Files
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

ORDERS = f"{os.environ['CONFORMANCE_INBOX']}/1/*.jsonl"

# Arguments of the operator by the name of its DAG and table; a time is in seconds there.
for name, arguments in json.loads(os.environ["UPSERT_CASES"]).items():
    if "execution_timeout" in arguments:
        arguments["execution_timeout"] = timedelta(seconds=arguments["execution_timeout"])
    with DAG(dag_id=name, schedule=None, default_args={"retries": 1, "retry_delay": timedelta(seconds=1)}):
        LakeUpsertOperator(
            task_id="upsert",
            table=f"shop.{name}",
            source=Files(ORDERS, schema="id BIGINT, status STRING, total DECIMAL(12,2)", name="orders"),
            keys=["id"],
            **arguments,
        )
