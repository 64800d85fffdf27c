"""Orders of a topic and change events of another; tasks fail behind their commit where the run asks for it."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_lake_provider import DebeziumTopic, KafkaTopic
from airflow_lake_provider.operators.append import LakeAppendOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator


def _lose_the_first_try(context: Any, report: Any) -> None:
    if context["params"]["fails"] and context["ti"].try_number == 1:
        raise RuntimeError("the worker is gone")


with DAG(
    dag_id="topic_once",
    schedule=None,
    params={"fails": False},
    default_args={
        # Beside those of all drivers of the tests, whose archive of classes they share.
        "jars": os.environ.get("CONNECTOR_JARS"),
        "retries": 1,
        "retry_delay": timedelta(seconds=0),
        "post_execute": _lose_the_first_try,
    },
):
    LakeAppendOperator(
        task_id="orders",
        table="shop.orders",
        source=KafkaTopic("kafka_shop", "orders", schema="id BIGINT, name STRING"),
    )
    LakeUpsertOperator(
        task_id="items",
        table="shop.items",
        source=DebeziumTopic(
            "kafka_shop", "shop.public.items", table="public.items", schema="id BIGINT, n INT, note STRING"
        ),
        keys=["id"],
    )
