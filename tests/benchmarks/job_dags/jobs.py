"""The same small upserts by twenty operators and by one application, one after another and two at a time."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, chain

from airflow_lake_provider import Files
from airflow_lake_provider.operators.lake_application import lake_application
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

TABLES = 20
SIDES = ("operators", "operators_by_two", "application", "application_by_two", "bare")


def upsert(side: str, number: int) -> dict[str, Any]:
    table = f"{side}_{number:02d}"
    files = Files(
        "{{ var.value.shop_inbox }}/" + table + "/*.jsonl",
        format="json",
        schema="id BIGINT, name STRING, n INT",
        name=table,
    )
    return {"table": f"bench.{table}", "source": files, "keys": ["id"]}


def tasks(side: str) -> list[dict[str, Any]]:
    return [{"action": "upsert", **upsert(side, number)} for number in range(TABLES)]


with DAG(dag_id="build", schedule=None):
    lake_application("build", tasks=[task for side in SIDES for task in tasks(side)])

with DAG(dag_id="operators", schedule=None):
    chain(*(LakeUpsertOperator(task_id=f"t{number:02d}", **upsert("operators", number)) for number in range(TABLES)))

with DAG(dag_id="operators_by_two", schedule=None, max_active_tasks=2):
    for number in range(TABLES):
        LakeUpsertOperator(task_id=f"t{number:02d}", **upsert("operators_by_two", number))

with DAG(dag_id="application", schedule=None):
    lake_application("run", tasks=tasks("application"))

with DAG(dag_id="application_by_two", schedule=None):
    lake_application("run", tasks=tasks("application_by_two"), parallelism=2)
