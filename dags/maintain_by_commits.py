"""Maintain the shop's tables when commits have made it due, and not only by night.

A commit to one of the tables starts a run, which looks at the tables that changed and at no others. A table is due
once 20 commits, 20 small files or 20 delete files have come since its last compaction. Nothing due starts no Spark.
Commits that come while a run is active share the next one, and ``compaction.every`` of the policy, 15 minutes by
default, lies between two compactions of a table.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_lake_provider.assets.lake_table import lake_table_asset
from airflow_lake_provider.operators.lake_maintenance import lake_maintenance

with DAG(
    dag_id="maintain_by_commits",
    schedule=(
        # Others write to it, too. Of the two others, the tasks that write to them make the events.
        lake_table_asset("shop.orders", watch=True)
        | lake_table_asset("shop.order_items")
        | lake_table_asset("shop.products")
    ),
    max_active_runs=1,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=5)},
    tags=["lake", "maintenance"],
    doc_md=__doc__,
):
    since_the_last = {"after_commits": 20, "after_small_files": 20, "after_delete_files": 20}
    lake_maintenance("by_commits", tables=["shop.*"], only_changed=True, policy={"compaction": since_the_last})
