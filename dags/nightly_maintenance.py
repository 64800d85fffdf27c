"""Keep all tables healthy: see from metadata what is due, and expire and compact that, in few Spark applications.

Where nothing is due, Spark is not started. Writers go first: a compaction that meets one tries again and then reports
a conflict, and the next night does the rest. A table that is broken or fails holds up no other, and the night is red.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import DAG, Param

from airflow_lake_provider.operators.lake_maintenance import lake_maintenance

with DAG(
    dag_id="nightly_maintenance",
    schedule="30 2 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=5)},
    params={
        "tables": Param("*", type="string", pattern=r"^[A-Za-z0-9_.*?-]+$", title="Tables"),
        "dry_run": Param(False, type="boolean", title="Dry run", description="Only say what would happen"),
    },
    tags=["lake", "maintenance"],
    doc_md=__doc__,
):
    lake_maintenance(
        "nightly",
        tables="{{ params.tables }}",
        allowed_tables=["shop.*", "mart.*", "lake_ops.*"],  # The last are history and leases, this package's own.
        dry_run="{{ params.dry_run }}",
    )
