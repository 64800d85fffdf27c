"""Days of a table that are loaded by partition key, so that a backfill loads them again."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, CronPartitionTimetable

from airflow_lake_provider import Files, TableLayout
from airflow_lake_provider.operators.overwrite_partitions import LakeOverwritePartitionsOperator

DAILY = CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format="%Y-%m-%d")

with DAG(dag_id="days", schedule=DAILY, start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False):
    # [START task]
    load = LakeOverwritePartitionsOperator(
        task_id="load",
        table="days.orders",
        source=Files(
            "{{ var.value.shop_inbox }}/days/{{ partition_key }}/*.jsonl",
            format="json",
            schema="id BIGINT, name STRING, day DATE",
        ),
        where="day = '{{ partition_key }}'",
        create=TableLayout(partition_by=["day"]),
    )
    # [END task]
