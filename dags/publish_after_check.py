"""Load the day's prices on a branch, check them there, and publish them to main only if they hold.

Readers of main see all of a day or nothing. A tag keeps each published day for a month, to go back to it with
``roll_back_one_table``. A day that comes again is recognised: nothing is applied, published or tagged twice.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider import Files
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.operators.publish_branch import LakePublishBranchOperator
from airflow_lake_provider.operators.tags import LakeCreateTagOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

TABLE = "shop.prices"
BRANCH = "load_{{ ds_nodash }}"

with DAG(
    dag_id="publish_after_check",
    schedule="0 6 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["lake", "shop"],
    doc_md=__doc__,
):
    load = LakeUpsertOperator(
        task_id="load",
        table=TABLE,
        source=Files(
            "{{ var.value.get('shop_inbox', 'inbox/shop') }}/prices-{{ ds }}.jsonl",
            format="json",
            schema="sku STRING, price DECIMAL(12,2)",
            name="prices_{{ ds }}",
        ),
        keys=["sku"],
        branch=BRANCH,
        # The day is the batch, whichever run brings it.
        batch_id="{{ ds }}",
    )

    @task
    def check(loaded: Any) -> int:
        """Count the rows that would be published, and fail where a price cannot be right."""
        # Of a driver whose report was lost, only its commit is known.
        snapshot = loaded["after"]["snapshot"] if loaded["after"] else loaded["committed"][-1]
        if snapshot is None:
            # An earlier run has published the day and dropped the branch.
            return 0
        prices = LakeCatalogHook().load_table(TABLE)
        wrong = prices.scan(row_filter="price <= 0", snapshot_id=int(snapshot)).count()
        if wrong:
            raise AirflowFailException(f"{TABLE}: {wrong} prices of snapshot {snapshot} are not above 0")
        return prices.scan(snapshot_id=int(snapshot)).count()

    publish = LakePublishBranchOperator(task_id="publish", table=TABLE, branch=BRANCH, drop_branch=True)
    tag = LakeCreateTagOperator(task_id="tag", table=TABLE, tag="prices_{{ ds_nodash }}", max_age=timedelta(days=30))
    check(load.output) >> publish >> tag
