"""Maintain one table by hand: press Trigger, fill in the form, read the report in the task's XCom.

The form takes names and choices only, never SQL. Which tables and catalogs it may name is said in this file, and so is
the least age of what an expiry removes, one day: no form changes these.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_lake_provider.operators.allowed_tables import form_pattern
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator

# Patterns of whole names; * stands for anything.
TABLES = ["shop.*", "mart.*"]
# The form refuses other names before there is a run.
TABLE = form_pattern(TABLES)
# Connections to the catalogs of these tables. The lake page has its button for tables of these alone.
CATALOGS = ["lake_default"]

with DAG(
    dag_id="maintain_one_table",
    schedule=None,
    params={
        "table": Param("shop.orders", type="string", pattern=TABLE, title="Table", description=", ".join(TABLES)),
        "action": Param("compaction", enum=["compaction", "snapshot-expiry"], title="What to do"),
        "lake_conn_id": Param(CATALOGS[0], enum=CATALOGS, title="Catalog", description="Its connection"),
        "dry_run": Param(True, type="boolean", title="Dry run", description="Only say what would happen"),
        "level": Param("auto", enum=["auto", "minor", "major", "full"], title="Compaction level", section="Compaction"),
        "strategy": Param("binpack", enum=["binpack", "sort"], title="Compaction strategy", section="Compaction"),
        "older_than": Param(
            None, type=["null", "string"], pattern=r"^P[1-9][0-9]{0,3}D$", title="Expire older than", section="Expiry"
        ),
        "retain_last": Param(None, type=["null", "integer"], minimum=1, title="Retain last", section="Expiry"),
    },
    tags=["lake", "maintenance"],
    doc_md=__doc__,
):

    @task.branch
    def chosen_action(params: dict[str, Any] | None = None) -> str:
        """Name the task that the form chose."""
        return str((params or {})["action"]).replace("-", "_")

    compaction = LakeCompactionOperator(
        task_id="compaction",
        table="{{ params.table }}",
        lake_conn_id="{{ params.lake_conn_id }}",
        allowed_tables=TABLES,
        level="{{ params.level }}",
        strategy="{{ params.strategy }}",
        dry_run="{{ params.dry_run }}",
    )
    snapshot_expiry = LakeSnapshotExpiryOperator(
        task_id="snapshot_expiry",
        table="{{ params.table }}",
        lake_conn_id="{{ params.lake_conn_id }}",
        allowed_tables=TABLES,
        minimum_age=timedelta(days=1),
        older_than="{{ params.older_than or '' }}",
        retain_last="{{ params.retain_last or '' }}",
        dry_run="{{ params.dry_run }}",
    )
    chosen_action() >> [compaction, snapshot_expiry]
