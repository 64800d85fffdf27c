"""Keep the lake tables small: expire old snapshots, then rewrite small files and files with deletes.

A table that needs nothing costs no Spark start. Writers go first: a compaction that meets one tries again and then
reports a conflict, and the next night does the rest. A table that fails holds up no other, and the night is red.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import DAG, Param, TriggerRule, task, task_group
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator

TABLES = ["shop.products", "shop.orders", "shop.order_items", "mart.order_revenue"]

with DAG(
    dag_id="nightly_maintenance",
    schedule="30 2 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    max_active_tasks=2,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=5)},
    params={
        "older_than": Param("P5D", type="string", pattern=r"^P[1-9][0-9]{0,3}D$", title="Expire snapshots older than"),
        "level": Param("auto", enum=["auto", "minor", "major", "full"], title="Compaction level"),
        "dry_run": Param(False, type="boolean", title="Dry run", description="Only say what would happen"),
    },
    tags=["lake", "maintenance"],
    doc_md=__doc__,
):

    @task_group
    def keep_small(table: str) -> None:
        """Expire one table, then compact it, also where the expiry failed; no table waits for another one."""
        expire = LakeSnapshotExpiryOperator(
            task_id="expire",
            table=table,
            older_than="{{ params.older_than }}",
            minimum_age=timedelta(days=1),
            retain_last=3,
            dry_run="{{ params.dry_run }}",
        )
        compact = LakeCompactionOperator(
            task_id="compact",
            table=table,
            level="{{ params.level }}",
            dry_run="{{ params.dry_run }}",
            trigger_rule=TriggerRule.ALL_DONE,
        )
        # Expiry first: it leaves the compaction fewer manifests to read.
        expire >> compact
        expire >> night_is_red
        compact >> night_is_red

    @task(trigger_rule=TriggerRule.ONE_FAILED, retries=0)
    def red() -> None:
        """Fail the night where a table failed, as a run's state is that of its last tasks."""
        raise AirflowFailException("a table failed; see the labels of the instances of expire and compact")

    night_is_red = red()
    keep_small.expand(table=TABLES)
