"""Tuesday of a team: a batch that came too early is rolled back, the table is upgraded, and the batch comes again."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG

from airflow_lake_provider import Files, PySparkFunction
from airflow_lake_provider.operators.rollback import LakeRollbackOperator
from airflow_lake_provider.operators.table_upgrade import LakeTableUpgradeOperator
from airflow_lake_provider.operators.tags import LakeCreateTagOperator, LakeDropTagOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

TABLE = "shop.prices"
# Both tasks apply one batch, as a run and its cleared task do.
TUESDAY: dict[str, Any] = {
    "table": TABLE,
    "source": PySparkFunction(
        "tuesday_prices:cheapest",
        over={
            "prices": Files(
                "{{ var.value.shop_inbox }}/tuesday.jsonl", format="json", schema="sku STRING, price DECIMAL(12,2)"
            )
        },
        params={"most": "{{ 2 * 10 }}"},
        name="tuesday",
    ),
    "keys": ["sku"],
    "batch_id": "tuesday",
    # So that it leaves position deletes before the upgrade, and deletion vectors after it.
    "strategy": "positions",
}

with DAG(dag_id="table_operators", schedule=None):
    tuesday = LakeUpsertOperator(task_id="tuesday", **TUESDAY)
    head = "{{ ti.xcom_pull('tuesday')['committed'][0] }}"
    newest = LakeCreateTagOperator(task_id="newest", table=TABLE, tag="newest")
    rollback = LakeRollbackOperator(task_id="rollback", table=TABLE, tag="prices_20260105", expected_snapshot_id=head)
    moved = LakeCreateTagOperator(task_id="moved", table=TABLE, tag="newest", replace=True)
    dropped = LakeDropTagOperator(task_id="dropped", table=TABLE, tag="newest")
    upgrade = LakeTableUpgradeOperator(task_id="upgrade", table=TABLE)
    tuesday_again = LakeUpsertOperator(task_id="tuesday_again", **TUESDAY)
    tuesday >> newest >> rollback >> moved >> dropped >> upgrade >> tuesday_again
