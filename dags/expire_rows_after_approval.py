"""Remove old orders every week, once somebody has approved what would go.

The worker counts from metadata which rows are too old. Where none is, the run ends there, and nobody is asked. Else the
task ``approve`` waits with the numbers, on the page *Required Actions*. Without an answer it counts as rejected. Orders
that grow too old meanwhile stay until the next run: ``before`` is the limit that was approved.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, task

from airflow_lake_provider.operators.row_expiry import LakeRowExpiryOperator

OLD_ORDERS: dict[str, Any] = {"table": "shop.orders", "column": "placed_at", "keep": "{{ params.keep }}"}

with DAG(
    dag_id="expire_rows_after_approval",
    schedule="0 5 * * 1",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=5)},
    params={"keep": Param("P730D", type="string", pattern=r"^P[1-9][0-9]{2,3}D$", title="Keep orders for")},
    tags=["lake", "maintenance"],
    doc_md=__doc__,
):
    look = LakeRowExpiryOperator(task_id="look", **OLD_ORDERS, dry_run=True)

    @task.short_circuit
    def is_due(report: Any) -> bool:
        """Go on only where rows are too old."""
        return bool(report["outcome"] == "planned")

    approve = ApprovalOperator(
        task_id="approve",
        subject="Remove old orders?",
        body="{{ ti.xcom_pull(task_ids='look')['reason'] }}",
        defaults=ApprovalOperator.REJECT,
        response_timeout=timedelta(days=2),
        retries=0,
    )
    approved = "{{ ti.xcom_pull(task_ids='look')['expired_before'] }}"
    expire = LakeRowExpiryOperator(task_id="expire", **OLD_ORDERS, before=approved, max_share=0.2)

    is_due(look.output) >> approve >> expire
