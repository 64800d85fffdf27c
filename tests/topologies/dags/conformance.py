"""The flow of every topology: upserts, a foreign commit, a sensor, changes into a second table, upkeep."""

from __future__ import annotations

import json
import os
from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TriggerRule, task

from airflow_lake_provider import Files, TableLayout
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from airflow_lake_provider.sensors.lake_snapshot import LakeSnapshotSensor

INBOX = os.environ["CONFORMANCE_INBOX"]
SCHEMA = "id BIGINT, status STRING, total DECIMAL(12,2)"
LAYOUT = TableLayout(properties={"format-version": os.environ["CONFORMANCE_FORMAT_VERSION"]})
# Tasks that have to fail on this topology.
REFUSED = json.loads(os.environ["CONFORMANCE_REFUSED"])
# Of every operator that submits to Spark.
ARGUMENTS = json.loads(os.environ["CONFORMANCE_ARGUMENTS"])
ORDERS, COPY = "shop.orders", "shop.copy"


def upsert(number: int) -> LakeUpsertOperator:
    return LakeUpsertOperator(
        task_id=f"upsert_{number}",
        table=ORDERS,
        source=Files(f"{INBOX}/{number}/*.jsonl", schema=SCHEMA, name="orders"),
        keys=["id"],
        create=LAYOUT,
        **ARGUMENTS,
    )


def copy(number: int) -> LakeIncrementalOperator:
    return LakeIncrementalOperator(
        task_id=f"copy_{number}",
        source=ORDERS,
        target=COPY,
        consumer="copy",
        keys=["id"],
        query="SELECT id, status, total * 2 AS doubled, _change_type FROM changes",
        create=LAYOUT,
        **ARGUMENTS,
    )


def after(task_id: str) -> TriggerRule:
    return TriggerRule.ALL_FAILED if task_id in REFUSED else TriggerRule.ALL_SUCCESS


@task
def foreign_commit() -> None:
    """Append a row without the package's upsert."""
    from tests.topologies.foreign_writer import append_order

    append_order(ORDERS)


with DAG(dag_id="conformance", schedule=None, default_args={"retries": 0}):
    (
        upsert(1)
        >> foreign_commit()
        >> upsert(2)
        >> LakeSnapshotSensor(task_id="new_snapshot", table=ORDERS, consumer="copy", timeout=60, poke_interval=2)
        >> copy(1)
        >> LakeDeleteRowsOperator(
            task_id="delete", table=ORDERS, where="id = 3", trigger_rule=after("copy_1"), **ARGUMENTS
        )
        >> copy(2)
        >> LakeCompactionOperator(
            task_id="compaction", table=ORDERS, level="major", trigger_rule=after("copy_2"), **ARGUMENTS
        )
        >> LakeSnapshotExpiryOperator(
            task_id="expiry",
            table=ORDERS,
            older_than=timedelta(milliseconds=1),
            minimum_age=timedelta(0),
            **ARGUMENTS,
        )
        >> EmptyOperator(task_id="end", trigger_rule=after("expiry"))
    )
