"""A DAG on many watched tables: as many as the environment says, with watchers of this package or of Airflow's own."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetWatcher

TABLES = [f"bench.t{number:04d}" for number in range(int(os.environ["LAKE_BENCH_TABLES"]))]
INTERVAL = float(os.environ["LAKE_BENCH_INTERVAL"])


def official_asset(table: str) -> Asset:
    """The asset of a table with the watcher of apache-airflow-providers-apache-iceberg."""
    from airflow.providers.apache.iceberg.triggers.iceberg import IcebergTableSnapshotTrigger

    trigger = IcebergTableSnapshotTrigger(table=table, iceberg_conn_id="lake", poll_interval=INTERVAL)
    return Asset(name=table, watchers=[AssetWatcher(name=table, trigger=trigger)])


def our_asset(table: str, lake_conn_id: str = "lake_default") -> Asset:
    """The asset of a table with this package's watcher."""
    from airflow_lake_provider.assets.lake_table import lake_table_asset

    return lake_table_asset(table, watch=True, poll_interval=INTERVAL, lake_conn_id=lake_conn_id)


make = {"ours": our_asset, "official": official_asset}[os.environ["LAKE_BENCH_TRIGGER"]]
assets = [make(table) for table in TABLES]
assets += [our_asset(f"silent.t{number}", "silent") for number in range(int(os.environ.get("LAKE_BENCH_SILENT", "0")))]

with DAG(
    "on_watched_tables",
    schedule=assets or None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    is_paused_upon_creation=False,
):
    EmptyOperator(task_id="started")
