"""Every load of the table in docs/how-to/loads.md, by partition key, so that a backfill loads each day again."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, CronPartitionTimetable

from airflow_lake_provider import (
    Changes,
    DeadLetter,
    Debezium,
    Files,
    History,
    JdbcTable,
    LakeTable,
    PySparkFunction,
    Query,
    RepairedLetters,
    SchemaContract,
    TableLayout,
)
from airflow_lake_provider.operators.lake_application import lake_application

DAILY = CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format="%Y-%m-%d")
DAY = "{{ var.value.shop_inbox }}/every_load/{{ partition_key }}"
JOIN = """
SELECT c.id, c.name, w.name AS whole, c._change_type FROM changed c LEFT JOIN whole w ON c.id = w.id
"""


def files(kind: str, name: str | None = None) -> Files:
    """Return the file of a day that a load reads."""
    return Files(f"{DAY}/{kind}.jsonl", format="json", schema="id BIGINT, name STRING, day DATE", name=name)


OF_MARIADB: dict[str, Any] = {
    "action": "upsert",
    "table": "every.mariadb",
    "source": JdbcTable("my_every_load", "orders", watermark="changed"),
    "keys": ["id"],
}
# The driver of MariaDB, beside the jars of [lake] spark_jars; none where no server can be started.
DRIVER_JARS = os.environ.get("DRIVER_JARS")
FIRST: list[dict[str, Any]] = [
    {
        "action": "append",
        "table": "every.append",
        "source": files("events", "events"),
        "dead_letter": DeadLetter(max_share=0.5),
    },
    {"action": "upsert", "table": "every.upsert", "source": files("changes"), "keys": ["id"]},
    {
        "action": "overwrite-partitions",
        "table": "every.overwrite",
        "source": files("days"),
        "where": "day = '{{ partition_key }}'",
        "create": TableLayout(partition_by=["day"]),
    },
    *([OF_MARIADB] if DRIVER_JARS else []),
    {
        "action": "upsert",
        "table": "every.complete",
        "source": files("whole"),
        "keys": ["id"],
        "complete": True,
        "max_deleted_share": 0.5,
    },
    {
        "action": "upsert",
        "table": "every.history",
        "source": files("changes"),
        "keys": ["id"],
        "order_by": ["day"],
        "merge_engine": History(track=["name"]),
    },
    {
        "action": "append",
        "table": "every.function",
        "source": PySparkFunction("every_load_function:numbers", params={"day": "{{ partition_key }}"}),
        "batch_id": "{{ partition_key }}",
    },
    {
        "action": "upsert",
        "table": "every.debezium",
        "source": Debezium(f"{DAY}/stream.jsonl", table="public.items", schema="id BIGINT, n INT, note STRING"),
        "keys": ["id"],
    },
    {
        "action": "upsert",
        "table": "every.jdbc",
        "source": JdbcTable("pg_every_load", "public.orders", watermark="changed"),
        "keys": ["id"],
    },
]
REPAIRED = """concat('{"id": -', right(record, 1), ', "name": "', record, '"}')"""
SECOND: list[dict[str, Any]] = [
    {
        "action": "update-rows",
        "table": "lake_ops.dead_letters",
        "assignments": {"repaired": REPAIRED},
        "where": "target = 'every.append' AND repaired IS NULL",
    },
    {"action": "upsert", "table": "every.followed", "source": Changes("every.upsert"), "keys": ["id"]},
    {
        "action": "upsert",
        "table": "every.joined",
        "source": Query(JOIN, over={"changed": Changes("every.upsert"), "whole": LakeTable("every.complete")}),
        "keys": ["id"],
    },
    {
        "action": "append",
        "table": "every.append",
        "source": RepairedLetters(name="repaired"),
        "schema_contract": SchemaContract(missing_columns="null"),
    },
    {
        "action": "incremental",
        "source": "every.upsert",
        "target": "every.copied",
        "consumer": "every_load",
        "keys": ["id"],
        "query": "SELECT id, name, _change_type FROM changes",
    },
]

with DAG(
    dag_id="every_load",
    schedule=DAILY,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    # No run but those of a backfill.
    end_date=datetime(2026, 4, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 1, "retry_delay": timedelta(seconds=1)},
):
    first = lake_application("first", tasks=FIRST, name="every first load", jars=DRIVER_JARS)
    first >> lake_application("second", tasks=SECOND, name="every second load")
